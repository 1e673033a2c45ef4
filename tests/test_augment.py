"""Views operation by operation against torchvision's, image by image, and what is drawn against its distributions."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch import Generator, Tensor
from torchvision.transforms import RandomResizedCrop
from torchvision.transforms import functional as tv
from torchvision.transforms.v2 import functional as tv2

from muc import augment
from muc.augment import BRIGHTNESS, CONTRAST, HUE, SATURATION, ViewParameters
from muc.config import IMAGENET_MEAN, IMAGENET_STD, Views

COUNTS = (1, 2, 3, 5, 8)
ALWAYS = Views(jitter=1.0, grayscale=0.5)


def images(n: int, channels: int = 3, size: int = 16, seed: int = 0) -> Tensor:
    """Noise, smooth colours, plain gray, black and white: also where hue and saturation are undefined."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randint(256, (n, channels, size, size), generator=generator, dtype=torch.uint8)
    noise[:, :, 0] = torch.randint(256, (n, 1, size), generator=generator, dtype=torch.uint8)  # a gray row
    noise[:, :, 1], noise[:, :, 2] = 0, 255
    noise[:, :, 3] = noise[:, :, 3] // 64 * 64  # ties between channels
    return noise


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def torchvision_view(image: Tensor, parameters: ViewParameters, i: int, size: int) -> Tensor:
    """One view, as torchvision makes it of a float image with the same parameters."""
    top, left, height, width = (int(v) for v in parameters.box[i])
    x = tv.resized_crop(image.float() / 255, top, left, height, width, [size, size], antialias=True)
    if parameters.flip[i]:
        x = tv.hflip(x)
    if parameters.jitter[i]:
        adjust = {
            BRIGHTNESS: tv.adjust_brightness,
            CONTRAST: tv.adjust_contrast,
            SATURATION: tv.adjust_saturation,
            HUE: tv.adjust_hue,
        }
        for kind in parameters.order[i].tolist():
            x = adjust[kind](x, float(parameters.factors[i, kind]))
    if parameters.grayscale[i] and len(x) == 3:
        x = tv.rgb_to_grayscale(x, num_output_channels=3)
    return x


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("n", COUNTS)
@given(seed=st.integers(0, 2**32 - 1), source=st.sampled_from([8, 16, 33]))
def test_views_are_torchvisions_for_the_same_parameters(channels: int, n: int, seed: int, source: int) -> None:
    """Crop, flip, each image's jitter in its own order, grayscale: together, for any number of images."""
    pixels = images(n, channels, source, seed % 1000)
    parameters = augment.draw(n, source, source, ALWAYS, generator(seed))
    made = augment.apply(pixels, parameters, 16, ALWAYS)
    expected = torch.stack([torchvision_view(pixels[i], parameters, i, 16) for i in range(n)])
    torch.testing.assert_close(made, expected, rtol=0, atol=2e-5)


