"""The audit from start to verdict on models that are plain functions, and what must not leak or be asked twice."""

import gzip
import json
import shlex
import signal
import stat
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from random import Random

import httpx
import numpy as np
import pytest
from owner_world import DIMENSION, HASHES, MILD, SIZE, Models, begin, pattern, write_images
from PIL import Image

from muc.__main__ import main
from muc.audit.hold_back import hold_back_test
from muc.audit.protocol.answers import Collected, read_answers, write_batch
from muc.audit.protocol.checks import SAME, near_distances
from muc.audit.protocol.collect import check_endpoint, collect
from muc.audit.protocol.endpoint import About, Reply
from muc.audit.protocol.folder import PHASES, AuditFolder, ImageRecord, Phase, Terms
from muc.audit.protocol.http_client import HttpEndpoint
from muc.audit.protocol.judge import Judgement, judge
from muc.audit.protocol.matrices import alignment_of, matrices_of
from muc.audit.protocol.pictures import Pictures, pixel_digest
from muc.audit.protocol.publish import publish
from muc.audit.protocol.queries import Query, batch_size, queries
from muc.audit.protocol.signing import load_key, signed
from muc.audit.protocol.start import _check_images, start, terms_for
from muc.config import Views
from muc.data.images import ImageSet
from muc.data.requests import read_request
from muc.errors import UserError
from muc.report.audit_page import audit_page
from muc.storage import Hold, make_folder


@pytest.fixture
def mine(tmp_path: Path) -> list[Path]:
    return write_images(tmp_path / "mine", 12)


@pytest.fixture
def folder(tmp_path: Path, mine: list[Path]) -> AuditFolder:
    return begin(tmp_path / "audit", mine)


def forgotten(folder: AuditFolder) -> list[Path]:
    paths = folder.locations()
    return [paths[i] for i in folder.secret().forget]


def ask_both(folder: AuditFolder, models: Models) -> None:
    for phase in PHASES:
        assert collect(folder, phase, models).complete


def judged(folder: AuditFolder) -> Judgement:
    """Without the files, and with a rough power, which takes most of the time."""
    commitment, secret = folder.commitment(), folder.secret()
    before, after = (read_answers(folder, phase, commitment, secret) for phase in PHASES)
    return judge(before, after, commitment, secret, power_repetitions=20)


# --- start ---


def test_what_is_sent_tells_nothing_about_the_controls(folder: AuditFolder) -> None:
    secret = folder.secret()
    sent = folder.commitment_file.read_text() + folder.forget_file.read_text()
    for image, asked in zip(secret.images, secret.mask, strict=True):
        assert (image.name in sent) == asked
        assert image.sha256 not in sent
    assert secret.seed not in sent
    assert secret.salt not in sent
    assert json.loads(folder.commitment_file.read_text())["secret_sha256"] == (
        sha256(folder.secret_file.read_bytes()).hexdigest()
    )


def test_secrets_are_for_their_owner_alone(folder: AuditFolder) -> None:
    for path in (folder.key_file, folder.secret_file, folder.images_file):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    key = folder.key_file.read_text().splitlines()[1]
    others = [p for p in folder.path.rglob("*") if p.is_file() and p != folder.key_file]
    assert not any(key in p.read_text() for p in others)


def test_every_split_is_drawn_equally_often_and_never_the_same_twice(tmp_path: Path, mine: list[Path]) -> None:
    drawn = [begin(tmp_path / str(i), mine[:6], seed=i).secret() for i in range(100)]
    share = np.mean([secret.mask for secret in drawn], axis=0)
    assert np.all(np.abs(share - 0.5) < 4 * 0.5 / 100**0.5)
    names = [path.name for path in mine[:6]]
    real = [start(mine[:6], names, tmp_path / f"real{i}", views=4).secret() for i in range(2)]
    assert real[0].seed != real[1].seed
    assert real[0].salt != real[1].salt


def test_images_that_cannot_be_audited_are_refused(tmp_path: Path, mine: list[Path]) -> None:
    twice = tmp_path / "again.png"
    twice.write_bytes(mine[0].read_bytes())
    with pytest.raises(UserError, match="are the same file"):
        begin(tmp_path / "a", [*mine, twice])
    other = write_images(tmp_path / "other", 1, seed=9)
    with pytest.raises(UserError, match=r"two images are called 'picture-00.png'"):
        begin(tmp_path / "a", [*mine, *other])
    with pytest.raises(UserError, match="the number of images is 5; give a number from 6 to 1,000,000"):
        begin(tmp_path / "a", mine[:5])
    with pytest.raises(UserError, match=f"forget is 100; give a number from 3 to {len(mine) - 3}"):
        terms_for(len(mine), 100, 8, MILD)
    with pytest.raises(UserError, match="inside a file"):
        begin(mine[0] / "a", mine)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    with pytest.raises(UserError, match="not an empty folder"):
        begin(tmp_path / "full", mine)
    assert not (tmp_path / "a").exists()


