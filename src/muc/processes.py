"""Several processes as one: each takes its part of a batch through the network, and all of them see the whole loss.

Started by torchrun. With one process nothing is sent, so callers never ask how many there are.

A step is that of one process, in values and gradients: features are gathered, every process computes the loss of the
whole batch and takes 1 / W of it, and gradients are summed over processes, also where they cross from one to another.
"""

import os
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import partial
from math import gcd
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn.modules.batchnorm import _BatchNorm

from muc.errors import UserError


def launched() -> int:
    """How many processes torchrun has started; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def world() -> int:
    return distributed.get_world_size() if distributed.is_initialized() else 1


def rank() -> int:
    return distributed.get_rank() if distributed.is_initialized() else 0


def local(name: str, default: int) -> int:
    """LOCAL_RANK or LOCAL_WORLD_SIZE: which process of this machine, and of how many."""
    return int(os.environ.get(name, default)) if world() > 1 else default


@contextmanager
def joined() -> Generator[None]:
    """All processes that torchrun has started, as one; only the first speaks."""
    if launched() == 1:
        yield
        return
    distributed.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    try:
        if rank() == 0:
            yield
            return
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
            yield
    finally:
        distributed.destroy_process_group()


def first_only(work: Callable[[], Any]) -> None:
    """Done by the first process, while the others wait; where it cannot be done, all stop."""
    problem: Exception | None = None
    if rank() == 0:
        try:
            work()
        except (UserError, OSError) as error:  # also a full disk: the others must not wait for good
            problem = error
    if anyone(problem is not None):
        raise problem or UserError("the first process could not go on")


def anyone(answer: bool) -> bool:
    """Whether it is true in any process."""
    if world() == 1:
        return answer
    found = torch.tensor(int(answer))
    distributed.all_reduce(found, distributed.ReduceOp.MAX)
    return bool(found)


# --- a step's arithmetic ----------------------------------------------------------------------------------------------


_rows = 0  # of the batch that is being spread


def spread(function: Callable[[Tensor], Tensor], rows: Tensor) -> Tensor:
    """function(rows), row by row the work of all processes."""
    global _rows
    if world() == 1:
        return function(rows)
    _rows = len(rows)
    return _Gathered.apply(function(rows.tensor_split(world())[rank()]), len(rows))


def share_of(loss: Tensor) -> Tensor:
    """What a process adds to the loss that all of them differentiate together."""
    return loss if world() == 1 else loss / world()


def sum_gradients(parameters: Iterable[Tensor]) -> None:
    """Over processes, in place."""
    if world() > 1:
        _reduce([p.grad for p in parameters if p.grad is not None])


def average_statistics(model: nn.Module) -> None:
    """Of norms whose groups lie in one process each: what they remember is the mean over all groups."""
    if world() > 1:
        remembered = [b for name, b in model.named_buffers() if name.endswith(("running_mean", "running_var"))]
        _reduce(remembered)
        torch._foreach_div_(remembered, world())


def groups_here(rows: int, wanted: int) -> int:
    """How many of a norm's groups are in this process, which has so many rows; 0: there is one, and it is in all."""
    if world() == 1:
        return gcd(rows, wanted)
    groups = gcd(_rows, wanted)
    if groups % world() == 0:
        return groups // world()
    if groups == 1:
        return 0
    raise UserError(
        f"{groups} groups of batch norm cannot be dealt out to {world()} processes; start so many that {groups} is a "
        "multiple of it, or give --norm-groups 1"
    )


def synchronise(model: nn.Module) -> None:
    """Let torch's own batch norms see the batch of all processes. (Torch's synchronised one is for GPUs only.)"""
    if world() == 1:
        return
    for module in model.modules():
        if not isinstance(module, _BatchNorm):
            continue
        home = type(module).__module__
        if home.startswith("torch."):
            setattr(module, "forward", partial(norm_of_all, module))  # noqa: B010
        elif not home.startswith("muc."):  # it would see its own process's rows alone, and nobody would notice
            raise UserError(f"{home}.{type(module).__name__} cannot work over several processes; train with one")


def norm_of_all(module: Any, x: Tensor) -> Tensor:
    """Batch norm over the rows of all processes."""
    if not module.training:
        return type(module).forward(module, x)
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    dims = [d for d in range(x.ndim) if d != 1]
    shape = [1, -1] + [1] * (x.ndim - 2)
    count = _Summed.apply(wide.new_tensor(float(x.numel() // x.shape[1])))
    mean = _Summed.apply(wide.sum(dims)) / count
    centred = wide - mean.reshape(shape)
    variance = _Summed.apply(centred.square().sum(dims)) / count
    with torch.no_grad():
        module.num_batches_tracked += 1
        module.running_mean.lerp_(mean.detach(), module.momentum)
        module.running_var.lerp_(variance.detach() * count / (count - 1), module.momentum)
    weight, bias = (module.weight, module.bias) if module.affine else (torch.ones_like(mean), torch.zeros_like(mean))
    scale = weight / (variance + module.eps).sqrt()
    return (centred * scale.reshape(shape) + bias.reshape(shape)).to(x.dtype)


class _Gathered(torch.autograd.Function):
    """The rows of all processes, in order; their gradients come from all processes, too."""

    @staticmethod
    def forward(ctx: Any, mine: Tensor, rows: int) -> Tensor:
        sizes = [len(part) for part in torch.empty(rows).tensor_split(world())]
        padded = mine.new_zeros((max(sizes), *mine.shape[1:]))
        padded[: len(mine)] = mine
        parts = [torch.empty_like(padded) for _ in sizes]
        distributed.all_gather(parts, padded)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, None]:
        (gradient,) = gradients
        total = gradient.contiguous().clone()
        distributed.all_reduce(total)
        return total.tensor_split(world())[rank()], None


class _Summed(torch.autograd.Function):
    """Summed over processes, and so is its gradient."""

    @staticmethod
    def forward(ctx: Any, mine: Tensor) -> Tensor:
        total = mine.clone()
        distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Tensor:
        total = gradients[0].contiguous().clone()
        distributed.all_reduce(total)
        return total


def _reduce(tensors: list[Tensor]) -> None:
    """Sum each over processes, in place; one message for all."""
    if not tensors:
        return
    flat = torch.cat([tensor.flatten() for tensor in tensors])
    distributed.all_reduce(flat)
    for tensor, total in zip(tensors, flat.split([t.numel() for t in tensors]), strict=True):
        tensor.copy_(total.view_as(tensor))
