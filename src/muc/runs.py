"""Runs on disk: begin and continue them. Every run executes from its folder alone, so beginning one and resuming one
are the same thing."""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from muc import config, processes
from muc.batches import check_paired
from muc.config import Request
from muc.data import ImageSet, apply_request, load_images, make_split, plan_batches
from muc.data.feed import bound_by
from muc.data.inventory import take_inventory
from muc.data.sources import whole_path
from muc.environment import environment
from muc.errors import Interrupted, UserError, missing
from muc.flops import matmul_rate, step_flops
from muc.methods import Method, Retrain
from muc.models import ContrastiveModel
from muc.opening import (
    fresh_model,
    load_weights,
    method_name,
    method_of,
    misfit,
    open_images,
    open_model,
    optimisation_of,
    parent_of,
    pretraining_of,
)
from muc.progress import meter
from muc.restoring import restore
from muc.run_folder import RunFolder, Tensors, inside_run
from muc.runtime import Runtime
from muc.split import Split
from muc.storage import Hold
from muc.train import Training

ABOUT = ("epoch", "learning_rate", "seconds", "images_per_second")  # what a line of metrics holds beside the losses


def pretrain_run(
    settings: config.Pretraining,
    out: Path,
    runtime: config.Runtime | None = None,
    force: bool = False,
    split_seed: int | None = None,
) -> RunFolder:
    """Train an encoder from scratch into a new run folder; which images it sees is drawn by its seed, or another."""
    run = free_place(out, force)
    settings = replace(settings, data=whole_path(settings.data))
    images = load_images(settings.data)
    if settings.model.algorithm == "clip":
        check_paired(images.train_captions, f"'{settings.data.name}'")
    values = {
        "kind": "pretrain",
        "pretraining": asdict(settings),
        "seed": settings.seed,
        "data_sha256": images.digest,
        "ancestry": [],
    }
    split = make_split(images, settings.data, settings.seed if split_seed is None else split_seed)
    with begun(run, values, split, take_inventory(images).to_tensors(), runtime, force):
        return execute(run, images)


def unlearn_run(
    parent: RunFolder,
    method: Method,
    request: Request,
    out: Path,
    runtime: config.Runtime | None = None,
    seed: int | None = None,
    force: bool = False,
) -> RunFolder:
    """Serve a deletion request with one method, from a finished run into a new one."""
    here, there = parent.path.resolve(), Path(out).resolve()
    if here.is_relative_to(there) or there.is_relative_to(here):
        raise UserError(f"--out {out} is, holds or lies inside the run to unlearn from; give another folder")
    config.whole("seed", 0 if seed is None else seed, 0, 2**63)
    inherited, result = parent.config(), parent.result()
    run = free_place(out, force)
    images = open_images(parent, parent.split().kept)
    split = apply_request(parent.split(), request, images)
    settings = pretraining_of(parent)
    # What is wrong with the method's settings, the request or the parent's weights is refused before writing.
    optimisation = optimisation_of(settings, method)
    plan_batches(split.retain, split.unlearn, method.rows, optimisation.batch_size, 0)
    if method.start == "pretrained":
        open_model(parent, images)
    step = {"kind": inherited["kind"], "method": inherited.get("method"), "request": inherited.get("request")}
    values = {
        "kind": "unlearn",
        "pretraining": inherited["pretraining"],
        "seed": settings.seed if seed is None else seed,
        "data_sha256": inherited["data_sha256"],
        "method": {"name": method_name(method), **asdict(method)},
        "request": {
            **asdict(request),
            "images": len(split.unlearn),
            "never_trained_on": len(parent.split().validation) - len(split.validation),
        },
        "parent": {"path": os.path.relpath(parent.path, out), "model_sha256": result["model_sha256"]},
        "ancestry": [*inherited["ancestry"], {**step, "model_sha256": result["model_sha256"]}],
    }
    inventory = parent.inventory() or take_inventory(images).to_tensors()
    with begun(run, values, split, inventory, runtime, force):
        return execute(run, images)


def resume_run(run: RunFolder) -> RunFolder:
    """Continue an interrupted run; the result is the same as if it had not been."""
    run.config()  # says what is wrong where there is no run
    with held(run):  # also while looking: another process may be about to finish it
        if run.done:
            raise UserError(f"the run {run} is finished; there is nothing to resume")
        if run.config()["kind"] == "import":
            raise UserError(f"the import into {run} was cut off; run the import again")
        processes.first_only(run.sweep)
        return execute(run)


def free_place(out: Path, force: bool) -> RunFolder:
    """Where a run can begin: known before the data are read, which can take long."""
    run = RunFolder(out)
    if outer := inside_run(Path(out).resolve().parent):
        raise UserError(f"--out {out} lies inside the run {outer}; give a folder outside of it")
    with held(run) if run.started else nullcontext():  # one that somebody is working in is not called interrupted
        processes.first_only(lambda: run.check_free(force))
    return run


@contextmanager
def held(run: RunFolder) -> Generator[None]:
    """Its folder is there, and other processes are kept out of it."""
    hold = Hold(run.path)

    def take() -> None:
        run.make()
        hold.take()

    processes.first_only(take)
    try:
        yield
    finally:
        hold.leave()


