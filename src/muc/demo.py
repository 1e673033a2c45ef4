"""The whole story on embedded images: an encoder, a request for deletion, several ways to serve it, and what is seen.

Several trials (seeds) run side by side, one core each, so that every number comes with its spread.
"""

import io
import multiprocessing
import os
from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from muc import config
from muc.errors import UserError
from muc.machine import core_count
from muc.methods import Method, usual_methods
from muc.methods.recipes import default_method
from muc.progress import meter, silence
from muc.recipes import recipe
from muc.run_folder import RunFolder
from muc.storage import read_json, write_json

SHARE = 0.2
FORGET = config.Request(forget_fraction=SHARE)
OWNER_IMAGES = 8  # as in the paper's heatmaps
OWNER_PAIRS = 6


def run_demo(out: Path, algorithm: str = "simclr", seeds: int = 4, epochs: int | None = None) -> Path:
    """Run all trials and write the report; a demo that was cut off goes on where it was. -> the page's path."""
    config.whole("seeds", seeds, 1, 1000)
    settings = recipe(data_for(algorithm), algorithm)
    if epochs is not None:
        settings = replace(settings, optimisation=replace(settings.optimisation, epochs=epochs))
    trials = {out / f"seed{seed}": replace(settings, seed=seed) for seed in range(seeds)}
    for trial, own in trials.items():
        check_same(trial, own)
    records = run_trials(trials)
    from muc.report import write_report
    from muc.report.words import ALGORITHMS, DATA, percent

    seen = read_json(out / "seed0" / "looks.json")
    thumbnails = [bytes.fromhex(text) for text in seen["thumbnails"]]
    what = f"{percent(SHARE)} of the training {'pairs' if algorithm == 'clip' else 'images'}"
    title = f"Forgetting {what}: {DATA[settings.data.name].lower()}, {ALGORITHMS[algorithm]}"
    return write_report(records, out, title, seen["looks"], thumbnails)


def data_for(algorithm: str) -> str:
    """The embedded set that it learns from."""
    return "glyph-pairs" if algorithm == "clip" else "glyphs"


def method_for(name: str, settings: config.Pretraining) -> Method:
    return default_method(name, settings.data.name, settings.model.algorithm)


def check_same(trial: Path, settings: config.Pretraining) -> None:
    """Before any trial begins: what an earlier demo left there can be gone on with."""
    original = RunFolder(trial / "pretrain")
    if not original.started:
        return
    from muc import opening

    if opening.pretraining_of(original) != settings:
        raise UserError(f"{trial.parent} holds a demo with other settings; give another --out")


def run_trials(trials: dict[Path, config.Pretraining]) -> list[dict[str, Any]]:
    """All side by side; what ends one of them, or this process, ends all, and what they have saved stays. -> records"""
    workers = min(len(trials), core_count())
    # Fresh processes: torch does not survive a fork of a process that has used its threads.
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), begin_worker) as pool:
        try:
            return watch(pool, trials)
        except BaseException as error:
            for worker in multiprocessing.active_children():
                worker.terminate()
            if isinstance(error, BrokenProcessPool):
                raise UserError(
                    "a trial's process was killed, perhaps for want of memory; nothing is lost: run the same command "
                    "again, with fewer --seeds if need be"
                ) from None
            raise


def begin_worker() -> None:
    """A session of its own: Ctrl-C in a terminal reaches the first process alone, which tells the others once."""
    os.setsid()
    silence()


def work(settings: config.Pretraining, out: Path) -> list[dict[str, Any]]:
    """A trial in a process of the pool."""
    try:
        return run_trial(settings, out)
    except KeyboardInterrupt:  # all is saved
        os._exit(1)  # back in the pool it might wait for ever, for a lock with which another was ended


def run_trial(settings: config.Pretraining, out: Path) -> list[dict[str, Any]]:
    """One seed: pretrain, serve the request with every method, evaluate, look. -> its records."""
    from muc import compare, runs
    from muc.evaluation.records import evaluate_runs

    runtime = config.Runtime(device="cpu", threads=1)
    original = RunFolder(out / "pretrain")
    if not original.started:
        runs.pretrain_run(settings, original.path, runtime)
    elif not original.done:
        runs.resume_run(original)
    served = {
        name: compare.serve(original, method_for(name, settings), FORGET, out / name, runtime)
        for name in usual_methods(settings.model.algorithm)
    }
    records = evaluate_runs([original, *served.values()], served["retrain"], runtime, keep=True)
    write_json(out / "looks.json", look_at(original, served, runtime))
    return records


def look_at(original: RunFolder, served: dict[str, RunFolder], runtime: config.Runtime) -> dict[str, Any]:
    """What the owner of the first images to forget sees of each method, through the black-box interface."""
    from muc import opening
    from muc.audit import look

    images, asked = opening.open_images(original), served["retrain"].split().unlearn
    if images.paired:
        rows = asked[:OWNER_PAIRS]
        looks = {name: look_at_pairs_of(original, run, rows, runtime) for name, run in served.items()}
    else:
        rows = asked[:OWNER_IMAGES]
        names = [images.train_names[i] for i in rows]
        before = opening.embedder(original, runtime)
        looks = {
            name: look(before, opening.embedder(run, runtime), images.train[rows], before.views, names).to_json()
            for name, run in served.items()
        }
    return {"looks": looks, "thumbnails": [png_of(image).hex() for image in images.train[rows]]}


def look_at_pairs_of(
    original: RunFolder, served: RunFolder, rows: np.ndarray, settings: config.Runtime
) -> dict[str, Any]:
    """The pairs' alignment matrices before and after, marked as such for the report."""
    from muc import opening
    from muc.evaluation.pairs import look_at_pairs
    from muc.models import CLIP
    from muc.runtime import Runtime

    images = opening.open_images(original)
    before, after = (opening.open_model(run, images) for run in (original, served))
    assert isinstance(before, CLIP)
    assert isinstance(after, CLIP)
    captions = [images.train_captions[i] for i in rows]
    return look_at_pairs(before, after, images.train[rows], captions, Runtime(settings)).to_json()


def png_of(pixels: np.ndarray) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    array = pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)
    Image.fromarray(array).save(buffer, "PNG")
    return buffer.getvalue()


def watch(pool: ProcessPoolExecutor, trials: dict[Path, config.Pretraining]) -> list[dict[str, Any]]:
    """Give out the trials and show the epochs done over all of them. -> their records, in order"""
    settings = next(iter(trials.values()))
    epochs = settings.optimisation.epochs
    used = (method_for(name, settings) for name in usual_methods(settings.model.algorithm))
    per_trial = epochs + sum(method.epochs or epochs for method in used)
    jobs = [pool.submit(work, own, trial) for trial, own in trials.items()]
    running = set(jobs)
    with meter(f"{len(trials)} trials", len(trials) * per_trial) as progress:
        progress.start_at(epochs_done(trials))
        while running:
            ended, running = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
            for job in ended:
                job.result()
            progress.advance(epochs_done(trials) - progress.done)
    return [record for job in jobs for record in job.result()]


def epochs_done(trials: Iterable[Path]) -> int:
    return sum(path.read_bytes().count(b"\n") for trial in trials for path in trial.glob("*/metrics.jsonl"))
