"""Evaluating runs on disk: one record per run, in the form that reports read."""

from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np

from muc import config, opening
from muc.data.files import select
from muc.errors import UserError
from muc.evaluation.gaps import compared, gaps
from muc.evaluation.pairs import evaluate as evaluate_pairs
from muc.evaluation.white_box import evaluate
from muc.models import CLIP
from muc.progress import meter
from muc.run_folder import ORIGINAL_RECORD, RECORD, RunFolder, identity
from muc.runtime import Runtime
from muc.split import Split
from muc.storage import FORMAT_VERSION, prepare_folder, read_object

SEARCH_PROBE_EPOCHS = 20


def evaluate_runs(
    evaluated: list[RunFolder],
    against: RunFolder | None = None,
    runtime: config.Runtime | None = None,
    keep: bool = False,
) -> list[dict[str, Any]]:
    """Records of all runs (Retrain's first, where it is given), each also saved in its run's folder.

    The original model may be among the runs: it is judged on the request of the others. With `keep`, a model that was
    judged on this request before is not judged again.
    """
    others = [run for run in evaluated if not against or run.path.resolve() != against.path.resolve()]
    order = [against, *others] if against else others
    served = find_served(order)
    for run in order:
        check_comparable(run, served)
    check_comparable(original_of(served), served)
    for run in {r.path.resolve() for r in (*others, served)}:
        prepare_folder(run)  # before what takes long: the record can be kept
    if against:
        check_retrain(against)
    resolved = Runtime(runtime)
    records: list[dict[str, Any]] = []
    with meter("evaluate", len(order), "runs") as progress:
        for run in order:
            record = (keep and kept_record(run, served)) or record_of(run, served, resolved)
            records.append(record)
            record["run"] = str(run)  # a kept one may have been elsewhere
            known = {} if against else kept_record(run, served) or {}  # gaps to a Retrain that is not looked at now
            record["gaps"] = gaps(record["metrics"], records[0]["metrics"]) if against else known.get("gaps")
            record["against"] = str(against) if against else known.get("against")
            # Each at once: what is cut off goes on behind the last. The original can be judged on many requests: what
            # is known of it goes beside the run that serves this one.
            if is_original(run, served):
                served.write_record(record, of_original=True)
            else:
                run.write_record(record)
            progress.advance(note=str(run))
    return records


def find_served(order: list[RunFolder]) -> RunFolder:
    """A run that serves the request all are judged on: one whose original is not an unlearned run among the others."""
    unlearned = [run for run in order if run.config()["kind"] == "unlearn"]
    if not unlearned:
        raise UserError(
            f"none of the runs serves a request ({order[0]} is a pretrained model); evaluate an unlearned run"
        )
    return next((run for run in unlearned if not any(is_original(run, other) for other in unlearned)), unlearned[0])


def is_original(run: RunFolder, served: RunFolder) -> bool:
    """Whether `run` is the model that `served` was unlearned from."""
    parent = opening.parent_of(served)
    return parent is not None and parent.path.resolve() == run.path.resolve()


def original_of(served: RunFolder) -> RunFolder:
    original = opening.parent_of(served)
    assert original is not None, "a run that serves a request has a parent"
    if not original.started:
        raise UserError(
            f"{served} was made from the run {original}, which is not there; move both together or put it back"
        )
    return original


def check_comparable(run: RunFolder, served: RunFolder) -> None:
    """Gaps mean something only between models of one original that were asked to forget the same images."""
    result = run.result()
    if run.config()["data_sha256"] != served.config()["data_sha256"]:
        raise UserError(f"{run} and {served} were made with different data; evaluate runs of one data set together")
    if is_original(run, served):
        if result["model_sha256"] != served.original_sha256():
            raise UserError(f"{run} is not the model any more that {served} was made from; unlearn from it again")
        return
    if sorted(run.split().unlearn) != sorted(served.split().unlearn):
        raise UserError(f"{run} and {served} do not serve the same request; evaluate runs of one request together")
    if run.original_sha256() != served.original_sha256():
        raise UserError(f"{run} and {served} were unlearned from different models; evaluate runs of one original")


def check_retrain(run: RunFolder) -> None:
    """What gaps are called, and what is ranked by them, holds for gaps to Retrain alone."""
    if (name := run.made_by()) != "retrain":
        raise UserError(f"{run} is a run of {name}, not of retrain; give a Retrain run of the same request")


def kept_record(run: RunFolder, served: RunFolder) -> dict[str, Any] | None:
    """What was found out about this very model and request."""
    path = served.path / ORIGINAL_RECORD if is_original(run, served) else run.path / RECORD
    record = read_object(path) if path.exists() else {}
    same = (run.result()["model_sha256"], request_digest(served.split()))
    metrics = record.get("metrics") or {}
    complete = all(metrics.get(name) is not None for name in compared(metrics))
    return record if complete and identity(record) == same else None


def request_digest(split: Split) -> str:
    return sha256(np.sort(split.unlearn).astype("<i8").tobytes()).hexdigest()


def judge(
    run: RunFolder, served: RunFolder, runtime: Runtime, held_out: Literal["test", "validation"] = "test"
) -> dict[str, Any]:
    """All metrics of a run on the request that `served` serves.

    A search looks at validation instead of test images, with a shorter probe: its trials are compared with each other
    and with a Retrain that is judged alike, and the probe takes nine tenths of an evaluation.
    """
    split, settings = served.split(), opening.pretraining_of(run)
    images = opening.open_images(run, split.all)
    original = original_of(served)
    model, before = opening.open_model(run, images), opening.open_model(original, images)
    if held_out == "validation":
        rows = split.validation
        images = replace(
            images,
            test=select(images.train, rows),
            test_labels=images.train_labels[rows],
            test_names=(),
            test_captions=[images.train_captions[i] for i in rows] if images.paired else (),
        )
        probe = replace(settings.probe, epochs=min(settings.probe.epochs, SEARCH_PROBE_EPOCHS))
        settings = replace(settings, probe=probe)
    if isinstance(model, CLIP) and isinstance(before, CLIP):
        return evaluate_pairs(model, before, images, split, runtime)
    return evaluate(model, before, images, split, settings, runtime, seed=split.seed)


def record_of(run: RunFolder, served: RunFolder, runtime: Runtime) -> dict[str, Any]:
    """What is known of one run. `served` names the request that it is judged on."""
    values, settings, split, result = run.config(), opening.pretraining_of(run), served.split(), run.result()
    metrics = judge(run, served, runtime)
    per_sample = metrics.pop("per_sample")
    peak = result["peak_memory_bytes"]
    metrics |= {"RTE_minutes": result["seconds"] / 60, "peak_memory_GB": None if peak is None else peak / 1e9}
    return {
        "format_version": FORMAT_VERSION,
        "method": "pretrain" if is_original(run, served) else values["method"]["name"],
        "data": Path(settings.data.name).name,
        "algorithm": settings.model.algorithm,
        "architecture": settings.model.architecture,
        "stem_relu": settings.model.stem_relu,
        "epochs": settings.optimisation.epochs,
        "forget_fraction": round(len(split.unlearn) / len(split.train), 6),
        "forget_images": len(split.unlearn),
        "retain_images": len(split.retain),
        "seed": split.seed,
        "request_sha256": request_digest(split),
        "original_sha256": served.original_sha256(),
        "model_sha256": result["model_sha256"],
        "method_settings": values.get("method"),
        "env": run.env(),
        "metrics": metrics,
        "gaps": None,
        "per_sample": per_sample,
    }
