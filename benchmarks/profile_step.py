"""Where a training step's time goes, by kind of kernel, beside what the card could do.

    python benchmarks/profile_step.py [--out results/…/profile_step.json]

On a GPU: ResNet-18, batch 512, as in train_speed.py. The floors: convolutions' FLOPs at the rate of a large matrix
product, the norm's bytes at the rate of a copy. On CPU a small step, whose operators are sorted the same way.
"""

import time
from collections import Counter
from collections.abc import Callable

import numpy as np
import torch
from measuring import begin, flags, publish, random_images
from torch.profiler import ProfilerActivity, profile

from muc import augment, config
from muc.data import plan_batches
from muc.flops import matmul_rate, step_flops
from muc.methods import Retrain
from muc.models import build_model
from muc.recipes import recipe
from muc.runtime import Runtime
from muc.train import Training

STEPS = 10
KINDS = {
    "norm, residual, ReLU": ("_moments", "_follow", "normalise", "_gradients", "batch_norm"),
    "convolutions and products": (
        "conv",
        "fprop",
        "dgrad",
        "wgrad",
        "xmma",
        "cutlass",
        "gemm",
        "nvjet",
        "_sum_products",
    ),
    "views": ("_view",),
}
"""What kernels (on CPU: operators) of a kind are called, looked for in this order."""


def kind_of(name: str) -> str:
    lower = name.lower()
    return next((kind for kind, marks in KINDS.items() if any(mark in lower for mark in marks)), "everything else")


def profiled(algorithm: str, runtime: Runtime) -> list[dict]:
    """Milliseconds a step by kind, and the ten costliest kernels by name, so that the sorting can be checked."""
    settings = recipe("cifar10", algorithm)
    batch, rows = (512, 45_000) if runtime.on_gpu else (8, 64)
    images = random_images(rows, 32)
    plan = plan_batches(np.arange(rows), np.arange(0), "retain", batch, 0)
    model = build_model(settings.model, 3, 32)
    flops = step_flops(model, Retrain(), plan, images.shape[1:])
    optimisation = config.Optimisation(epochs=1, batch_size=batch)
    training = Training(model, Retrain(), images, plan, settings.views, optimisation, runtime, 0)
    steps = STEPS if runtime.on_gpu else 2

    def advance(count: int) -> None:
        for step in range(count):
            training.batches.load(0, step % plan.steps)
            training.advance()
        runtime.wait()

    advance(steps)
    begun = time.perf_counter()
    advance(steps)
    whole = (time.perf_counter() - begun) / steps * 1e3
    activity = ProfilerActivity.CUDA if runtime.on_gpu else ProfilerActivity.CPU
    with profile(activities=[activity]) as seen:
        advance(steps)
    spent: Counter[str] = Counter()
    costly: Counter[str] = Counter()
    for event in seen.key_averages():
        microseconds = event.self_device_time_total if runtime.on_gpu else event.self_cpu_time_total
        spent[kind_of(event.key)] += microseconds
        costly[event.key] += microseconds
    floor = flops / matmul_rate(runtime, 8192 if runtime.on_gpu else 512) * 1e3
    rows_of = [
        {"algorithm": algorithm, "what": "whole step, ms", "value": whole},
        {"algorithm": algorithm, "what": "floor of its products and convolutions, ms", "value": floor},
        *(
            {"algorithm": algorithm, "what": f"{kind}, ms", "value": us / steps / 1e3}
            for kind, us in spent.most_common()
        ),
    ]
    rows_of += [
        {"algorithm": algorithm, "what": f"kernel {name[:80]}, ms", "value": us / steps / 1e3}
        for name, us in costly.most_common(10)
    ]
    return rows_of


def milliseconds(work: Callable[[], object], runtime: Runtime, times: int = 20) -> float:
    for _ in range(3):
        work()
    runtime.wait()
    begun = time.perf_counter()
    for _ in range(times):
        work()
    runtime.wait()
    return (time.perf_counter() - begun) / times * 1e3


def parts(runtime: Runtime) -> list[dict]:
    """The card's copy and matrix rates, and one kernel of ours beside torch's way: random views."""
    n = 2**27 if runtime.on_gpu else 2**20
    source = torch.zeros(n, device=runtime.device)
    target = torch.empty_like(source)
    copy = milliseconds(lambda: target.copy_(source), runtime)
    card = {"algorithm": "(the card)"}
    rows = [
        card | {"what": "copy, TB/s", "value": 2 * n * 4 / copy / 1e9},
        card
        | {"what": "matrix product, TFLOP/s", "value": matmul_rate(runtime, 8192 if runtime.on_gpu else 512) / 1e12},
    ]
    count, views = (1024 if runtime.on_gpu else 8), config.Views()
    images = torch.from_numpy(random_images(count, 32)).to(runtime.device)
    drawn = augment.draw(count, 32, 32, views, torch.Generator(runtime.device).manual_seed(0))
    eager = milliseconds(lambda: augment.transform(images, drawn, 32, views), runtime)
    rows.append(card | {"what": f"{count} views in eager torch, ms", "value": eager})
    if runtime.on_gpu:
        from muc.kernels import views as kernel

        ours = milliseconds(lambda: kernel.transform(images, drawn, 32, views), runtime)
        rows.append(card | {"what": f"{count} views by muc's kernel, ms", "value": ours})
    return rows


def main() -> None:
    args = flags(__doc__ or "").parse_args()
    runtime = Runtime(config.Runtime(device=args.device))
    rows = [row for algorithm in ("simclr", "moco") for row in profiled(algorithm, runtime)]
    publish("profile_step", rows + parts(runtime), runtime, args.out)


if __name__ == "__main__":
    begin(main)
