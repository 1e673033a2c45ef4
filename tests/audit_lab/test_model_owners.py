"""Model owners who train: what they train on and what it does, on a small encoder."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from muc.audit import Embed
from muc.audit.contrasts import contrasts
from muc.audit_lab.asking import put
from muc.audit_lab.cheats import OWNER_KEY, Plain
from muc.audit_lab.encoders import RUNTIME, lab_settings, open_encoder, train_encoders
from muc.audit_lab.model_owners import MODEL_OWNERS, busy, slightly_tuned
from muc.audit_lab.redteam import REFUSED, judge, prepared
from muc.audit_lab.rounds import Office, Round, joined, set_up
from muc.audit_lab.tuning import ListedOnly, TraceOnly
from muc.methods.recipes import default_method


@pytest.fixture(scope="module")
def a_round(tmp_path_factory: pytest.TempPathFactory) -> Round:
    folder = tmp_path_factory.mktemp("model-owners")
    encoder = open_encoder(train_encoders(lab_settings("digits", 60), 1, folder)[0])
    return set_up(Office(encoder, folder / "kept", "round", RUNTIME, lambda: encoder.embed), 0, 10)


def test_the_request_lists_what_the_owners_drew_and_half_is_half_of_everyone(a_round: Round) -> None:
    desk, owners = a_round
    assert set(desk.listed) == {row for owner in owners for row in owner.rows[owner.forget]}
    assert [len(set(desk.half) & set(owner.rows[owner.forget])) for owner in owners] == [5, 5, 5, 5]
    assert len({row for owner in owners for row in owner.rows}) == 80  # no image has two owners
    large = joined(owners)
    assert [(len(owner.rows), int(owner.forget.sum())) for owner in large] == [(40, 20), (40, 20)]


def changes(a_round: Round, embed: Embed) -> tuple[float, float]:
    """FS and negative-alignment contrast of listed images, the mean over joined owners."""
    desk, owners = a_round
    agms = put(prepared(desk, owners), Plain(embed)).agm["crops"]
    labels = [owner.forget.astype(float) for owner in joined(owners)]
    found = [contrasts((agm + agm.T) / 2, forget[None])[:, 0] for agm, forget in zip(agms, labels, strict=True)]
    fs, negative = np.mean(found, axis=0)
    return float(fs), float(negative)


def test_trace_only_draws_listed_images_together(a_round: Round) -> None:
    assert changes(a_round, busy(a_round[0], TraceOnly))[1] > 0.004


def test_fine_tuning_on_the_listed_sees_nothing_else_and_moves_the_weights(a_round: Round) -> None:
    assert ListedOnly.rows == "forget"
    assert any(abs(change) > 1e-4 for change in changes(a_round, busy(a_round[0], ListedOnly)))


def test_slight_tuning_changes_every_answer_a_little(a_round: Round) -> None:
    desk, _ = a_round
    before, after = desk.encoder.embed(desk.pixels), slightly_tuned(desk)(desk.pixels)
    difference = np.linalg.norm(before - after, axis=1) / np.linalg.norm(before, axis=1)
    assert difference.min() > 0
    assert difference.max() < 0.2


def test_weights_are_kept_and_made_again_only_for_another_request(a_round: Round) -> None:
    desk, _ = a_round
    made: list[str] = []

    def counted(name: str) -> Callable:
        def train():
            made.append(name)
            return desk.encoder.model

        return train

    for name in ("first", "first", "second"):
        desk.kept("counted", counted(name), name)
    assert made == ["first", "second"]


def test_a_service_that_contradicts_itself_is_refused_whatever_its_p_value(a_round: Round) -> None:
    desk, owners = a_round
    shim = next(who for who in MODEL_OWNERS if who.name == "shim: pushes recognised images").serve(desk)
    asked = prepared(desk, owners)
    found = judge(asked, put(asked, shim), np.arange(40), joined(owners)[0], seed=0)
    assert found.passed["pair_t"]
    assert found.passed["hold_back"]  # controls alone do not catch it: it knows the listed images
    assert not found.passed["decoys"]
    assert not found.passed["all"]
    assert found.verdict == REFUSED


def test_model_owners_have_names_of_their_own_and_enough_of_them_cheat() -> None:
    assert len({who.name for who in MODEL_OWNERS}) == len(MODEL_OWNERS)
    assert sum(not who.honest for who in MODEL_OWNERS) >= 8
    assert sum(who.honest for who in MODEL_OWNERS) == 3


def test_methods_have_the_defaults_of_what_the_encoder_was_trained_with(a_round: Round) -> None:
    encoder = a_round[0].encoder
    clip = replace(encoder.settings, model=replace(encoder.settings.model, algorithm="clip"))
    desk = replace(a_round[0], encoder=replace(encoder, settings=clip))
    assert desk.method("finetune") == default_method("finetune", "digits", "clip")
    assert a_round[0].method("finetune") == default_method("finetune", "digits")


def test_retrain_never_sees_the_listed_images(a_round: Round) -> None:
    desk, _ = a_round
    vectors = Plain(desk.retrained())(desk.pixels[:3], OWNER_KEY)
    assert vectors.shape == desk.encoder.embed(desk.pixels[:3]).shape
    assert "without" in next(iter(made_as(desk.folder)))


def made_as(folder: Path) -> set[str]:
    from muc.storage import load_tensors

    return {load_tensors(path)[1]["made"] for path in folder.glob("*retrain*")}