def test_a_start_that_fails_leaves_nothing_in_the_way_of_the_next(
    tmp_path: Path, mine: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("muc.audit.protocol.start.signed", full)  # the last thing to be written
        with pytest.raises(OSError, match="No space left"):
            begin(tmp_path / "a", mine)
    assert not list((tmp_path / "a").iterdir())
    begin(tmp_path / "a", mine).commitment()


def test_many_images_are_not_compared_two_by_two() -> None:
    compared = 0

    class Name(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

        def __hash__(self) -> int:
            return str.__hash__(self)

    records = [ImageRecord(Name(f"{i}.png"), f"{i:064}") for i in range(300)]
    _check_images(records)
    assert compared <= 2 * len(records)


# --- what is asked ---


@pytest.mark.parametrize(("n", "views"), [(6, 4), (12, 4), (20, 8), (60, 8)])
def test_every_view_is_asked_once_and_repeats_come_later(n: int, views: int) -> None:
    terms = terms_for(n, None, views, MILD)
    step = batch_size(terms.queries, 64)
    for phase in PHASES:
        asked = queries("seed", phase, terms)
        assert len(asked) == terms.queries
        assert len(set(asked)) == n * views + terms.decoys + terms.near_duplicates
        twice = {q: [i for i, other in enumerate(asked) if other == q] for q in asked if asked.count(q) > 1}
        assert len(twice) == terms.repeats
        assert all(second // step > first // step for first, second in twice.values())
    assert queries("seed", "before", terms) != queries("seed", "after", terms)
    assert queries("seed", "before", terms) != queries("other", "before", terms)


def test_shared_views_are_the_same_for_both_models_and_fresh_ones_are_not(folder: AuditFolder) -> None:
    models = Models()
    ask_both(folder, models)
    commitment, secret = folder.commitment(), folder.secret()
    before, after = (read_answers(folder, phase, commitment, secret).sent() for phase in PHASES)
    for kind, same in (("shared", True), ("decoy", True), ("near", True), ("fresh", False)):
        chosen = [q for q in before if q.kind == kind]
        assert chosen
        assert all((before[q] == after[q]) == same for q in chosen)


def test_no_view_is_an_image_as_it_was_handed_in() -> None:
    images = np.random.default_rng(0).integers(0, 256, (12, 3, 32, 32), dtype=np.uint8)
    terms = terms_for(12, None, 8, Views())
    pictures = Pictures(images, "seed", terms)
    known = {pixel_digest(way) for image in images for way in (image, image[:, :, ::-1])}
    made = {pixel_digest(pictures.pixels(q, "before")) for q in queries("seed", "before", terms)}
    assert len(made) == 12 * 8 + terms.decoys + terms.near_duplicates
    assert not known & made


def test_questions_do_not_depend_on_the_split(tmp_path: Path, mine: list[Path]) -> None:
    """Same seed, all splits: the same pictures in the same order."""

    class Fixed(Random):
        def sample(self, population: Sequence[int], k: int, **_: object) -> list[int]:  # type: ignore[override]
            return list(population)[-k:] if last else list(population)[:k]

    sent = []
    for last in (False, True):
        made = start(mine, [p.name for p in mine], tmp_path / str(last), None, 4, MILD, Fixed(3))
        models = Models()
        ask_both(made, models)
        sent.append(models.asked)
        assert made.secret().forget == (list(range(6, 12)) if last else list(range(6)))
    assert sent[0] == sent[1]


# --- from answers to a verdict ---


def test_alignment_is_the_mean_cosine_over_pairs_of_views() -> None:
    vectors = np.random.default_rng(0).normal(size=(4, 3, 5))
    found = alignment_of(vectors)

    def cosine(x: np.ndarray, y: np.ndarray) -> float:
        return float(x @ y / np.sqrt((x @ x) * (y @ y)))

    for i in range(4):
        for j in range(4):
            pairs = [(a, b) for a in range(3) for b in range(3) if i != j or a != b]
            mean = np.mean([cosine(vectors[i, a], vectors[j, b]) for a, b in pairs])
            assert found[i, j] == pytest.approx(mean, abs=1e-12)


def test_a_changed_model_is_found_and_an_unchanged_one_is_not(tmp_path: Path, mine: list[Path]) -> None:
    for name, change in (("changed", True), ("unchanged", False)):
        made = begin(tmp_path / name, mine)
        ask_both(made, Models(forgotten(made) if change else ()))
        found = judged(made)
        assert all(check.held for check in found.checks), found.checks
        assert (found.finding == "changed as requested") == change
        both = [read_answers(made, phase, made.commitment(), made.secret()) for phase in PHASES]
        gap = matrices_of(both[0], both[1], made.commitment().terms).gap
        again = hold_back_test(gap, made.secret().mask)  # all splits are counted: no seed in it
        assert found.verdict.evidence.p == again.p
        assert found.verdict.evidence.FS.value == pytest.approx(again.FS.value)


def remembering(models: Models, published: Sequence[Path]) -> Models:
    """A model before whose views of the published images are pulled together, as training does."""
    arrays = [np.asarray(Image.open(path)).transpose(2, 0, 1) for path in published]
    kept = [(pattern(a), pattern(array) @ models.map) for array in arrays for a in (array, array[:, :, ::-1])]
    plain = models.vector

    def vector(pixels: np.ndarray, phase: Phase) -> np.ndarray:
        made = plain(pixels, phase)
        known = [answer for template, answer in kept if float(template @ pattern(pixels)) > 0.9]
        return made + 3 * known[0] if known else made

    models.vector = vector  # ty: ignore[invalid-assignment]
    return models


def test_withheld_images_tell_what_the_model_remembered_and_let_no_change_be_said(
    tmp_path: Path, mine: list[Path]
) -> None:
    """The model after, trained on a little, still remembers all: by withheld images that is "no change found"."""
    withheld = write_images(tmp_path / "never given away", 10, seed=5, name="own")
    for kept, finding in (((), "inconclusive"), (withheld, "no change found")):
        made = begin(tmp_path / f"audit{len(kept)}", mine, withheld=kept)
        models = remembering(Models(), mine)
        answers = [collect(made, phase, models) for phase in PHASES]
        found = judge(answers[0], answers[1], made.commitment(), made.secret())
        assert found.finding == finding, found.words
        assert (found.memory is None) == (not kept) == (found.like_withheld is None)
        assert [test.test for test in found.without_controls] == [
            "jackknife",
            "disjoint pairs",
            "t-test over pairs (the paper's)",
        ]
    assert found.memory is not None
    assert found.memory.low > 0.01
    assert found.like_withheld is not None
    assert found.like_withheld.p > 0.05
    assert found.verdict.reference == "the least that forgetting them would make"
    names = {path.name for path in withheld}
    assert {image.name for image in made.secret().withheld} == names
    assert not names & set(made.forget_file.read_text().split())


def test_an_image_cannot_be_given_away_and_withheld(tmp_path: Path, mine: list[Path]) -> None:
    again = tmp_path / "again.png"
    again.write_bytes(mine[0].read_bytes())
    more = write_images(tmp_path / "more", 3, seed=5, name="own")
    with pytest.raises(UserError, match="are the same file"):
        begin(tmp_path / "audit", mine, withheld=[*more, again])
    with pytest.raises(UserError, match="the number of withheld images is 2; give a number from 3"):
        begin(tmp_path / "audit", mine, withheld=more[:2])


def test_an_unchanged_model_is_called_changed_in_one_of_twenty_audits(tmp_path: Path, mine: list[Path]) -> None:
    """Another training of the model, the same images, 400 splits: the whole path from vectors to the verdict."""
    made = begin(tmp_path / "audit", mine[:10])
    first, second = Models(seed=1), Models(seed=2)
    both: list[Collected] = [collect(made, "before", first), collect(made, "after", second)]
    commitment, secret = made.commitment(), made.secret()
    draw, findings = Random(0), []
    for _ in range(400):
        split = replace(secret, forget=sorted(draw.sample(range(10), 5)))
        findings.append(judge(both[0], both[1], commitment, split, power_repetitions=1).verdict.verdict)
    share = findings.count("changed as requested") / 400
    assert share < 0.05 + 3 * (0.05 * 0.95 / 400) ** 0.5
    assert share > 0.01


def test_noise_makes_the_answers_contradict_themselves(folder: AuditFolder) -> None:
    class Noisy(Models):
        def vector(self, pixels: np.ndarray, phase: Phase) -> np.ndarray:
            made = super().vector(pixels, phase)
            return made + 0.2 * np.linalg.norm(made) * self.rng.normal(size=DIMENSION)

    models = Noisy(forgotten(folder))
    models.rng = np.random.default_rng(0)  # type: ignore[unresolved-attribute]
    ask_both(folder, models)
    found = judged(folder)
    assert found.finding == "inconclusive"
    assert "answered the same picture differently" in found.words
    assert [check.held for check in found.checks if "repeated" in check.name] == [False, False]


def test_answers_prepared_for_known_pictures_are_found_out(tmp_path: Path) -> None:
    """Someone keeps what was asked before, and answers those very pixels of the deleted images in another way."""
    mine = write_images(tmp_path / "mine", 20)
    made = begin(tmp_path / "audit", mine, views=8)
    honest, shim = Models(), Models(forgotten(made), strength=0.9)

    class Memory(Models):
        def embed(self, pngs: Sequence[bytes], phase: Phase) -> Reply:
            known = [png in honest.asked["before"] for png in pngs]
            two = (shim.embed(pngs, phase).vectors, honest.embed(pngs, phase).vectors)
            return Reply([a if k else b for k, a, b in zip(known, *two, strict=True)], HASHES[phase])

    collect(made, "before", honest)
    collect(made, "after", Memory())
    found = judged(made)
    assert found.verdict.verdict == "changed as requested"  # what it would have been without the fresh views
    assert found.finding == "inconclusive"
    assert "as prepared answers would" in found.words


def test_answers_that_hang_on_single_grey_levels_are_found_out(folder: AuditFolder) -> None:
    """A disturbance that depends on the pixels: asking again shows nothing, asking about almost the same does."""

    class Blurred(Models):
        def vector(self, pixels: np.ndarray, phase: Phase) -> np.ndarray:
            made = super().vector(pixels, phase)
            rng = np.random.default_rng(int(pixel_digest(pixels)[:8], 16))
            return made + 0.2 * (phase == "after") * np.linalg.norm(made) * rng.normal(size=DIMENSION)

    ask_both(folder, Blurred())
    found = judged(folder)
    assert found.finding == "inconclusive"
    assert "differ by single grey levels" in found.words
    assert [check.held for check in found.checks if "near-dup" in check.name] == [False]
    assert all(check.held for check in found.checks if "repeated" in check.name)


def test_a_steep_network_is_no_contradiction(folder: AuditFolder) -> None:
    """Where the model before answers almost the same pictures differently, so may the model after."""

    class Steep(Models):
        def vector(self, pixels: np.ndarray, phase: Phase) -> np.ndarray:
            made = super().vector(pixels, phase)
            rng = np.random.default_rng(int(pixel_digest(pixels)[:8], 16))
            return made + 0.02 * np.linalg.norm(made) * rng.normal(size=DIMENSION)

    ask_both(folder, Steep())
    after = read_answers(folder, "after", folder.commitment(), folder.secret())
    assert float(near_distances(after).mean()) > 2 * SAME
    assert all(check.held for check in judged(folder).checks)


def test_a_filter_before_the_old_model_is_found_out(folder: AuditFolder) -> None:
    models = Models(forgotten(folder))
    models.trained = models.map  # not trained at all: only listed images get other answers
    ask_both(folder, models)
    found = judged(folder)
    assert found.verdict.verdict == "changed as requested"
    assert found.finding == "inconclusive"
    assert "as behind a filter" in found.words


def test_the_old_model_itself_contradicts_nothing(folder: AuditFolder) -> None:
    models = Models()
    models.trained = models.map
    ask_both(folder, models)
    found = judged(folder)
    assert all(check.held for check in found.checks)
    assert found.finding == "no change found"
    assert "is the same model, and nothing was unlearned" in found.words
    assert "it is the old model" in next(check.what for check in found.checks if check.name == "change of decoys")


def test_one_answer_to_everything_is_no_embedding(folder: AuditFolder) -> None:
    class Constant(Models):
        def vector(self, pixels: np.ndarray, phase: Phase) -> np.ndarray:
            return np.ones(DIMENSION)

    ask_both(folder, Constant())
    found = judged(folder)
    assert found.finding == "inconclusive"
    assert "the same answer to different pictures" in found.words


# --- collecting ---


def test_a_collection_that_was_cut_off_goes_on_without_asking_again(folder: AuditFolder) -> None:
    class Failing(Models):
        def embed(self, pngs: Sequence[bytes], phase: Phase) -> Reply:
            if len(self.batches) == 3:
                raise KeyboardInterrupt
            return super().embed(pngs, phase)

    first = Failing()
    with pytest.raises(KeyboardInterrupt):
        collect(folder, "before", first)
    second = Models()
    whole = collect(folder, "before", second)
    uninterrupted = Models()
    straight = begin(folder.path.parent / "straight", folder.locations())
    collect(straight, "before", uninterrupted)
    assert first.asked["before"] + second.asked["before"] == uninterrupted.asked["before"]
    assert len(whole.vectors) == folder.commitment().terms.queries
    third = Models()
    collect(folder, "before", third)
    assert third.asked["before"] == []


def test_two_collections_at_once_do_not_pay_twice(folder: AuditFolder) -> None:
    models = Models()
    hold = Hold(folder.path)
    hold.take()
    with pytest.raises(UserError, match=r"another process is working in .*; wait until it is done"):
        collect(folder, "before", models)
    assert models.asked == {"before": [], "after": []}
    hold.leave()
    assert collect(folder, "before", models).complete


def test_the_budget_is_spent_to_the_last_question_and_not_beyond(folder: AuditFolder) -> None:
    models = Models()
    models.budget = 2 * folder.commitment().terms.queries
    ask_both(folder, models)
    assert models.budget == 0
    assert sum(models.batches) == 2 * folder.commitment().terms.queries


def test_too_small_a_budget_is_refused_before_the_first_question(folder: AuditFolder) -> None:
    models = Models()
    needed = folder.commitment().terms.queries
    models.budget = needed - 1
    with pytest.raises(UserError, match=f"{needed} questions .* the budget has {needed - 1} left"):
        collect(folder, "before", models)
    assert models.batches == []


def test_a_budget_that_others_use_up_ends_the_collection_in_time(folder: AuditFolder) -> None:
    class Shared(Models):
        def embed(self, pngs: Sequence[bytes], phase: Phase) -> Reply:
            reply = super().embed(pngs, phase)
            self.budget = 3
            return Reply(reply.vectors, reply.model_sha256, 3)

    models = Shared()
    models.budget = 1000
    with pytest.raises(UserError, match="the query budget is used up: 3 left"):
        collect(folder, "before", models)
    assert len(models.batches) == 1


def test_a_model_that_changes_during_the_collection_is_noticed(folder: AuditFolder) -> None:
    class Changing(Models):
        def embed(self, pngs: Sequence[bytes], phase: Phase) -> Reply:
            if len(self.batches) == 2:
                self.hashes["before"] = "c" * 64
            return super().embed(pngs, phase)

    changing = Changing()
    with pytest.raises(UserError, match="the model 'before' changed during the collection"):
        collect(folder, "before", changing)
    with pytest.raises(UserError, match="the model 'before' changed during the collection"):
        collect(folder, "before", changing)  # also between two runs of the command
    assert len(list(folder.answers.glob("before-*.json"))) == 2


def test_an_endpoint_of_another_original_is_not_asked(folder: AuditFolder) -> None:
    class Stated(Models):
        def about(self, phase: Phase) -> About:
            return replace(super().about(phase), before_sha256=self.hashes["before"])

    models = Stated()
    collect(folder, "before", models)
    models.hashes["before"] = "c" * 64
    with pytest.raises(UserError, match=r"serves another model as 'before' \(hash c{12}\) than the one that was asked"):
        collect(folder, "after", models)
    models.hashes["before"] = "a" * 64
    collect(folder, "after", models)


def test_the_model_of_before_is_not_asked_as_the_model_after(folder: AuditFolder) -> None:
    models = Models()
    models.hashes["after"] = models.hashes["before"]
    collect(folder, "before", models)
    asked = len(models.batches)
    with pytest.raises(UserError, match=r"still serves the model of before as 'after' \(hash a{12}\)") as said:
        collect(folder, "after", models)
    assert "\n" not in str(said.value)
    assert len(models.batches) == asked
    models.hashes["after"] = "b" * 64
    assert collect(folder, "after", models).complete


@pytest.mark.parametrize("change", [False, True])
def test_one_hash_for_both_models_is_said_in_the_verdict(change: bool, folder: AuditFolder) -> None:
    """However the files came about."""
    models = Models(forgotten(folder) if change else ())
    ask_both(folder, models)
    commitment, secret = folder.commitment(), folder.secret()
    before, after = (read_answers(folder, phase, commitment, secret) for phase in PHASES)
    found = judge(before, replace(after, model_sha256=before.model_sha256), commitment, secret, power_repetitions=20)
    assert "stated the same model hash before and after (aaaaaaaaaaaa)" in found.words
    assert found.finding == "inconclusive"
    assert found.checks[-1].held != change
    assert ("contradict themselves" in found.words) == change


def test_every_model_is_looked_at_before_the_first_is_asked(folder: AuditFolder) -> None:
    class Uneven(Models):
        def about(self, phase: Phase) -> About:
            return replace(super().about(phase), size=SIZE * (2 if phase == "after" else 1))

    with pytest.raises(UserError, match=r"the model before takes \(3, 8\) pictures .*, the model after \(3, 16\)"):
        check_endpoint(folder, PHASES, Uneven())
    models = Models()
    both = 2 * folder.commitment().terms.queries
    models.budget = both - 1
    with pytest.raises(
        UserError, match=f"{both} questions for the model 'before' and 'after', the budget has {both - 1}"
    ):
        check_endpoint(folder, PHASES, models)
    models.budget = both
    assert list(check_endpoint(folder, PHASES, models)) == ["before", "after"]
    models.hashes["after"] = models.hashes["before"]
    with pytest.raises(UserError, match="still serves the model of before"):
        check_endpoint(folder, PHASES, models)
    assert models.batches == []


def cut_off(folder: AuditFolder, endpoint: HttpEndpoint) -> None:
    """Ask two batches."""

    def stop(done: int, _total: int) -> None:
        if done == 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collect(folder, "before", endpoint, report=stop)


def test_another_key_within_one_collection_is_refused(folder: AuditFolder) -> None:
    """Each key has its own rotation: answers to two keys would look as if the model contradicted itself."""
    models = Models()
    models.budget = 1000
    cut_off(folder, client(service(models), []))
    asked = len(models.batches)
    with pytest.raises(UserError, match="was asked with another key so far") as said:
        collect(folder, "before", client(service(models, "other-key"), [], "other-key"))
    assert "\n" not in str(said.value)
    assert len(models.batches) == asked
    assert collect(folder, "before", client(service(models), [])).complete
    assert collect(folder, "after", client(service(models, "other-key"), [], "other-key")).complete  # no harm there
    for path in folder.answers.iterdir():
        assert "secret-key" not in path.read_text()
    found = read_answers(folder, "before", folder.commitment(), folder.secret())
    assert found.key_sha256 == sha256(b"secret-key").hexdigest()


def test_a_repeat_of_other_pixels_is_refused_in_whatever_batch_it_comes(folder: AuditFolder) -> None:
    found = collect(folder, "before", Models())
    place = next(i for i, query in enumerate(found.queries) if query in found.queries[:i])
    step = batch_size(len(found.queries), 16)
    batch = slice(place // step * step, place // step * step + step)
    digests = found.pixels_sha256[batch]
    digests[place - batch.start] = "0" * 64
    key, about = load_key(folder.key_file), Models().about("before")
    write_batch(folder, key, "before", batch.start, digests, found.vectors[batch], about)
    with pytest.raises(UserError, match="a repeated question with other pixels than at first"):
        read_answers(folder, "before", folder.commitment(), folder.secret())


def test_every_answer_is_compared_once_however_many_batches_follow(
    folder: AuditFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    collect(folder, "before", Models())
    looked_up, plain = 0, Query.__hash__

    def counting(query: Query) -> int:
        nonlocal looked_up
        looked_up += 1
        return plain(query)

    monkeypatch.setattr(Query, "__hash__", counting)
    found = read_answers(folder, "before", folder.commitment(), folder.secret())
    assert len(found.files) > 5
    assert looked_up <= 2 * len(found.queries)


def test_answers_to_two_keys_do_not_pass_for_one_collection(folder: AuditFolder) -> None:
    models = Models()
    models.budget = 1000
    cut_off(folder, client(service(models), []))
    rewrite(folder, "before-000005.json", key_sha256="0" * 64)
    with pytest.raises(UserError, match=r"before-000005\.json was asked with another key"):
        read_answers(folder, "before", folder.commitment(), folder.secret())


def rewrite(folder: AuditFolder, name: str, **values: object) -> None:
    """A batch with other content, signed as its own."""
    path = folder.answers / name
    made = {k: v for k, v in json.loads(path.read_bytes()).items() if k != "signature"} | values
    path.write_bytes(signed(made, load_key(folder.key_file)))


BAD: dict[str, Callable[[list[list[float]]], object]] = {
    "instead of 12": lambda v: [row[:-1] for row in v],
    "zero or hold NaN": lambda v: [[float("nan")] * DIMENSION for _ in v],
    "zero or hold": lambda v: [[0.0] * DIMENSION for _ in v],
    "one length": lambda v: [v[0][:-1], *v[1:]],
    "vectors of one length": lambda v: v[1:],
    "other than": lambda v: "vectors",
}


@pytest.mark.parametrize("words", BAD)
def test_bad_vectors_are_refused_and_not_stored(words: str, folder: AuditFolder) -> None:
    class Bad(Models):
        def embed(self, pngs: Sequence[bytes], phase: Phase) -> Reply:
            return Reply(BAD[words](super().embed(pngs, phase).vectors), HASHES[phase])

    with pytest.raises(UserError, match=words):
        collect(folder, "before", Bad())
    assert not list(folder.answers.glob("*"))


def test_a_changed_or_missing_image_is_named(folder: AuditFolder, mine: list[Path]) -> None:
    content = mine[3].read_bytes()
    mine[3].write_bytes(content + b"\0")
    with pytest.raises(UserError, match=r"picture-03.png is not the file that the audit began with"):
        collect(folder, "before", Models())
    mine[3].unlink()
    with pytest.raises(UserError, match=r"picture-03.png is missing"):
        collect(folder, "before", Models())


def test_nothing_is_asked_after_the_verdict(folder: AuditFolder) -> None:
    folder.verdict_file.write_text("{}")
    with pytest.raises(UserError, match="has its verdict"):
        collect(folder, "after", Models())
    with pytest.raises(UserError, match="an audit has one verdict"):
        publish(folder, audit_page)


def test_a_verdict_needs_all_answers(folder: AuditFolder) -> None:
    collect(folder, "before", Models())
    with pytest.raises(UserError, match="the model 'after' has answered 0 of"):
        publish(folder, audit_page)
    assert not folder.verdict_file.exists()


# --- the report ---


def test_the_report_says_the_verdict_and_its_limits_and_escapes_names(tmp_path: Path) -> None:
    mine = write_images(tmp_path / "mine", 12)
    evil = mine[0].with_name("<script>alert(1)<")
    mine[0] = mine[0].rename(evil)
    made = begin(tmp_path / "audit", mine)
    ask_both(made, Models(forgotten(made)))
    found = publish(made, audit_page).judgement
    page = made.report_file.read_text()
    assert "Changed as requested" in page
    assert "treatment of your images changed more than chance allows" in page
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;" in page
    assert page.count('<img src="data:image/png;base64,') == 3
    assert "http://" not in page
    assert "https://" not in page
    for text in ("cannot show", "That anything was forgotten.", "That nothing was kept.", "held back", "Power"):
        assert text in page
    for text in (f"p = {found.verdict.evidence.p:.2g}", made.commitment_digest(), made.secret().seed):
        assert text in page
    assert "your data was forgotten" not in page.lower()


# --- over HTTP ---


def service(world: Models, key: str = "secret-key", **over: object) -> httpx.MockTransport:
    import re

    def answer(request: httpx.Request) -> httpx.Response:
        if request.headers["authorization"] != f"Bearer {key}":
            return httpx.Response(401, json={"error": "unknown key"})
        if request.url.path == "/v1/about":
            about = {
                "protocol": 1,
                "input": {"channels": 3, "size": SIZE},
                "models": world.hashes,
                "dimension": DIMENSION,
                "limits": {"images_per_request": 5, "bytes_per_image": 5_000_000, "pixels_per_image": 4_000_000},
                "budget": {"total": 10_000, "left": world.budget},
            }
            return httpx.Response(200, json={**about, **over})
        found = re.findall(rb"\x89PNG\r\n\x1a\n.*?IEND\xaeB`\x82", request.content, re.DOTALL)
        assert 1 <= len(found) <= 5
        assert b'name="images"' in request.content
        phase = request.url.params["model"]
        reply = world.embed(found, phase)
        values = {"model": phase, "model_sha256": reply.model_sha256, "vectors": reply.vectors}
        return httpx.Response(200, json={**values, "budget_left": reply.budget_left})

    return httpx.MockTransport(answer)


def client(transport: httpx.BaseTransport, waits: list[float], key: str = "secret-key") -> HttpEndpoint:
    return HttpEndpoint("https://models.example", key, transport, waits.append)


def test_over_http_the_same_answers_are_stored(folder: AuditFolder) -> None:
    models = Models()
    models.budget = folder.commitment().terms.queries
    over_http = collect(folder, "before", client(service(models), []))
    direct = collect(begin(folder.path.parent / "direct", folder.locations()), "before", Models())
    assert np.array_equal(over_http.vectors, direct.vectors)
    assert models.budget == 0


def test_a_busy_service_is_asked_again_as_late_as_it_says(folder: AuditFolder) -> None:
    models = Models()
    models.budget = 1000
    answers = iter([httpx.Response(429, headers={"Retry-After": "7"}, json={"error": "busy"}), httpx.Response(503)])
    inner = service(models)

    def sometimes(request: httpx.Request) -> httpx.Response:
        return next(answers, None) or inner.handle_request(request)

    waits: list[float] = []
    assert collect(folder, "before", client(httpx.MockTransport(sometimes), waits)).complete
    assert waits == [7, 2]
    assert models.budget == 1000 - folder.commitment().terms.queries


def refuse(status: int, said: str, headers: dict[str, str] | None = None) -> Callable[[httpx.Request], httpx.Response]:
    return lambda _: httpx.Response(status, json={"error": said}, headers=headers)


def slow(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadTimeout("slow", request=request)


def away(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("nobody there", request=request)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (refuse(401, "no"), "refuses the key"),
        (refuse(403, "no"), "refuses the key"),
        (refuse(403, "the key's budget has 0 images left"), "the key's budget has 0 images left"),
        (refuse(422, "image 3\nis \x1b[31mbroken"), r"status 422 \(image 3is \[31mbroken\)"),
        (refuse(429, "later", {"Retry-After": "9999"}), "asks to come back in 9999 s"),
        (refuse(503, "upkeep"), r"is busy \(upkeep\)"),
        (slow, "does not answer in time"),
        (away, "cannot be reached"),
        (lambda _: httpx.Response(200, text="<html>"), "something other than JSON"),
        (lambda _: httpx.Response(200, json={"hello": 1}), "does not answer like an embedding endpoint"),
        (lambda _: httpx.Response(200, json=[]), "does not answer like an embedding endpoint"),
    ],
)
def test_every_refusal_of_a_service_is_one_sentence(
    answer: Callable[[httpx.Request], httpx.Response], words: str, folder: AuditFolder
) -> None:
    waits: list[float] = []
    with pytest.raises(UserError, match=words) as said:
        collect(folder, "before", client(httpx.MockTransport(answer), waits))
    assert "\n" not in str(said.value)
    assert "secret-key" not in str(said.value)
    assert sum(waits) < 60
    assert not list(folder.answers.glob("*"))


@pytest.mark.parametrize(
    ("over", "words"),
    [
        ({"protocol": 2}, "speaks protocol 2"),
        ({"models": {"before": "x", "after": "y"}}, "does not serve a model 'before' under a SHA-256"),
        ({"input": {"channels": 2, "size": 8}}, "wants pictures of 2 channels"),
        ({"input": {"channels": 3, "size": 4000}}, "4000 pixels a side, at most 4000000"),
        ({"dimension": DIMENSION + 1}, "vectors of 12 numbers instead of 13"),
        ({"budget": {"total": 5, "left": 5}}, "the budget has 5 left"),
        ({"views": {"min_scale": 7}}, "trained with views that cannot be"),
        ({"views": {"min_scale": "half"}}, "trained with views that cannot be"),
        ({"views": [1]}, "trained with views that cannot be"),
    ],
)
def test_what_a_service_says_of_itself_is_checked(over: dict[str, object], words: str, folder: AuditFolder) -> None:
    models = Models()
    models.budget = 1000
    with pytest.raises(UserError, match=words):
        collect(folder, "before", client(service(models, **over), []))


def test_a_service_may_say_which_views_its_model_was_trained_with() -> None:
    models = Models()
    models.budget = 1000
    said = client(service(models, views={"min_scale": 0.7, "flip": 0}), []).about("before")
    assert said.views == Views(min_scale=0.7, flip=0)
    assert client(service(models), []).about("before").views is None


def test_a_key_that_is_none_is_refused() -> None:
    for key in ("", "two words", "line\nbreak", "schlüssel"):
        with pytest.raises(UserError, match="the key is empty or holds characters"):
            HttpEndpoint("https://models.example", key)
    with pytest.raises(UserError, match="is no address"):
        HttpEndpoint("models.example", "key")


def test_no_answer_is_read_without_end() -> None:
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        while sent < 200_000_000:
            sent += 1_000_000
            yield b" " * 1_000_000

    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=endless()))
    with pytest.raises(UserError, match="answers with more than 16 MB; ") as said:
        client(transport, []).about("before")
    assert "\n" not in str(said.value)
    assert sent < 20_000_000


def test_a_small_answer_does_not_unpack_to_a_large_one() -> None:
    asked, bomb = list[str](), gzip.compress(gzip.compress(bytes(200_000_000)))
    assert len(bomb) < 10_000

    def packed(request: httpx.Request) -> httpx.Response:
        asked.append(request.headers["Accept-Encoding"])
        return httpx.Response(200, headers={"Content-Encoding": "gzip, gzip"}, content=iter([bomb]))

    tracemalloc.start()
    try:
        with pytest.raises(UserError, match="answers packed, as 'gzip, gzip'") as said:
            client(httpx.MockTransport(packed), []).about("before")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert asked == ["identity"]
    assert "\n" not in str(said.value)
    assert peak < 1_000_000


def test_an_answer_that_breaks_off_is_asked_for_again(folder: AuditFolder) -> None:
    models = Models()
    models.budget = 1000
    inner, waits, broken = service(models), list[float](), iter([True])

    def breaking(request: httpx.Request) -> httpx.Response:
        def part() -> Iterator[bytes]:
            yield b"{"
            raise httpx.ReadError("gone", request=request)

        return httpx.Response(200, content=part()) if next(broken, False) else inner.handle_request(request)

    assert collect(folder, "before", client(httpx.MockTransport(breaking), waits)).complete
    assert waits == [1]


def test_a_wrong_port_is_named() -> None:
    for port in ("99999", "port", "0"):
        with pytest.raises(UserError, match=f"has the port '{port}'; give one from 1 to 65,535"):
            HttpEndpoint(f"http://127.0.0.1:{port}/below", "key")
    with pytest.raises(UserError, match="is no address"):
        HttpEndpoint("http://[::1", "key")


def test_who_waits_is_told_why(folder: AuditFolder) -> None:
    said: list[str] = []
    endpoint = HttpEndpoint("http://127.0.0.1:1", "key", httpx.MockTransport(away), lambda _: None, said.append)
    with pytest.raises(UserError, match=r"cannot be reached \(ConnectError\); check the address"):
        collect(folder, "before", endpoint)
    assert said == ["http://127.0.0.1:1 cannot be reached (ConnectError); trying again in 1 s (1 of 1)"]


def test_a_service_that_has_answered_is_waited_for(folder: AuditFolder) -> None:
    models, said = Models(), list[str]()
    models.budget = 1000
    there = service(models)

    def leaving(request: httpx.Request) -> httpx.Response:
        return away(request) if request.method == "POST" else there.handle_request(request)

    endpoint = HttpEndpoint(
        "http://127.0.0.1:1", "secret-key", httpx.MockTransport(leaving), lambda _: None, said.append
    )
    with pytest.raises(UserError, match=r"cannot be reached \(ConnectError\); what was answered is kept"):
        collect(folder, "before", endpoint)
    assert len(said) == 5
    assert said[-1].endswith("trying again in 16 s (5 of 5)")


# --- the command line ---

HTTPS = ("--endpoint", "https://models.example")

ADAPTER = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from owner_world import SIZE, Models
models = Models()
def embed(pngs, model): return models.embed(pngs, model).vectors
"""


def run(*argv: object) -> int:
    return main(["audit", *map(str, argv)])


def test_a_folder_as_file_managers_leave_it_can_be_audited(tmp_path: Path, mine: list[Path]) -> None:
    """macOS keeps a ._X.png beside X.png on other systems' disks, and Linux small copies in hidden folders."""
    strange = mine[0].with_name("lat\udce9\u2028.png")  # no text in UTF-8, and what some take for the end of a line
    mine[0].rename(strange)
    (mine[1].parent / "._picture-01.png").write_bytes(b"Mac OS X")
    (mine[1].parent / ".thumbs").mkdir()
    (mine[1].parent / ".thumbs" / "1.png").write_bytes(mine[1].read_bytes())
    assert run("start", mine[1].parent, "--out", tmp_path / "a", "--forget", 9) == 0
    audit = AuditFolder(tmp_path / "a")
    names = [image.name for image in audit.secret().images]
    assert sorted(names) == sorted([strange.name, *(path.name for path in mine[1:])])
    # What an audit asks for, the model owner's command reads.
    images = ImageSet(
        "album", np.zeros((12, 1, 2, 2), np.uint8), np.zeros(12, np.int64), np.zeros((1, 1, 2, 2), np.uint8),
        np.zeros(1, np.int64), ("a",), train_names=names,
    )  # fmt: skip
    assert sorted(read_request(audit.forget_file, images)) == audit.secret().forget


def test_the_commands_lead_from_images_to_a_verified_verdict(
    tmp_path: Path, mine: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    out, adapter = tmp_path / "a", tmp_path / "adapter.py"
    adapter.write_text(ADAPTER)
    flags = ["--views", 4, "--min-scale", 1, "--grayscale", 0]
    assert run("start", mine[0].parent, "--out", out, "--forget", 5, *flags) == 0
    said = capsys.readouterr().out
    assert str(out / "commitment.json") in said
    assert "the 5 images in" in said
    assert not any(line in said for line in (out / "private" / "key.pem").read_text().splitlines())
    assert len((out / "forget.txt").read_text().splitlines()) == 5
    assert run("verify", out) == 2
    assert run("verdict", out) == 2
    assert run("collect", out, "--adapter", adapter, "--model", "before") == 0
    hint = f"next: when the deletion is done, muc audit collect {out} --adapter {adapter} --model after"
    assert hint in capsys.readouterr().err
    moved = mine[0].parent.rename(tmp_path / "moved")
    assert run("collect", out, "--adapter", adapter) == 2
    assert "with --adapter say which model to ask: --model before" in capsys.readouterr().err
    assert run("collect", out, "--adapter", adapter, "--model", "after") == 2
    assert "is missing; put it back, or say with --images" in capsys.readouterr().err
    assert run("verdict", out) == 2
    assert f"first: muc audit collect {out} --model after" in capsys.readouterr().err
    assert run("collect", out, "--adapter", adapter, "--images", moved, "--model", "after") == 0
    published = tmp_path / "published.json"
    published.write_bytes((out / "commitment.json").read_bytes())
    assert run("verdict", out, "--reference", "ac") == 0
    assert "forgotten" not in capsys.readouterr().out
    for path in (out / "private").iterdir():
        path.unlink()
    (out / "private").rmdir()
    assert run("verify", out, "--published", published) == 0
    said = capsys.readouterr().out
    assert "FAILS" not in said
    assert "note" not in said
    (out / "answers" / "notes.txt").write_text("mine")
    assert run("verify", out) == 0
    assert "note   not of the audit, and not checked: answers/notes.txt\n" in capsys.readouterr().out
    (out / "answers" / "notes.txt").rename(out / "answers" / "\x1b[8m\nall holds.txt")  # a terminal would obey it
    assert run("verify", out) == 0
    assert "note   not of the audit, and not checked: answers/[8mall holds.txt\n" in capsys.readouterr().out
    assert run("verify", out, "--published", tmp_path / "missing") == 2
    assert f"the published commitment '{tmp_path / 'missing'}' cannot be read (No such file" in capsys.readouterr().out
    (out / "forget.txt").write_text("other.png\n")
    assert run("verify", out) == 2
    assert "forget.txt" in capsys.readouterr().err


def test_a_collection_that_is_terminated_says_how_it_goes_on(
    folder: AuditFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    adapter = tmp_path / "my adapter.py"
    stop = "import os, signal\ndef embed(pngs, model): os.kill(os.getpid(), signal.SIGTERM)\n"
    adapter.write_text("SIZE = 8\n" + stop)
    before = signal.getsignal(signal.SIGTERM)
    assert run("collect", folder, "--adapter", adapter, "--model", "before") == 130
    again = shlex.join(["muc", "audit", "collect", str(folder), "--adapter", str(adapter), "--model", "before"])
    assert f"nothing is lost. Go on with: {again}\n" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) == before


def test_runs_on_this_computer_can_be_audited_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny = ["--data", "digits", "--train-limit", "40", "--batch-size", "20", "--epochs", "1", "--threads", "1"]
    runs = [tmp_path / "r0", tmp_path / "r1"]
    for seed, path in enumerate(runs):
        assert main(["pretrain", *tiny, "--seed", str(seed), "--out", str(path)]) == 0
    mine, out = write_images(tmp_path / "mine", 6), tmp_path / "audit"
    assert run("start", *mine, "--out", out, "--views", 4) == 0
    assert run("collect", out, "--run", runs[1], "--before", runs[0]) == 0
    assert "next: muc audit verdict" in capsys.readouterr().err
    made = AuditFolder(out)
    before, after = (read_answers(made, phase, made.commitment(), made.secret()) for phase in PHASES)
    assert before.complete
    assert after.complete
    digests = [json.loads((path / "result.json").read_text())["model_sha256"] for path in runs]
    assert [before.model_sha256, after.model_sha256] == digests
    assert judged(made).checks[0].held


def test_a_plan_says_what_can_be_found_and_what_it_costs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plan", "--images", 10, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["n_forget"], found["n_control"]) == (5, 5)
    assert found["queries"] == 2 * terms_for(10, None, 8, MILD).queries
    assert run("plan", "--images", 10, "--reference", "retrain") == 0
    assert "190 over both models" in capsys.readouterr().out
    assert run("plan", "--images", 3) == 2


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["vrdict", "x"], "unknown audit step 'vrdict'; did you mean 'verdict'?"),
        (["start", "nowhere.png", "--out", "x"], "there is no image 'nowhere.png'"),
        (["start", "--out", "x"], "no images were given"),
        (["collect", "nowhere", "--endpoint", "https://models.example"], "there is no audit at nowhere"),
        (["verdict", "nowhere"], "there is no audit at nowhere"),
        (["verify", "nowhere"], "there is no audit at nowhere"),
    ],
)
def test_wrong_input_is_one_sentence(argv: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*argv) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert words in said[0]


def test_a_place_that_takes_no_audit_is_one_sentence(mine: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    for out, words in (("/proc/x", "/proc/x cannot be written"), ("x" * 300, "is too long")):
        assert run("start", mine[0].parent, "--out", out) == 2
        said = capsys.readouterr().err.splitlines()
        assert len(said) == 1
        assert words in said[0]


def test_a_verdict_that_cannot_be_written_is_one_sentence(
    folder: AuditFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    ask_both(folder, Models())
    folder.report_file.mkdir()
    assert run("verdict", folder) == 2
    assert "report.html cannot be written (Is a directory)" in capsys.readouterr().err
    assert not folder.verdict_file.exists()
    folder.report_file.rmdir()
    assert run("verdict", folder) == 0


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "give one of --endpoint, --adapter and --run to say whom to ask; none was given"),
        (["--endpoint", "https://models.example", "--adapter", "a.py"], "--endpoint and --adapter was given"),
        (["--endpoint", "https://models.example"], "with --endpoint say which model to ask: --model before"),
        ([*HTTPS, "--model", "before"], "there is no key; put it into the environment variable"),
        ([*HTTPS, "--model", "after", "--key-file", "nowhere"], "the key file 'nowhere' cannot be read"),
        (["--adapter", "nowhere.py", "--model", "before"], "there is no adapter 'nowhere.py'"),
        (["--run", "runs/after"], "give the one before it with --before"),
    ],
)
def test_collect_says_whom_it_could_ask(
    flags: list[str],
    words: str,
    folder: AuditFolder,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MUC_AUDIT_KEY", raising=False)
    assert run("collect", folder, *flags) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1", "defines no embed"),
        ("def embed(", "does not run"),
        ("SIZE = 'large'\ndef embed(pngs, model): pass", "has SIZE 'large'"),
        ("SIZE = 8\ndef embed(pngs, model): raise OSError('gone')", "failed \\(OSError: gone\\)"),
        ("SIZE = 8\ndef embed(pngs, model): return [[1.0]]", "something other than"),
    ],
)
def test_a_broken_adapter_is_described(text: str, words: str, folder: AuditFolder, tmp_path: Path) -> None:
    from muc.audit.protocol.adapter import Adapter

    path = tmp_path / "adapter.py"
    path.write_text(text)
    with pytest.raises(UserError, match=words):
        collect(folder, "before", Adapter(path))


