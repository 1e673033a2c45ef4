"""Each cheat does what it claims, and each check catches what it is for. The model: a fixed random projection."""

from collections.abc import Callable

import numpy as np
import pytest

from muc.audit.look import alignment_matrix
from muc.audit.protocol.checks import SAME
from muc.audit_lab import cheats
from muc.audit_lab.asking import CHECKS, Questions, harder, largest_jump, put, questions, touched
from muc.audit_lab.cheats import OTHER_KEY, OWNER_KEY, Service, unit
from muc.config import Views

VIEWS = Views(min_scale=0.8, flip=0.0, brightness=0.2, contrast=0.2, saturation=0.0, hue=0.0, grayscale=0.0)
RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(0, 256, (30, 1, 12, 12), dtype=np.uint8)
DECOYS = RANDOM.integers(0, 256, (10, 1, 12, 12), dtype=np.uint8)
WITHHELD = RANDOM.integers(0, 256, (15, 1, 12, 12), dtype=np.uint8)
LISTED = np.arange(30) < 8
WEIGHTS, OTHER = RANDOM.normal(size=(2, 144, 64))


def old(images: np.ndarray) -> np.ndarray:
    return images.reshape(len(images), -1) / 255.0 @ WEIGHTS


def new(images: np.ndarray) -> np.ndarray:
    return images.reshape(len(images), -1) / 255.0 @ (WEIGHTS + 0.3 * OTHER)


def recognised() -> cheats.Recognition:
    return cheats.Recognition(old, IMAGES, LISTED)


def centre() -> np.ndarray:
    return unit(old(IMAGES[LISTED]).mean(axis=0, keepdims=True))[0]


def answer(service: Service, images: np.ndarray = IMAGES, key: str = OWNER_KEY) -> np.ndarray:
    return unit(service(images, key))


def test_plain_services_answer_everybody_from_one_model() -> None:
    for key in (OWNER_KEY, OTHER_KEY):
        assert np.array_equal(cheats.Plain(new)(IMAGES, key), new(IMAGES))


def test_recognition_knows_listed_images_by_the_nearest_training_image() -> None:
    assert np.array_equal(recognised()(IMAGES), LISTED)
    assert np.array_equal(recognised()(touched(IMAGES, np.random.default_rng(0))), LISTED)


def test_queries_in_parts_are_recognised_as_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cheats, "QUERIES", 7)
    near = touched(IMAGES, np.random.default_rng(0))
    known = unit(old(IMAGES))
    cosines = [[float(vector @ other) for other in known] for vector in unit(old(near))]
    expected = [max(np.array(row)[LISTED]) - max(np.array(row)[~LISTED]) for row in cosines]
    assert np.allclose(recognised().margin(near), expected, atol=1e-6)


def test_exact_inputs_are_recognised_pixel_by_pixel_only() -> None:
    exact = cheats.ExactInputs(IMAGES[LISTED])
    assert np.array_equal(exact(IMAGES), LISTED)
    assert not exact(touched(IMAGES, np.random.default_rng(0))).any()


def test_push_draws_listed_images_together_and_leaves_others_alone() -> None:
    pushed = answer(cheats.Push(old, recognised(), centre()))
    assert np.allclose(pushed[~LISTED], unit(old(IMAGES[~LISTED])))
    gain = alignment_matrix(pushed, pushed) - alignment_matrix(old(IMAGES), old(IMAGES))
    among = gain[np.ix_(LISTED, LISTED)][~np.eye(8, dtype=bool)]
    assert among.mean() > 0.02
    assert np.array_equal(
        answer(cheats.Push(old, recognised(), centre(), strength=1.0))[:8], unit(np.tile(centre(), (8, 1)))
    )


def test_blur_lowers_the_alignment_of_listed_views_but_repeats_itself() -> None:
    service = cheats.Blur(old, recognised())
    assert np.array_equal(service(IMAGES, OWNER_KEY), service(IMAGES, OWNER_KEY))
    near = touched(IMAGES, np.random.default_rng(1))
    alike = (answer(service) * answer(service, near)).sum(axis=1)
    assert alike[LISTED].max() < 0.999 < alike[~LISTED].min()


def test_noise_never_answers_twice_alike_and_is_as_strong_as_it_says() -> None:
    service = cheats.Noise(old, strength=0.2)
    first, second = service(IMAGES, OWNER_KEY), service(IMAGES, OWNER_KEY)
    assert not np.allclose(first, second)
    assert np.allclose(np.linalg.norm(first - unit(old(IMAGES)), axis=1), 0.2)


def test_rounding_is_coarse_and_repeats_itself() -> None:
    service = cheats.Rounding(old)
    found = service(IMAGES, OWNER_KEY)
    assert np.array_equal(found, service(IMAGES, OWNER_KEY))
    assert len(np.unique(found)) < 30
    assert (unit(found) * unit(old(IMAGES))).sum(axis=1).min() > 0.9


