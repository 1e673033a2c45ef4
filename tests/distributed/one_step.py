"""One step of every kind of model and method: its terms, gradients and new weights, written by the first process.

Run by the test in one process and, through torchrun, in two.
"""

import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from muc import config, processes
from muc.methods import METHODS, AlignmentCalibration, Method
from muc.models import Batch, ContrastiveModel, build_model

SIDE, RETAIN, FORGET = 16, 7, 3  # rows that do not divide evenly
MODELS = {
    "simclr": config.Model("simclr", architecture="convnet"),
    "moco": config.Model("moco", architecture="resnet18", queue_size=16, norm_groups=2),
    "clip": config.Model("clip", architecture="mlp", text_context=12),
}
METHODS_TRIED: dict[str, Method] = {
    **{name: kind() for name, kind in METHODS.items()},
    "compat": AlignmentCalibration(reading="compat"),
}


def batch_for(model: ContrastiveModel, third: bool) -> Batch:
    generator = torch.Generator().manual_seed(0)

    def view(n: int) -> Tensor:
        if model.reads_text:
            return torch.randint(1, 100, (n, 12), generator=generator)
        return torch.randn(n, 3, SIDE, SIDE, dtype=torch.float64, generator=generator)

    n = RETAIN + FORGET
    first = torch.randn(n, 3, SIDE, SIDE, dtype=torch.float64, generator=generator)
    weight = torch.randn(n, generator=generator) / 10
    return Batch(first, view(n), RETAIN, weight, FORGET / RETAIN, view(FORGET) if third else None)


def in_double(model: ContrastiveModel) -> ContrastiveModel:
    """The encoders: in float32 a ReLU whose input is nearly zero can be on in one process and off in two."""
    for module in model.children():
        module.double()
    return model


def step_of(kind: str, method: Method) -> dict[str, Tensor]:
    torch.manual_seed(0)
    model = in_double(build_model(MODELS[kind], 3, SIDE)).train()
    processes.synchronise(model)
    terms = method.loss(model, batch_for(model, method.third_view))
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    processes.share_of(torch.stack(list(terms.values())).sum()).backward()
    processes.sum_gradients(trained.values())
    model.after_step()
    processes.average_statistics(model)
    found = {f"term.{name}": value.detach() for name, value in terms.items()}
    found |= {f"gradient.{name}": p.grad for name, p in trained.items() if p.grad is not None}
    return found | {f"buffer.{name}": b.double() for name, b in model.named_buffers()}


def all_steps() -> dict[str, Tensor]:
    return {
        f"{kind}/{name}/{key}": value.contiguous()
        for kind in MODELS
        for name, method in METHODS_TRIED.items()
        for key, value in step_of(kind, method).items()
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    with processes.joined():
        made = all_steps()
        if processes.rank() == 0:
            save_file(made, Path(sys.argv[1]))
