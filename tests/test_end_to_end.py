"""The whole mission on embedded images: pretrain, unlearn six ways, evaluate, compare, and unlearn again."""

import json
import math
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from muc import compare as comparing
from muc import config, opening, runs
from muc.__main__ import main
from muc.config import Request
from muc.errors import UserError
from muc.evaluation import records as evaluating
from muc.evaluation.gaps import gaps, gaps_to_held_out
from muc.evaluation.white_box import evaluate
from muc.methods import METHODS, GradientAscent, usual_methods
from muc.methods.recipes import default_method, search_ranges
from muc.recipes import recipe
from muc.restoring import restore
from muc.run_folder import RunFolder
from muc.runtime import Runtime

CPU = config.Runtime(device="cpu", threads=1)
SHORT = ("--data", "digits", "--train-limit", "60", "--batch-size", "20", "--epochs", "3", "--probe.epochs", "20")
FIVE = ("EMIA", "RA", "TA", "UA", "CMIA")
PERCENT = (*FIVE, "held_out_EMIA", "held_out_accuracy", "held_out_CMIA", "EMIA_accuracy", "EMIA_TPR_at_1_FPR")
MODELS = (("simclr", "mlp"), ("moco", "convnet"))


@dataclass(frozen=True)
class Story:
    """What one model owner has on disk after serving a request in all six ways."""

    folder: Path
    algorithm: str

    def run(self, name: str) -> RunFolder:
        return RunFolder(self.folder / name)

    def paths(self) -> list[str]:
        return [str(self.folder / name) for name in ("original", *METHODS)]