@contextmanager
def begun(
    run: RunFolder,
    values: dict[str, Any],
    split: Split,
    inventory: Tensors,
    runtime: config.Runtime | None,
    force: bool,
) -> Generator[None]:
    """A new run, held from its first file until whoever began it is done: all that lies in a folder is of one run."""
    resolved = Runtime(runtime)
    # As resolved, not as asked for: a run that is resumed elsewhere must not go on with other arithmetic unnoticed.
    values = {**values, "runtime": asdict(resolved.resolved_settings())}
    with held(run):
        processes.first_only(lambda: run.create(values, environment(resolved), split, force, inventory))
        yield


def execute(run: RunFolder, images: ImageSet | None = None) -> RunFolder:
    """Train what the folder (held) describes, from its last saved state if there is one, and finish it."""
    try:
        return _execute(run, images)
    except KeyboardInterrupt as stop:
        raise Interrupted(run.how_to_go_on, saved=isinstance(stop, Interrupted)) from None


def _execute(run: RunFolder, images: ImageSet | None) -> RunFolder:
    values, settings, method = run.config(), pretraining_of(run), method_of(run) or Retrain()
    where = f"{run.config_file}: runtime"
    runtime = Runtime(restore(config.Runtime, values["runtime"], where, defaults=True))
    images = images or open_images(run)
    split, optimisation = run.split(), optimisation_of(settings, method)
    training = Training(
        initial_model(run, method, images),
        method,
        images.train,
        plan_batches(split.retain, split.unlearn, method.rows, optimisation.batch_size, values["seed"]),
        settings.views,
        optimisation,
        runtime,
        values["seed"],
        images.train_captions,
    )
    if state := run.load_state():
        try:
            training.restore(*state)
        except (RuntimeError, KeyError) as error:
            raise misfit("saved tensors", run, error) from None
    processes.first_only(lambda: run.cut_metrics(training.epoch))
    complete = completer(training, images.train.shape[1:])
    runtime.reset_peak_memory()
    title = values["method"]["name"] if "method" in values else f"pretrain {settings.model.algorithm}"
    with meter(title, optimisation.epochs) as progress, events(run, runtime) as log:
        progress.start_at(training.epoch)

        def report(line: dict[str, Any]) -> None:
            note = complete(line)
            run.append_metrics(line)
            log(line)
            progress.advance(note=note)

        if processes.rank() == 0:
            training.run(report, run.save_state, runtime.settings.checkpoint_seconds)
        else:
            training.run()
    training.model.eval()
    result = {"seconds": training.seconds, "peak_memory_bytes": runtime.peak_memory(), "epochs": optimisation.epochs}
    if (share := training.waiting()) is not None:
        result |= {"waiting": round(share, 4), "bound_by": bound_by(share)}
    processes.first_only(lambda: run.finish(training.model.state_dict(), {"kind": values["kind"]}, result))
    return run


def completer(training: Training, shape: tuple[int, ...]) -> Callable[[dict[str, Any]], str]:
    """What puts the speed into an epoch's line of numbers. -> the line for a person"""
    plan, runtime = training.plan, training.runtime
    flops = step_flops(training.model, training.method, plan, shape) * plan.steps if runtime.on_gpu else 0
    rate = matmul_rate(runtime) * processes.world() if runtime.on_gpu else 1.0

    def complete(line: dict[str, Any]) -> str:
        rows = line["epoch"] * plan.steps * (plan.n_retain + plan.n_forget)
        line["images_per_second"] = round(rows / line["seconds"])
        note = " ".join(f"{k} {line[k]:.4f}" for k in line if k not in ABOUT)
        note += f" · {line['images_per_second']:,} images/s"
        if flops:
            line["mfu"] = round(line["epoch"] * flops / line["seconds"] / rate, 4)
            note += f" · MFU {line['mfu']:.0%}"
        if (share := training.waiting()) is not None:
            line["waiting"] = round(share, 4)
            note += f" · {share:.0%} waiting for data, bound by: {bound_by(share)}"
        return note

    return complete


@contextmanager
def events(run: RunFolder, runtime: Runtime) -> Generator[Callable[[dict[str, Any]], None]]:
    """A function that sends an epoch's numbers to TensorBoard, or nowhere."""
    if not runtime.settings.tensorboard:
        yield lambda line: None
        return
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise missing("--tensorboard", "tensorboard") from None
    with SummaryWriter(str(run.path / "tensorboard")) as writer:

        def log(line: dict[str, Any]) -> None:
            for name, value in line.items():
                if name != "epoch":
                    writer.add_scalar(name, value, line["epoch"])

        yield log


def initial_model(run: RunFolder, method: Method, images: ImageSet) -> ContrastiveModel:
    """Fresh weights from the seed, or the parent's."""
    values = run.config()
    model = fresh_model(pretraining_of(run), images, values["seed"])
    if method.start == "pretrained":
        parent = parent_of(run)
        assert parent is not None, "only unlearning starts from a pretrained model, and it has a parent"
        found = parent.result()["model_sha256"]
        if found != values["parent"]["model_sha256"]:
            raise UserError(f"{parent} changed since {run} began; start the unlearning again with another --out")
        load_weights(model, parent)
    return model
