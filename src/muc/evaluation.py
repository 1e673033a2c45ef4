"""Evaluating runs on disk: one record per run, in the form that reports read."""

from typing import Any

from muc import config, runs
from muc.errors import UserError
from muc.evaluate.gaps import gaps
from muc.evaluate.white_box import evaluate
from muc.runtime import Runtime
from muc.storage import FORMAT_VERSION, RunFolder, read_json, write_json

RECORD = "evaluation.json"


def evaluate_runs(
    evaluated: list[RunFolder], against: RunFolder | None = None, runtime: config.Runtime | None = None
) -> list[dict[str, Any]]:
    """Records of all runs (Retrain's first, where it is given), each also saved in its run's folder.

    The original model may be among the runs: it is judged on the request of the others.
    """
    order = ([against] if against else []) + [
        r for r in evaluated if not against or r.path.resolve() != against.path.resolve()
    ]
    served = next((r for r in order if r.config()["kind"] == "unlearn"), None)
    if served is None:
        raise UserError(
            f"none of the runs serves a request ({order[0]} is a pretrained model); evaluate an unlearned run"
        )
    for run in order:
        check_comparable(run, served)
    resolved = Runtime(runtime)
    records = [record_of(run, served, resolved) for run in order]
    for run, record in zip(order, records, strict=True):
        record["gaps"] = gaps(record["metrics"], records[0]["metrics"]) if against else None
        record["against"] = str(against) if against else None
        write_json(run.path / RECORD, record)
    return records


def check_comparable(run: RunFolder, served: RunFolder) -> None:
    """Gaps mean something only between models of the same data that were asked to forget the same images."""
    run.result()
    if run.config()["data_sha256"] != served.config()["data_sha256"]:
        raise UserError(f"{run} and {served} were made with different data; evaluate runs of one data set together")
    a, b = run.split(), served.split()
    if run.config()["kind"] == "unlearn" and sorted(a.unlearn) != sorted(b.unlearn):
        raise UserError(f"{run} and {served} forget different images; evaluate runs of one request together")


def record_of(run: RunFolder, served: RunFolder, runtime: Runtime) -> dict[str, Any]:
    """What is known of one run. `served` names the request that it is judged on."""
    values, settings, split = run.config(), runs.pretraining_of(run), served.split()
    images = runs.open_images(run)
    original = runs.parent_of(served)
    assert original is not None, "a run that serves a request has a parent"
    model = runs.open_model(run, images)
    metrics = evaluate(model, runs.open_model(original, images), images, split, settings, runtime, seed=split.seed)
    per_sample = metrics.pop("per_sample")
    result = run.result()
    metrics["RTE_minutes"] = result["seconds"] / 60
    metrics["peak_memory_GB"] = None if result["peak_memory_bytes"] is None else result["peak_memory_bytes"] / 1e9
    return {
        "format_version": FORMAT_VERSION,
        "run": str(run),
        "method": values["method"]["name"] if values["kind"] == "unlearn" else "pretrain",
        "data": settings.data.name,
        "algorithm": settings.model.algorithm,
        "architecture": settings.model.architecture,
        "epochs": settings.optimisation.epochs,
        "forget_fraction": round(len(split.unlearn) / len(split.train), 6),
        "forget_images": len(split.unlearn),
        "retain_images": len(split.retain),
        "seed": values["seed"],
        "method_settings": values.get("method"),
        "env": run.env(),
        "metrics": metrics,
        "gaps": None,
        "per_sample": per_sample,
    }


def read_record(run: RunFolder) -> dict[str, Any]:
    path = run.path / RECORD
    if not path.exists():
        raise UserError(f"{run} has not been evaluated; first: muc evaluate {run} --against RETRAIN_RUN")
    return read_json(path)