@pytest.fixture(scope="module", params=MODELS, ids=lambda model: "-".join(model))
def story(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Story:
    algorithm, architecture = request.param
    folder = tmp_path_factory.mktemp(algorithm)
    model = ["--algorithm", algorithm, "--architecture", architecture, "--queue-size", "64"]
    assert main(["pretrain", *SHORT, *model, "--threads", "1", "--out", str(folder / "original")]) == 0
    for method in METHODS:
        ask = ["--method", method, "--forget-fraction", "0.2", "--epochs", "2", "--threads", "1"]
        assert main(["unlearn", str(folder / "original"), *ask, "--out", str(folder / method)]) == 0
    return Story(folder, algorithm)


@pytest.fixture(scope="module")
def records(story: Story) -> list[dict[str, Any]]:
    """What `muc evaluate` prints; it writes the same into the run folders."""
    from contextlib import redirect_stdout
    from io import StringIO

    out = StringIO()
    with redirect_stdout(out):
        assert (
            main(["evaluate", *story.paths(), "--against", str(story.run("retrain")), "--threads", "1", "--json"]) == 0
        )
    return json.loads(out.getvalue())


def assert_finite(run: RunFolder) -> None:
    assert all(value.isfinite().all() for value in run.load_model().values())
    assert run.metrics()
    for line in run.metrics():
        assert all(math.isfinite(value) for value in line.values())


# --- what a run leaves ---


def test_every_run_is_complete_and_describes_itself(story: Story) -> None:
    for name in ("original", *METHODS):
        run = story.run(name)
        found = {path.name for path in run.path.iterdir()} - {"evaluation.json", "original.json"}
        weights = {"model.safetensors", "images.safetensors"}
        assert found == {"config.json", "env.json", "split.json", "metrics.jsonl", "result.json", *weights}
        assert run.config()["pretraining"]["model"]["algorithm"] == story.algorithm
        assert run.env()["torch"] == torch.__version__
        assert_finite(run)


def test_every_method_changes_the_weights_and_leaves_the_original_alone(story: Story) -> None:
    original = story.run("original")
    digests = {story.run(name).result()["model_sha256"] for name in METHODS}
    assert len(digests) == len(METHODS)
    assert original.result()["model_sha256"] not in digests
    assert story.run("finetune").config()["parent"]["model_sha256"] == original.result()["model_sha256"]


def test_all_methods_serve_the_same_request(story: Story) -> None:
    before = story.run("original").split()
    for method in METHODS:
        split = story.run(method).split()
        assert split.unlearn.tolist() == before.retain[:12].tolist()
        assert split.retain.tolist() == before.retain[12:].tolist()
        assert split.validation.tolist() == before.validation.tolist()


def test_loss_terms_are_logged_one_by_one_and_add_up(story: Story) -> None:
    terms = {
        "retrain": {"infonce"},
        "finetune": {"infonce"},
        "gradient_ascent": {"forget"},
        "neggrad": {"retain", "forget"},
        "l1_sparsity": {"infonce", "l1"},
        "alignment_calibration": {
            "retain", "negative_calibration", "positive_calibration", "performance_preserving",
        },
    }  # fmt: skip
    for method, names in terms.items():
        lines = story.run(method).metrics()
        assert [line["epoch"] for line in lines] == [1, 2]
        for line in lines:
            assert line.keys() - {"epoch", "loss", "learning_rate", "seconds", "images_per_second"} == names
            assert line["loss"] == pytest.approx(sum(line[name] for name in names))


# --- evaluate ---


def test_evaluation_gives_every_metric_in_its_range(records: list[dict[str, Any]]) -> None:
    assert [record["method"] for record in records] == ["retrain", "pretrain", *list(METHODS)[1:]]
    for record in records:
        metrics = record["metrics"]
        assert all(0 <= metrics[name] <= 100 for name in PERCENT)
        assert all(0 <= metrics[name] <= 1 for name in ("EMIA_threshold", "EMIA_AUC", "unlearn_AUC"))
        assert -2 <= metrics["FS"] <= 2
        assert metrics["RTE_minutes"] > 0


def test_the_original_has_forgotten_nothing_of_itself(records: list[dict[str, Any]]) -> None:
    original = next(record for record in records if record["method"] == "pretrain")
    assert original["metrics"]["FS"] == 0


def test_gaps_are_distances_to_retrain(records: list[dict[str, Any]]) -> None:
    retrain = records[0]["metrics"]
    assert set(records[0]["gaps"].values()) == {0}
    for record in records:
        gap = {name: abs(record["metrics"][name] - retrain[name]) for name in FIVE}
        found = record["gaps"]
        assert {name: found[f"{name}_gap"] for name in FIVE} == pytest.approx(gap)
        assert found["AG"] == pytest.approx(np.mean(list(gap.values())))
        assert found["AG_classifier"] == pytest.approx(np.mean([gap[name] for name in FIVE[1:]]))
        assert found["AGP"] == pytest.approx(
            100 * np.mean([gap[name] / retrain[name] for name in FIVE if retrain[name]])
        )


def test_what_is_printed_is_what_is_stored(story: Story, records: list[dict[str, Any]]) -> None:
    for record in records:
        # The original's record lies beside the first run that serves the request.
        method, name = record["method"], "evaluation.json"
        folder = story.folder / ("retrain" if method == "pretrain" else method)
        if method == "pretrain":
            name = "original.json"
        stored = json.loads((folder / name).read_text())
        # But for the values of every image, which are for files.
        scores = stored.pop("per_sample")["FS"]
        assert stored == record
        assert len(scores) == 12
        assert np.mean(scores) == pytest.approx(record["metrics"]["FS"], abs=1e-6)
        assert method != "pretrain" or set(scores) == {0}


@pytest.mark.usefixtures("records")
def test_the_library_measures_what_the_command_does(story: Story) -> None:
    run, original = story.run("alignment_calibration"), story.run("original")
    stored = json.loads((run.path / "evaluation.json").read_text())
    images, split = opening.open_images(run), run.split()
    found = evaluate(
        opening.open_model(run, images),
        opening.open_model(original, images),
        images,
        split,
        opening.pretraining_of(run),
        Runtime(CPU),
        seed=split.seed,
    )
    assert found.pop("per_sample") == stored["per_sample"]
    assert found == {name: stored["metrics"][name] for name in found}


# --- compare ---


def compare(story: Story, capsys: pytest.CaptureFixture[str], out: Path, *flags: str) -> dict[str, Any]:
    capsys.readouterr()
    ask = ["--forget-fraction", "0.2", "--threads", "1", "--out", str(out), "--json"]
    assert main(["compare", str(story.run("original")), *ask, *flags]) == 0
    found = json.loads(capsys.readouterr().out)
    assert json.loads((out / "comparison.json").read_text()) == found
    first = found["ranking"][0]
    assert found["publish"] == (first["run"] if first["AG"] < found["original_AG"] else None)
    assert RunFolder(first["run"]).done
    assert [row["AG"] for row in found["ranking"]] == sorted(row["AG"] for row in found["ranking"])
    return found


def test_compare_ranks_all_methods_by_their_gap_to_retrain(
    story: Story, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = compare(story, capsys, tmp_path / "request")
    assert found["judged_against"] == "retrain"
    assert {row["method"] for row in found["ranking"]} == set(usual_methods(story.algorithm)) - {"retrain"}
    by_method = {record["method"]: record for record in found["records"]}
    assert found["original_AG"] == by_method["pretrain"]["gaps"]["AG"]
    for row in found["ranking"]:
        record = by_method[row["method"]]
        assert row["AG"] == record["gaps"]["AG"]
        lost = by_method["pretrain"]["metrics"]["TA"] - record["metrics"]["TA"]
        assert row["lost_test_accuracy"] == pytest.approx(lost)


def test_compare_without_retrain_judges_by_held_out_images(
    story: Story, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = compare(story, capsys, tmp_path / "request", "--methods", "finetune", "gradient_ascent")
    assert found["judged_against"] == "the original model and held-out images"
    assert not (tmp_path / "request" / "retrain").exists()
    original = next(record["metrics"] for record in found["records"] if record["method"] == "pretrain")
    for row in found["ranking"]:
        metrics = next(r["metrics"] for r in found["records"] if r["run"] == row["run"])
        expected = [
            abs(metrics["EMIA"] - metrics["held_out_EMIA"]),
            abs(metrics["UA"] - metrics["held_out_accuracy"]),
            abs(metrics["CMIA"] - metrics["held_out_CMIA"]),
            abs(metrics["RA"] - original["RA"]),
            abs(metrics["TA"] - original["TA"]),
        ]
        assert row["AG"] == pytest.approx(np.mean(expected))


@pytest.mark.parametrize("against", [True, False], ids=["with-retrain", "without-retrain"])
def test_compare_searches_on_validation_images(
    story: Story, capsys: pytest.CaptureFixture[str], tmp_path: Path, against: bool
) -> None:
    flags = ["--methods", "neggrad", "--search", "2"]
    flags += ["--against", str(story.run("retrain"))] if against else []
    found = compare(story, capsys, tmp_path / "request", *flags)
    trials = json.loads((tmp_path / "request" / "neggrad" / "search.json").read_text())
    assert [Path(trial["run"]).name for trial in trials] == ["neggrad", "neggrad-trial1"]
    assert found["ranking"][0]["run"] == min(trials, key=lambda trial: trial["AG"])["run"]
    default, drawn = (opening.method_of(RunFolder(trial["run"])) for trial in trials)
    assert default == default_method("neggrad", "digits")
    assert drawn != default
    for name, (low, high, _) in search_ranges(default, "digits").items():
        assert low <= getattr(drawn, name) <= high


def test_the_search_never_looks_at_test_images(
    story: Story, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    flags = ["--methods", "finetune", "--search", "2", "--against", str(story.run("retrain"))]
    compare(story, capsys, tmp_path / "request", *flags)
    trials = json.loads((tmp_path / "request" / "finetune" / "search.json").read_text())
    run, original = RunFolder(trials[0]["run"]), story.run("original")
    split = run.split()
    images = opening.open_images(run)
    held_out = replace(
        images, test=images.train[split.validation], test_labels=images.train_labels[split.validation], test_names=()
    )
    models = [opening.open_model(found, images) for found in (original, run, story.run("retrain"))]
    found, retrain = (
        evaluate(model, models[0], held_out, split, opening.pretraining_of(run), Runtime(CPU), split.seed)
        for model in models[1:]
    )
    assert trials[0]["AG"] == pytest.approx(gaps(found, retrain)["AG"])


def test_compare_uses_finished_runs_again(story: Story, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    first = compare(story, capsys, tmp_path / "request", "--methods", "finetune")
    made = (tmp_path / "request" / "finetune" / "model.safetensors").stat().st_mtime_ns
    assert compare(story, capsys, tmp_path / "request", "--methods", "finetune") == first
    assert (tmp_path / "request" / "finetune" / "model.safetensors").stat().st_mtime_ns == made


# --- runs, and unlearning again ---


def test_runs_lists_what_was_made_from_what(story: Story, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["runs", str(story.folder), "--json"]) == 0
    rows = {Path(row["run"]).name: row for row in json.loads(capsys.readouterr().out)}
    for method in METHODS:
        assert rows[method]["what"].startswith(f"{method} {story.algorithm}")
        assert rows[method]["from"] == str(story.run("original"))
        assert rows[method]["state"] == "done"
    assert rows["original"]["what"].startswith(f"pretrain {story.algorithm}")
    assert rows["original"]["from"] == ""


@pytest.mark.parametrize("method", ["finetune", "retrain"])
def test_an_unlearned_run_can_unlearn_again_and_records_its_ancestry(
    story: Story, tmp_path: Path, method: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parent = story.run("alignment_calibration")
    ask = ["--method", method, "--forget-fraction", "0.25", "--epochs", "1", "--threads", "1"]
    assert main(["unlearn", str(parent), *ask, "--out", str(tmp_path / "again")]) == 0
    run = RunFolder(tmp_path / "again")
    assert_finite(run)
    first, second = run.config()["ancestry"]
    assert first["kind"] == "pretrain"
    assert first["model_sha256"] == story.run("original").result()["model_sha256"]
    assert second["method"]["name"] == "alignment_calibration"
    assert second["request"]["images"] == 12
    assert second["model_sha256"] == parent.result()["model_sha256"]
    split = run.split()
    assert sorted(split.train) == sorted(parent.split().retain)
    assert len(split.unlearn) == 12
    capsys.readouterr()
    assert main(["evaluate", str(run), str(parent), "--threads", "1", "--json"]) == 0
    found = {record["run"]: record for record in json.loads(capsys.readouterr().out)}
    assert found[str(run)]["retain_images"] == 36
    assert found[str(parent)]["metrics"]["FS"] == 0


# --- small and large requests, and the same again ---


def settings(algorithm: str) -> config.Pretraining:
    found = recipe("digits", algorithm)
    return replace(
        found,
        data=replace(found.data, train_limit=48),
        model=replace(found.model, queue_size=64),
        optimisation=replace(found.optimisation, epochs=2, batch_size=16),
    )


@pytest.fixture(scope="module", params=["simclr", "moco"])
def small(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return runs.pretrain_run(settings(request.param), tmp_path_factory.mktemp("small") / "original", CPU)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("images", [2, 24])
def test_requests_from_two_images_to_half_of_them_give_finite_models(
    small: RunFolder, tmp_path: Path, method: str, images: int
) -> None:
    (tmp_path / "request.txt").write_text("\n".join(map(str, small.split().retain[-images:])))
    kind = replace(METHODS[method](), epochs=2)
    run = runs.unlearn_run(small, kind, Request(forget=tmp_path / "request.txt"), tmp_path / "run", CPU)
    assert len(run.split().unlearn) == images
    assert_finite(run)


@pytest.mark.parametrize("images", [2, 24])
def test_requests_from_two_images_to_half_of_them_can_be_evaluated(
    small: RunFolder, tmp_path: Path, images: int
) -> None:
    from muc.evaluation.records import evaluate_runs

    request = Request(forget_fraction=images / 48)
    made = [
        runs.unlearn_run(small, replace(METHODS[name](), epochs=1), request, tmp_path / name, CPU)
        for name in ("retrain", "gradient_ascent")
    ]
    for record in evaluate_runs([small, *made], made[0], CPU):
        assert record["forget_images"] == images
        assert all(math.isfinite(record["metrics"][name]) for name in (*PERCENT, "FS", "EMIA_AUC", "unlearn_AUC"))
        assert all(math.isfinite(value) for value in record["gaps"].values())


def test_the_same_seed_gives_the_same_bits_and_another_seed_others(small: RunFolder, tmp_path: Path) -> None:
    found = opening.pretraining_of(small)
    assert small.result()["model_sha256"] == digest(runs.pretrain_run(found, tmp_path / "again", CPU))
    assert small.result()["model_sha256"] != digest(runs.pretrain_run(replace(found, seed=1), tmp_path / "other", CPU))


@pytest.mark.parametrize("method", ["alignment_calibration", "gradient_ascent"])
def test_unlearning_with_the_same_seed_gives_the_same_bits(small: RunFolder, tmp_path: Path, method: str) -> None:
    kind = replace(METHODS[method](), epochs=1)
    made = [
        runs.unlearn_run(small, kind, Request(forget_fraction=0.1), tmp_path / str(i), CPU, seed)
        for i, seed in enumerate((None, 0, 5))
    ]
    assert digest(made[0]) == digest(made[1])
    assert digest(made[0]) != digest(made[2])


def digest(run: RunFolder) -> str:
    return run.result()["model_sha256"]


def test_the_bits_do_not_depend_on_how_often_the_state_is_saved(small: RunFolder, tmp_path: Path) -> None:
    eager = replace(CPU, checkpoint_seconds=0.0)
    assert digest(small) == digest(runs.pretrain_run(opening.pretraining_of(small), tmp_path / "run", eager))


def test_a_run_records_every_setting(small: RunFolder, tmp_path: Path) -> None:
    method = GradientAscent(epochs=1, learning_rate=2e-5)
    values = runs.unlearn_run(small, method, Request(forget_fraction=0.1), tmp_path / "run", CPU).config()
    assert values["method"] == {"name": "gradient_ascent", **asdict(method)}
    assert opening.method_of(RunFolder(tmp_path / "run")) == method
    assert opening.pretraining_of(RunFolder(tmp_path / "run")) == opening.pretraining_of(small)
    # What "auto" came to is recorded: a resumed run goes on with the same arithmetic.
    assert restore(config.Runtime, values["runtime"], "config.json") == replace(CPU, precision="float32")


def complaint(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Of a command that is refused, in one sentence."""
    capsys.readouterr()
    assert main(list(map(str, arguments))) == 2
    said = capsys.readouterr().err
    assert said.startswith("muc: error: ")
    assert said.count("\n") == 1
    return said


@pytest.mark.parametrize("method", ["retrain", "finetune", "l1_sparsity"])
def test_a_request_for_one_image_is_served(small: RunFolder, tmp_path: Path, method: str) -> None:
    (tmp_path / "one").write_text(f"{small.split().retain[0]}\n")
    ask = ["--method", method, "--forget", str(tmp_path / "one"), "--threads", "1", "--device", "cpu"]
    assert main(["unlearn", str(small), *ask, "--epochs", "1", "--out", str(tmp_path / "run")]) == 0
    assert len(RunFolder(tmp_path / "run").split().unlearn) == 1
    assert main(["evaluate", str(tmp_path / "run"), "--device", "cpu", "--threads", "1"]) == 0


def test_methods_that_compare_images_to_forget_want_two(
    small: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "one").write_text(f"{small.split().retain[0]}\n")
    for command in ("unlearn", "compare"):
        said = complaint(capsys, command, small, "--forget", tmp_path / "one", "--out", tmp_path / "run")
        assert "names 1 image" in said
        assert "serve it by retrain, finetune or l1_sparsity" in said
        assert not (tmp_path / "run").exists()


def made(small: RunFolder, folder: Path) -> tuple[RunFolder, RunFolder]:
    """A copy of the run, and one unlearned from it."""
    original, served = RunFolder(folder / "original"), RunFolder(folder / "served")
    shutil.copytree(small.path, original.path)
    ask = config.Request(forget_fraction=0.2)
    return original, runs.unlearn_run(original, METHODS["finetune"](epochs=1), ask, served.path, CPU)


def test_an_original_that_was_replaced_is_no_measure(
    small: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Forgetting scores would be against the wrong model."""
    original, served = made(small, tmp_path)
    assert main(["evaluate", str(served), "--device", "cpu", "--threads", "1"]) == 0
    kept = (served.path / "evaluation.json").read_bytes()
    settings = opening.pretraining_of(original)
    runs.pretrain_run(replace(settings, seed=settings.seed + 1), original.path, CPU, force=True)
    for judged in ([served], [original, served]):
        assert "is not the model any more that" in complaint(capsys, "evaluate", *judged, "--device", "cpu")
    assert (served.path / "evaluation.json").read_bytes() == kept


def test_an_evaluation_without_retrain_keeps_the_gaps_that_are_known(small: RunFolder, tmp_path: Path) -> None:
    original, served = made(small, tmp_path)
    ask = config.Request(forget_fraction=0.2)
    exact = runs.unlearn_run(original, METHODS["retrain"](epochs=1), ask, tmp_path / "retrain", CPU)
    (_, judged) = evaluating.evaluate_runs([served], exact, CPU)
    (again,) = evaluating.evaluate_runs([served], None, CPU)
    assert (again["gaps"], again["against"]) == (judged["gaps"], str(exact))


def test_a_comparison_without_retrain_is_not_by_gaps_that_are_known(small: RunFolder, tmp_path: Path) -> None:
    original, _ = made(small, tmp_path)
    ask, out = config.Request(forget_fraction=0.2), tmp_path / "compared"
    with_retrain = comparing.compare(original, ask, out, ["retrain", "finetune"], runtime=CPU)
    assert with_retrain.retrained
    alone = comparing.compare(original, ask, out, ["finetune"], runtime=CPU)
    assert not alone.retrained
    assert [record["gaps"] for record in alone.records] == [None, None]
    metrics = {record["method"]: record["metrics"] for record in alone.records}
    assert alone.ranking[0]["AG"] == gaps_to_held_out(metrics["finetune"], metrics["pretrain"])["AG"]
    kept = out / "finetune" / "evaluation.json"
    assert json.loads(kept.read_text())["gaps"] is not None
    kept.write_text('{"format_version": 1}')  # damaged: judged again
    assert comparing.compare(original, ask, out, ["finetune"], runtime=CPU).ranking == alone.ranking


def test_a_run_that_was_moved_without_its_original_says_so(
    small: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, served = made(small, tmp_path)
    moved = shutil.copytree(served.path, tmp_path / "away" / "served")
    said = complaint(capsys, "evaluate", moved, "--device", "cpu")
    assert f"{moved} was made from the run {tmp_path / 'away' / 'original'}, which is not there" in said


def test_no_run_begins_inside_another(small: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    original, served = made(small, tmp_path)
    for command in (("pretrain", "--data", "digits"), ("unlearn", original, "--forget-fraction", "0.1")):
        said = complaint(capsys, *command, "--out", served.path / "inside")
        assert f"lies inside the run {served.path.resolve()}; give a folder outside of it" in said
    assert not (served.path / "inside").exists()


def test_no_run_is_lost_inside_another(small: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    original, served = made(small, tmp_path)
    inside = original.path / "inside"
    said = complaint(capsys, "unlearn", original, "--forget-fraction", "0.1", "--out", inside)
    assert "lies inside the run to unlearn from" in said
    for place in (inside, original.path / "a" / "b"):
        shutil.copytree(served.path, place)
        said = complaint(capsys, "pretrain", "--data", "digits", "--out", original, "--force")
        top = original.path / place.relative_to(original.path).parts[0]
        assert f"{top} is no part of the run {original} and would be lost; move it away first" in said
        assert RunFolder(place).done
        shutil.move(place, tmp_path / "away" / place.name)
    assert original.done


def test_what_is_no_runs_own_is_not_emptied_with_it(
    small: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such as the images to train on."""
    original, served = made(small, tmp_path)
    for run in (original, served):
        (run.path / "tensorboard").mkdir()
        (run.path / "search.json").write_text("[]")
        mine = run.path / "mine.npz"
        np.savez(mine, images=np.zeros((9, 8, 8), np.uint8), labels=np.zeros(9, np.int64))
        command = ("pretrain",) if run is original else ("unlearn", original, "--forget-fraction", "0.1")
        data = ("--data", mine) if run is original else ()
        said = complaint(capsys, *command, *data, "--out", run, "--force")
        assert f"{mine} is no part of the run {run} and would be lost; move it away first" in said
        mine.unlink()
        (run.path / "serve").mkdir()
        said = complaint(capsys, *command, "--out", run, "--force")
        assert f"{run.path / 'serve'} holds data owners' keys and would be lost; move it away first" in said
        assert run.done
        (run.path / "serve").rmdir()
    settings = opening.pretraining_of(original)
    assert runs.pretrain_run(settings, original.path, CPU, force=True).done
    assert not (original.path / "tensorboard").exists()


def test_a_place_that_is_taken_is_known_before_the_data_are_read(
    small: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, served = made(small, tmp_path)
    monkeypatch.setattr(runs, "load_images", None)
    monkeypatch.setattr(runs, "open_images", None)
    with pytest.raises(UserError, match="holds a finished run"):
        runs.pretrain_run(opening.pretraining_of(original), original.path, CPU)
    with pytest.raises(UserError, match="holds a finished run"):
        runs.unlearn_run(original, METHODS["finetune"](), Request(forget_fraction=0.1), served.path, CPU)


def test_an_export_into_a_run_is_refused(small: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, served = made(small, tmp_path)
    weights = served.path / "model.safetensors"
    before = weights.read_bytes()
    assert "would lie inside the run" in complaint(capsys, "export", served, "--out", weights, "--force")
    assert weights.read_bytes() == before


def test_a_record_that_cannot_be_kept_is_said_before_anything_is_measured(
    small: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, served = made(small, tmp_path)

    def full(path: Path) -> None:
        raise OSError(30, "Read-only file system", str(path))

    monkeypatch.setattr(evaluating, "prepare_folder", full)
    monkeypatch.setattr(evaluating, "record_of", lambda *_: pytest.fail("measured"))
    assert main(["evaluate", str(served), "--device", "cpu", "--threads", "1"]) == 2


def test_data_are_found_from_anywhere_and_where_they_were_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
    random = np.random.default_rng(0)
    np.savez(here / "mine.npz", images=random.integers(256, size=(30, 8, 8), dtype=np.uint8), labels=np.arange(30) % 3)
    monkeypatch.chdir(here)
    fast = ["--architecture", "mlp", "--epochs", "1", "--batch-size", "8", "--threads", "1", "--device", "cpu"]
    assert main(["pretrain", "--data", "mine.npz", *fast, "--out", "run"]) == 0
    monkeypatch.chdir(there)
    ask = ["--method", "finetune", "--epochs", "1", "--forget-fraction", "0.2", "--threads", "1", "--device", "cpu"]
    assert main(["unlearn", "../here/run", *ask, "--out", "first"]) == 0
    (here / "mine.npz").rename(there / "mine.npz")
    said = complaint(capsys, "unlearn", here / "run", *ask, "--out", "second")
    assert "name the folder that holds 'mine.npz' in MUC_DATA" in said
    monkeypatch.setenv("MUC_DATA", str(there))
    assert main(["unlearn", "../here/run", *ask, "--out", "second"]) == 0
    assert RunFolder("first").result()["model_sha256"] == RunFolder("second").result()["model_sha256"]