def test_terms_out_of_range_are_refused() -> None:
    good = {
        "n_forget": 5,
        "n_control": 5,
        "n_withheld": 0,
        "views": 4,
        "decoys": 4,
        "repeats": 4,
        "near_duplicates": 4,
        "augmentation": MILD,
    }
    assert Terms(**good).queries == 52
    assert Terms(**{**good, "n_withheld": 3}).queries == 64
    for name, value in (
        ("views", 3),
        ("decoys", 1),
        ("repeats", 0),
        ("near_duplicates", 21),
        ("alpha", 0.7),
        ("draws", 9),
        ("n_control", 2),
        ("n_withheld", 2),
        ("margin", 0.0),
    ):
        with pytest.raises(UserError):
            Terms(**{**good, name: value})
    with pytest.raises(UserError, match="the statistic is 'mine'"):
        Terms(**good, statistic="mine")


def test_two_starts_at_once_do_not_take_each_others_secrets(
    tmp_path: Path, mine: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(folder: Path, mode: int = 0o777) -> None:
        """Another start comes between the look at --out and the first file."""
        monkeypatch.undo()
        begin(tmp_path / "a", mine)
        make_folder(folder, mode)

    monkeypatch.setattr("muc.audit.protocol.start.make_folder", late)
    with pytest.raises(UserError, match="cannot be written"):
        begin(tmp_path / "a", mine, seed=1)
    folder = AuditFolder(tmp_path / "a")
    assert folder.key_file.exists()
    assert folder.secret().forget