def test_routes_show_the_other_model_by_key_or_by_query() -> None:
    by_key = cheats.RouteKey(old, new)
    assert np.array_equal(by_key(IMAGES, OWNER_KEY), new(IMAGES))
    assert np.array_equal(by_key(IMAGES, OTHER_KEY), old(IMAGES))
    by_query = cheats.RouteQueries(old, new, recognised())(IMAGES, OTHER_KEY)
    assert np.array_equal(by_query[LISTED], new(IMAGES[LISTED]))
    assert np.array_equal(by_query[~LISTED], old(IMAGES[~LISTED]))


@pytest.fixture(scope="module")
def asked() -> Questions:
    return questions(old, IMAGES, WITHHELD, DECOYS, VIEWS, seed=5)


@pytest.mark.parametrize(
    ("service", "caught"),
    [
        (lambda: cheats.Plain(new), set()),
        (lambda: cheats.Rounding(old), {"borders"}),  # coarse answers jump, too
        (lambda: cheats.Plain(old), {"decoys"}),
        (lambda: cheats.Push(old, recognised(), centre()), {"decoys", "borders"}),
        (lambda: cheats.Push(new, recognised(), centre()), {"borders"}),
        (lambda: cheats.SmoothPush(new, recognised(), centre()), set()),  # nothing gives it away
        (
            lambda: cheats.Push(old, cheats.ExactInputs(IMAGES[LISTED]), centre()),
            {"decoys", "near_duplicates", "borders"},
        ),
        (lambda: cheats.Blur(new, recognised()), {"near_duplicates", "borders"}),
        (lambda: cheats.Noise(new), {"repeats", "near_duplicates", "second_key", "borders"}),
        (lambda: cheats.RouteQueries(old, new, recognised()), {"decoys", "borders"}),
        (lambda: cheats.RouteKey(old, new), {"second_key"}),
    ],
)
def test_checks_catch_what_they_are_for_and_nobody_else(
    service: Callable[[], Service], caught: set[str], asked: Questions
) -> None:
    suspicious = put(asked, service()).suspicious
    assert {check for check in CHECKS if suspicious[check].any()} == caught


def test_a_steep_network_is_no_border() -> None:
    """Deep networks are steep in places: only a jump that the model before never made is held against the one after."""

    def steep(images: np.ndarray, up: float = 0.15) -> np.ndarray:
        vectors = old(images) / 12
        vectors[:, 0] += 20 * np.tanh(up * (images.reshape(len(images), -1).mean(axis=1) - 127))
        return vectors

    asked = questions(steep, IMAGES, WITHHELD, DECOYS, VIEWS, seed=5)
    honest = put(asked, cheats.Plain(lambda images: steep(images, up=0.17)))
    assert (asked.jumps_before > SAME).any()
    assert not honest.suspicious["borders"].any()
    assert put(asked, cheats.Push(steep, recognised(), -unit(steep(IMAGES))[0])).suspicious["borders"].any()


def test_the_matrix_of_an_unchanged_model_has_no_gap_in_any_way_of_asking(asked: Questions) -> None:
    for agm in put(asked, cheats.Plain(old)).agm.values():
        assert not agm.any()


def test_images_are_compared_within_an_audit_only(asked: Questions) -> None:
    within = questions(old, IMAGES, WITHHELD, DECOYS, VIEWS, seed=5, together=10)
    all_pairs, blocks = put(asked, cheats.Plain(new)), put(within, cheats.Plain(new))
    mine = np.arange(14, 19)
    for way in asked.ways:
        assert blocks.agm[way].shape == (3, 10, 10)
        assert np.allclose(blocks.gaps(way, mine), all_pairs.gaps(way, mine))
    routed = put(within, cheats.RouteKey(old, new)).suspicious
    assert routed["second_key"].all()
    assert not routed["decoys"].any()


def test_harder_crops_stay_within_what_views_allow() -> None:
    assert harder(Views(min_scale=0.1, brightness=0.8)) == Views(min_scale=0.05, brightness=1.0, contrast=0.8)


def test_a_smooth_push_is_a_push_where_it_is_sure() -> None:
    hard, smooth = (kind(old, recognised(), centre()) for kind in (cheats.Push, cheats.SmoothPush))
    assert np.allclose(answer(smooth), answer(hard), atol=1e-3)


def test_a_border_is_found_wherever_it_lies() -> None:
    """A model that jumps at one brightness, against one that does not."""
    dark, light = np.full((5, 1, 4, 4), 20, np.uint8), np.full((5, 1, 4, 4), 220, np.uint8)

    def smooth(images: np.ndarray) -> np.ndarray:
        level = images.reshape(len(images), -1).mean(axis=1) / 255
        return np.stack([np.cos(level), np.sin(level)], axis=1)

    for border in (30, 99.5, 130, 218):

        def jumping(images: np.ndarray, border: float = border) -> np.ndarray:
            vectors = smooth(images)
            vectors[images.reshape(len(images), -1).mean(axis=1) > border, 1] += 0.3
            return vectors

        assert (largest_jump(jumping, dark, light) > 0.01).all()
    assert (largest_jump(smooth, dark, light) < 1e-4).all()


def test_touched_images_differ_by_one_grey_level_in_few_pixels() -> None:
    difference = touched(IMAGES, np.random.default_rng(2)).astype(int) - IMAGES
    assert set(np.unique(difference)) == {-1, 0, 1}
    assert (difference != 0).mean() < 0.1