def test_views_of_the_paper_are_torchvisions_on_a_large_batch() -> None:
    pixels, parameters = images(64, size=32), augment.draw(64, 32, 32, Views(), generator())
    made = augment.apply(pixels, parameters, 32, Views())
    expected = torch.stack([torchvision_view(pixels[i], parameters, i, 32) for i in range(64)])
    torch.testing.assert_close(made, expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize(("source", "size"), [(32, 32), (64, 32), (65, 32), (16, 32), (8, 5), (7, 7)])
def test_resized_crop_is_torchvisions_antialiased_one(source: int, size: int) -> None:
    n = 24
    pixels = images(n, size=source).float() / 255
    box = augment.draw(n, source, source, Views(min_scale=0.02), generator(source)).box
    box[0] = torch.tensor([0.0, 0.0, source, source])
    box[1] = torch.tensor([source - 1.0, source - 1.0, 1, 1])
    flip = torch.arange(n) % 2 == 0
    made = augment.resized_crop(pixels, box, flip, size)
    for image, (top, left, height, width), flipped, result in zip(pixels, box.int().tolist(), flip, made, strict=True):
        expected = tv2.resized_crop(image, top, left, height, width, [size, size], antialias=True)
        torch.testing.assert_close(result, tv2.hflip(expected) if flipped else expected, rtol=0, atol=1e-5)


def test_the_whole_image_at_its_own_size_is_left_alone() -> None:
    pixels = images(3).float() / 255
    box = torch.tensor([[0.0, 0.0, 16.0, 16.0]]).repeat(3, 1)
    made = augment.resized_crop(pixels, box, torch.zeros(3, dtype=torch.bool), 16)
    torch.testing.assert_close(made, pixels, rtol=0, atol=1e-6)


def only(kind: int, factors: Tensor, first: bool) -> ViewParameters:
    """Parameters that leave everything but one adjustment alone (factors of 1, or 0 for hue)."""
    n = len(factors)
    neutral = torch.tensor([1.0, 1.0, 1.0, 0.0]).repeat(n, 1)
    neutral[:, kind] = factors
    order = augment.draw(n, 16, 16, Views(), generator(int(first))).order
    yes = torch.ones(n, dtype=torch.bool)
    return ViewParameters(torch.zeros(n, 4), ~yes, yes, neutral, order, ~yes)


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize(
    ("kind", "adjust", "low", "high"),
    [
        (BRIGHTNESS, tv2.adjust_brightness, 0.0, 2.0),
        (CONTRAST, tv2.adjust_contrast, 0.0, 2.0),
        (SATURATION, tv2.adjust_saturation, 0.0, 2.0),
        (HUE, tv2.adjust_hue, -0.5, 0.5),
    ],
    ids=["brightness", "contrast", "saturation", "hue"],
)
def test_each_adjustment_is_torchvisions(kind: int, adjust, low: float, high: float, first: bool) -> None:
    pixels, factors = images(11).float() / 255, torch.linspace(low, high, 11)
    made = augment.jitter_colours(pixels, only(kind, factors, first), hue=True)
    for image, factor, result in zip(pixels, factors.tolist(), made, strict=True):
        torch.testing.assert_close(result, adjust(image, factor), rtol=0, atol=1e-5)


@pytest.mark.parametrize("shift", [-0.5, -0.3, -0.1, 0.0, 0.05, 1 / 6, 0.5])
def test_hue_is_turned_as_torchvision_turns_it(shift: float) -> None:
    pixels = images(4).float() / 255
    made = augment.shift_hue(pixels, torch.full((4,), shift))
    torch.testing.assert_close(made, tv2.adjust_hue(pixels, shift), rtol=0, atol=1e-5)


def test_a_hue_shift_of_zero_or_a_gray_image_changes_nothing() -> None:
    pixels = images(2).float() / 255
    torch.testing.assert_close(augment.shift_hue(pixels, torch.zeros(2)), pixels, rtol=0, atol=1e-6)
    gray = pixels[:, :1].repeat(1, 3, 1, 1)
    assert torch.equal(augment.shift_hue(gray, torch.full((2,), 0.37)), gray)


def test_grayscale_is_torchvisions() -> None:
    pixels = images(4).float() / 255
    torch.testing.assert_close(augment.grayscale(pixels), tv2.rgb_to_grayscale(pixels), rtol=0, atol=1e-6)


def test_jitter_that_is_off_leaves_an_image_alone() -> None:
    pixels = images(5).float() / 255
    parameters = augment.draw(5, 16, 16, Views(jitter=0.0), generator())
    assert torch.equal(augment.jitter_colours(pixels, parameters, hue=True), pixels)


@pytest.mark.parametrize(("channels", "mean", "std"), [(3, IMAGENET_MEAN, IMAGENET_STD), (1, [0.5], [0.5])])
def test_plain_images_are_normalised_as_by_torchvision(channels: int, mean: list[float], std: list[float]) -> None:
    pixels = images(3, channels)
    expected = tv2.normalize(tv2.to_dtype(pixels, torch.float32, scale=True), list(mean), list(std))
    torch.testing.assert_close(augment.plain(pixels), expected)


def random_views(pixels: Tensor, size: int, views: Views, drawn_by: Generator) -> Tensor:
    parameters = augment.draw(len(pixels), pixels.shape[2], pixels.shape[3], views, drawn_by)
    return augment.transform(pixels, parameters, size, views)


def test_views_are_applied_and_then_normalised() -> None:
    pixels = images(5)
    parameters = augment.draw(5, 16, 16, Views(), generator(4))
    made = augment.transform(pixels, parameters, 12, Views())
    torch.testing.assert_close(made, augment.normalise(augment.apply(pixels, parameters, 12, Views())), rtol=0, atol=0)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("n", COUNTS)
def test_the_same_seed_gives_the_same_bits(n: int, channels: int) -> None:
    pixels = images(n, channels)
    first, again, other = (random_views(pixels, 16, Views(), generator(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first.shape == (n, channels, 16, 16)


def test_bits_do_not_depend_on_the_number_of_threads() -> None:
    pixels, before = images(300, size=32), torch.get_num_threads()
    made = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            made.append(random_views(pixels, 32, Views(), generator()))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(made[0], made[1])
    assert torch.equal(made[0], made[2])


def test_an_images_view_does_not_depend_on_the_other_images() -> None:
    pixels, parameters = images(6), augment.draw(6, 16, 16, ALWAYS, generator())
    together = augment.apply(pixels, parameters, 16, ALWAYS)
    others = images(6, seed=9)
    others[2] = pixels[2]
    torch.testing.assert_close(augment.apply(others, parameters, 16, ALWAYS)[2], together[2], rtol=0, atol=1e-6)


MANY = 9_600


@pytest.fixture(scope="module")
def drawn() -> ViewParameters:
    return augment.draw(MANY, 32, 32, Views(), generator(11))


def test_crops_lie_inside_the_image_and_have_the_asked_area_and_shape(drawn: ViewParameters) -> None:
    top, left, height, width = drawn.box.unbind(1)
    assert torch.equal(drawn.box, drawn.box.round())
    assert (top >= 0).all()
    assert (left >= 0).all()
    assert (top + height <= 32).all()
    assert (left + width <= 32).all()
    # Sides are rounded to whole pixels: the bounds hold for some unrounded side within half a pixel.
    assert ((height + 0.5) * (width + 0.5) >= 0.1 * 32**2).all()
    assert ((width + 0.5) / (height - 0.5) >= 3 / 4).all()
    assert ((width - 0.5) / (height + 0.5) <= 4 / 3).all()
    assert ((height == 32) & (width == 32)).any()


def test_crops_are_distributed_as_torchvisions(drawn: ViewParameters) -> None:
    image = torch.empty(3, 32, 32)
    with torch.random.fork_rng():
        torch.manual_seed(5)
        boxes = [RandomResizedCrop.get_params(image, [0.1, 1.0], [3 / 4, 4 / 3]) for _ in range(MANY)]
    theirs, ours = np.array(boxes, dtype=float), drawn.box.double().numpy()
    summaries = {
        "top": lambda b: b[:, 0],
        "left": lambda b: b[:, 1],
        "height": lambda b: b[:, 2],
        "width": lambda b: b[:, 3],
        "area": lambda b: b[:, 2] * b[:, 3],
        "ratio": lambda b: b[:, 3] / b[:, 2],
        "relative top": lambda b: b[:, 0] / (33 - b[:, 2]),
        "top - left": lambda b: b[:, 0] - b[:, 1],
    }
    for name, summary in summaries.items():
        assert stats.ks_2samp(summary(ours), summary(theirs)).pvalue > 0.01, name


def test_a_crop_that_never_fits_is_the_whole_image() -> None:
    box = augment.draw(500, 32, 32, Views(min_scale=1.0), generator()).box
    assert ((box[:, 2] <= 32) & (box[:, 3] <= 32)).all()
    whole = (box == torch.tensor([0.0, 0.0, 32.0, 32.0])).all(dim=1)
    assert whole.sum() > 300  # only nearly square crops of the full area fit at all


def test_jitter_factors_are_uniform_in_their_ranges(drawn: ViewParameters) -> None:
    for column, low, high in ((0, 0.6, 1.4), (1, 0.6, 1.4), (2, 0.6, 1.4), (3, -0.1, 0.1)):
        values = drawn.factors[:, column].double().numpy()
        assert stats.kstest(values, stats.uniform(low, high - low).cdf).pvalue > 0.01


@pytest.mark.parametrize(("name", "probability"), [("flip", 0.5), ("jitter", 0.8), ("grayscale", 0.2)])
def test_coins_have_the_asked_probability(drawn: ViewParameters, name: str, probability: float) -> None:
    heads = int(getattr(drawn, name).sum())
    assert stats.binomtest(heads, MANY, probability).pvalue > 0.01


def test_every_order_of_the_four_adjustments_is_equally_likely(drawn: ViewParameters) -> None:
    orders = [tuple(order) for order in drawn.order.tolist()]
    counts = [orders.count(p) for p in permutations(range(4))]
    assert sum(counts) == MANY
    assert stats.chisquare(counts).pvalue > 0.01


@pytest.mark.parametrize("n", [*range(1, 14), 512])
def test_hue_comes_first_second_third_and_last_equally_often(n: int) -> None:
    """As nearly as n allows; the slots that get one more come in a fixed order, which jitter_colours relies on."""
    order = augment.draw(n, 16, 16, Views(), generator(n)).order
    assert torch.equal(order.sort(dim=1).values, torch.arange(4).repeat(n, 1))
    counts = (order == HUE).sum(dim=0).tolist()
    assert counts == [(n + 3 - slot) // 4 for slot in range(4)]


def test_for_each_single_row_hues_place_is_uniform() -> None:
    source = generator(3)
    places = torch.stack([(augment.draw(8, 16, 16, Views(), source).order == HUE).int().argmax(1) for _ in range(800)])
    for row in range(8):
        assert stats.chisquare(torch.bincount(places[:, row], minlength=4).numpy()).pvalue > 0.01
    pairs = torch.bincount(4 * places[:, 0] + places[:, 1], minlength=16).view(4, 4).numpy()
    # Two of eight rows, drawn without replacement: equal places are a little rarer than one in four.
    expected = np.full((4, 4), 2 / 28.0) + np.diag([1 / 28 - 2 / 28.0] * 4)
    assert stats.chisquare(pairs.ravel(), 800 * expected.ravel()).pvalue > 0.01


def columns(parameters: ViewParameters) -> Tensor:
    """(n, 13) everything that was drawn, as numbers."""
    coins = torch.stack([parameters.flip, parameters.jitter, parameters.grayscale], dim=1)
    place = (parameters.order == HUE).int().argmax(1, keepdim=True)
    kinds = (parameters.order == BRIGHTNESS).int().argmax(1, keepdim=True)
    return torch.cat([t.double() for t in (parameters.box, coins, parameters.factors, place, kinds)], dim=1)


def test_neighbouring_images_are_drawn_independently(drawn: ViewParameters) -> None:
    values = columns(drawn)
    for lag in (1, 2, MANY // 2):
        correlation = np.corrcoef(values[:-lag].T, values[lag:].T)[:13, 13:]
        assert np.abs(correlation).max() < 5 / (MANY - lag) ** 0.5


def test_an_images_crop_coins_and_factors_are_independent(drawn: ViewParameters) -> None:
    correlation = np.corrcoef(columns(drawn).T)
    crop, rest = slice(0, 4), slice(4, 11)
    assert np.abs(correlation[crop, rest]).max() < 4.5 / MANY**0.5
    assert np.abs(correlation[rest, rest] - np.eye(7)).max() < 4.5 / MANY**0.5


def random_shifts(pixels: Tensor, padding: int, flip: float, drawn_by: Generator) -> Tensor:
    return augment.shift(pixels, augment.draw_shifts(len(pixels), padding, flip, drawn_by))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize("flip", [0.0, 0.5, 1.0])
def test_random_shifts_are_torchvisions_pad_and_crop(n: int, channels: int, flip: float) -> None:
    pixels = images(n, channels, size=6)
    made = random_shifts(pixels, padding=2, flip=flip, drawn_by=generator(7))
    assert made.shape == pixels.shape
    assert made.dtype == torch.uint8
    for image, result in zip(pixels, made, strict=True):
        found = matching_shifts(image, result, padding=2)
        assert len(found) == 1
        assert flip == 0.5 or found[0][2] == (flip == 1.0)


def matching_shifts(image: Tensor, result: Tensor, padding: int) -> list[tuple[int, int, bool]]:
    """Every (top, left, flipped) for which torchvision's pad and crop gives the result."""
    padded, size = tv2.pad(image, [padding]), image.shape[-1]
    found = []
    for top in range(2 * padding + 1):
        for left in range(2 * padding + 1):
            crop = tv2.crop(padded, top, left, size, size)
            found += [(top, left, False)] if torch.equal(crop, result) else []
            found += [(top, left, True)] if torch.equal(tv2.hflip(crop), result) else []
    return found


def test_random_shifts_are_uniform_and_independent_of_the_flip() -> None:
    """One bright pixel in the middle tells where everything went; its red neighbour tells left from right."""
    pixels = torch.zeros(5_000, 3, 5, 5, dtype=torch.uint8)
    pixels[:, 1, 2, 2] = 255
    pixels[:, 0, 2, 3] = 255
    made = random_shifts(pixels, padding=1, flip=0.5, drawn_by=generator(2))
    position = made[:, 1].flatten(1).int().argmax(1)
    flipped = (made[:, 0].flatten(1).int().argmax(1) < position).int()
    cells = torch.stack([position // 5 - 1, position % 5 - 1, flipped], dim=1)
    counts = torch.bincount(cells[:, 0] * 6 + cells[:, 1] * 2 + cells[:, 2], minlength=18)
    assert counts.sum() == 5_000
    assert stats.chisquare(counts.numpy()).pvalue > 0.01


def test_no_padding_and_no_flip_leave_images_alone() -> None:
    pixels = images(4)
    assert torch.equal(random_shifts(pixels, 0, 0.0, generator()), pixels)


def test_views_that_are_switched_off_leave_only_the_crop() -> None:
    off = Views(flip=0.0, jitter=0.0, grayscale=0.0)
    pixels = images(5)
    parameters = augment.draw(5, 16, 16, off, generator())
    expected = augment.resized_crop(pixels.float() / 255, parameters.box, torch.zeros(5, dtype=torch.bool), 16)
    assert torch.equal(augment.apply(pixels, parameters, 16, off), expected)


def test_without_hue_the_other_adjustments_are_still_torchvisions() -> None:
    views = replace(ALWAYS, hue=0.0)
    pixels, parameters = images(6), augment.draw(6, 16, 16, views, generator())
    assert (parameters.factors[:, HUE] == 0).all()
    made = augment.apply(pixels, parameters, 16, views)
    expected = torch.stack([torchvision_view(pixels[i], parameters, i, 16) for i in range(6)])
    torch.testing.assert_close(made, expected, rtol=0, atol=2e-5)
