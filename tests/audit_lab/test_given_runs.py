"""Runs that are there already take part in the red team: the Retrain whose request is asked for, and another seed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from muc import api, opening
from muc.audit_lab.cheats import OWNER_KEY
from muc.audit_lab.encoders import RUNTIME, Encoder, lab_settings, open_encoder, train_encoders
from muc.audit_lab.given_runs import Retrained, open_retrained, open_swap
from muc.audit_lab.model_owners import MODEL_OWNERS
from muc.audit_lab.rounds import Office, Round, rounds_of, set_up
from muc.cli.audit_lab import redteam
from muc.config import Request
from muc.errors import UserError
from muc.methods import FineTune, Method, Retrain
from muc.recipes import recipe
from muc.run_folder import RunFolder
from muc.runs import pretrain_run, unlearn_run
from muc.storage import read_json


@dataclass(frozen=True)
class Made:
    """Two encoders of 200 digits, and a Retrain of the first that forgot 80 of them."""

    folder: Path
    encoder: RunFolder
    other: RunFolder
    retrain: RunFolder

    def serve(self, name: str, method: Method, of: RunFolder | None = None, **request: Any) -> RunFolder:
        return unlearn_run(of or self.encoder, method, Request(**request), self.folder / name, RUNTIME)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("given-runs")
    encoder, other = train_encoders(lab_settings("digits", 1), 2, folder)
    retrain = unlearn_run(encoder, Retrain(), Request(forget_fraction=0.4), folder / "retrain", RUNTIME)
    return Made(folder, encoder, other, retrain)


@pytest.fixture(scope="module")
def opened(made: Made) -> tuple[Encoder, Retrained]:
    return open_encoder(made.encoder), open_retrained(made.retrain, made.encoder, RUNTIME)


def some_rounds(opened: tuple[Encoder, Retrained], n: int, n_owners: int, rounds: int = 2) -> list[Round]:
    encoder, retrained = opened
    return list(
        rounds_of(Office(encoder, Path("none"), "name", RUNTIME, lambda: encoder.embed), rounds, n, n_owners, retrained)
    )


def test_the_request_is_what_the_retrain_forgot(made: Made, opened: tuple[Encoder, Retrained]) -> None:
    encoder, retrained = opened
    pixels, split = np.asarray(opening.open_images(made.retrain).train), made.retrain.split()
    for rows, found in ((split.unlearn, retrained.listed), (split.retain, retrained.retained)):
        expected = sorted(image.tobytes() for image in pixels[rows])
        assert sorted(image.tobytes() for image in np.asarray(encoder.images.train)[found]) == expected
    assert (len(retrained.listed), len(retrained.retained)) == (80, 120)


@pytest.mark.parametrize(("n", "n_owners"), [(4, 6), (5, 16), (10, 8)])  # the last two take all of the request
def test_owners_list_images_of_the_request_and_hold_retained_ones_back(
    opened: tuple[Encoder, Retrained], n: int, n_owners: int
) -> None:
    _, retrained = opened
    for desk, owners in some_rounds(opened, n, n_owners):
        assert set(desk.listed) == set(retrained.listed)
        assert set(desk.half) < set(retrained.listed)
        rows = np.concatenate([owner.rows for owner in owners])
        assert len(set(rows)) == n_owners * 2 * n  # no image has two owners
        for owner in owners:
            asked, kept = set(owner.rows[owner.forget]), set(owner.rows[~owner.forget])
            assert (len(asked), len(kept)) == (n, n)
            assert asked <= set(retrained.listed)
            assert kept <= set(retrained.retained)
            assert len(asked & set(desk.half)) == n // 2
        places = np.array([owner.forget for owner in owners])
        assert len(np.unique(places, axis=0)) > n_owners / 2  # in random order


def test_rounds_share_a_desk_and_draw_other_owners(opened: tuple[Encoder, Retrained]) -> None:
    (first, some), (second, others) = some_rounds(opened, 4, 6)
    assert first is second
    assert "round" not in first.round_name
    assert {row for owner in some for row in owner.rows} != {row for owner in others for row in owner.rows}


def test_retrain_answers_with_the_runs_weights(made: Made, opened: tuple[Encoder, Retrained]) -> None:
    (desk, _), *_ = some_rounds(opened, 4, 6)
    service = next(who for who in MODEL_OWNERS if who.name == "Retrain").serve(desk)
    expected = opening.embedder(made.retrain, RUNTIME)(desk.pixels[:9])
    assert np.array_equal(service(desk.pixels[:9], OWNER_KEY), expected)
    assert not np.allclose(desk.encoder.embed(desk.pixels[:9]), expected)


def test_redteam_trains_each_method_once_for_all_rounds(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[tuple[Method, Sequence[int]]] = []
    train = api.unlearn

    def counted(model: Any, images: Any, forget: Sequence[int], method: Method, *given: Any, **others: Any) -> Any:
        trained.append((method, forget))
        return train(model, images, forget, method, *given, **others)

    def refused(*given: Any, **others: Any) -> None:
        raise AssertionError("Retrain and seed swap are there already")

    monkeypatch.setattr(api, "unlearn", counted)
    monkeypatch.setattr(api, "pretrain", refused)
    flags = ["--run", str(made.encoder), "--retrained", str(made.retrain), "--swap", str(made.other)]
    folders = ["--runs", str(tmp_path / "runs"), "--out", str(tmp_path)]
    redteam([*flags, *folders, "--device", "cpu", "--rounds", "2", "--owners", "6", "--images", "4"])
    found = read_json(tmp_path / "redteam.json")
    assert (found["rounds"], found["owners"]) == (2, 6)
    assert "1 encoders of digits, 2 rounds each, 6 owners a round" in (tmp_path / "redteam.md").read_text()
    for row in found["rows"]:
        assert row["accepted"]["all"]["trials"] == {4: 12, 8: 6}[row["n"]]
    assert len({repr(what) for what in trained}) == len(trained) == 6
    assert sorted(len(forget) for _, forget in trained) == [40, 80, 80, 80, 80, 80]  # one serves half of it


def test_a_retrain_of_something_else_is_refused(made: Made) -> None:
    def refusal(run: RunFolder) -> str:
        with pytest.raises(UserError) as refused:
            open_retrained(run, made.encoder, RUNTIME)
        return str(refused.value)

    tuned = made.serve("tuned", FineTune(epochs=1), forget_fraction=0.4)
    assert "is no Retrain but finetune" in refusal(tuned)
    assert "is no Retrain but pretrain" in refusal(made.encoder)
    assert "of another encoder" in refusal(made.serve("another", Retrain(), made.other, forget_fraction=0.4))
    assert "that somebody chose" in refusal(made.serve("class", Retrain(), forget_class="3"))
    cut_off = made.serve("cut-off", Retrain(), forget_fraction=0.4)
    (cut_off.path / "result.json").unlink()
    assert "not finished" in refusal(cut_off)


def test_a_request_too_small_for_its_owners_is_refused(opened: tuple[Encoder, Retrained]) -> None:
    with pytest.raises(UserError, match=r"18 owners need 90 of the images that .*retrain forgot, which are 80"):
        some_rounds(opened, 5, 18)
    encoder, found = opened
    swapped = Retrained("most", found.embed, listed=found.retained, retained=found.listed)
    with pytest.raises(UserError, match="10 owners need 100 of the images that most retained, which are 80"):
        some_rounds((encoder, swapped), 10, 10)


def test_a_swap_with_itself_or_other_data_is_refused(made: Made) -> None:
    with pytest.raises(UserError, match="is the encoder itself"):
        open_swap(made.encoder, made.encoder, RUNTIME)
    with pytest.raises(UserError, match="is no pretrained run but unlearn"):
        open_swap(made.retrain, made.encoder, RUNTIME)
    elsewhere = train_encoders(lab_settings("glyphs", 1), 1, made.folder / "glyphs")[0]
    with pytest.raises(UserError, match="other data"):
        open_swap(elsewhere, made.encoder, RUNTIME)
    unfinished = train_encoders(lab_settings("digits", 1), 1, made.folder / "unfinished")[0]
    (unfinished.path / "result.json").unlink()
    with pytest.raises(UserError, match="not finished"):
        open_swap(unfinished, made.encoder, RUNTIME)


def test_flags_that_make_no_sense_are_refused(made: Made) -> None:
    for owners in ("0", "5"):
        with pytest.raises(UserError, match=f"{owners} owners cannot be joined two by two"):
            redteam(["--owners", owners])
    for flag in ("--retrained", "--swap"):
        with pytest.raises(UserError, match="belong to the encoder of --run"):
            redteam([flag, str(made.other)])


def test_a_model_of_pairs_is_refused(tmp_path: Path) -> None:
    settings = recipe("glyph-pairs", "clip")
    short = replace(settings, optimisation=replace(settings.optimisation, epochs=1, warmup_epochs=0))
    with pytest.raises(UserError, match="is a model of image-text pairs"):
        open_encoder(pretrain_run(short, tmp_path / "clip", RUNTIME))


UNTRAINED = cast(
    Any, SimpleNamespace(images=SimpleNamespace(train=np.empty((200, 1, 2, 2))), settings=SimpleNamespace(seed=3))
)
OFFICE = Office(UNTRAINED, Path("none"), "name", RUNTIME, cast(Any, None))


def test_as_many_owners_ask_in_a_round_as_wanted() -> None:
    found = list(rounds_of(OFFICE, 2, 4, 6))
    assert [(len(owners), len(desk.listed), len(desk.half)) for desk, owners in found] == [(6, 24, 12), (6, 24, 12)]
    assert [desk.round_name for desk, _ in found] == ["name-round0-n4", "name-round1-n4"]
    with pytest.raises(UserError, match="30 owners of 8 images need more than the 200 trained on"):
        list(rounds_of(OFFICE, 1, 4, 30))


def test_four_owners_are_drawn_as_for_the_committed_results() -> None:
    """Written down before the number of owners could be chosen."""
    desk, owners = set_up(OFFICE, 1, 4)
    assert [owner.rows.tolist() for owner in owners] == [
        [113, 14, 160, 136, 131, 57, 105, 133],
        [132, 79, 5, 181, 138, 102, 56, 171],
        [173, 71, 190, 146, 174, 94, 38, 143],
        [123, 121, 170, 15, 55, 51, 145, 179],
    ]
    assert desk.listed.tolist() == [14, 160, 136, 131, 79, 181, 102, 171, 71, 146, 174, 94, 123, 15, 55, 179]
    assert desk.half.tolist() == [14, 160, 79, 181, 71, 146, 123, 15]
    assert desk.seed == 3458482918801029060
