"""The only place for device, precision, threads and recorded steps."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from muc import augment, config, processes
from muc.augment import ViewParameters
from muc.errors import UserError
from muc.machine import core_count
from muc.models.contract import set_fast
from muc.recorder import Recorder
from muc.seeds import derive_seed

CACHED_PIXELS = 64 * 32**2
M = TypeVar("M", bound=torch.nn.Module)


class Runtime:
    """What a run computes with, resolved from its settings."""

    def __init__(self, settings: config.Runtime | None = None) -> None:
        self.settings = settings = settings or config.Runtime()
        self.device = resolve_device(settings.device)
        self.on_gpu = self.device.type == "cuda"
        if self.on_gpu and self.device.index is not None:
            torch.cuda.set_device(self.device)  # streams and kernels ask for the current one
        precision = settings.precision
        if precision == "auto":
            precision = "bfloat16" if self.on_gpu else "float32"
        self.precision = precision
        # Steps that wait for other processes are not recorded, and the kernels' norms know of one process only.
        self.fast = self.on_gpu and settings.compile != "off" and processes.world() == 1
        self.kernels = self.fast and find_spec("triton") is not None
        torch.set_num_threads(settings.threads or core_count())
        # float32 means float32: bfloat16 is there for speed, and losses are small.
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = False  # ten seconds of trials found nothing faster than its own choice
        if settings.deterministic:
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when CUDA starts
        if settings.deterministic != torch.are_deterministic_algorithms_enabled():  # imports torch's compiler: seconds
            torch.use_deterministic_algorithms(settings.deterministic)
        # Nothing here reads what it has not written.
        cast(Any, torch.utils.deterministic).fill_uninitialized_memory = False

    def resolved_settings(self) -> config.Runtime:
        """The settings with every "auto" replaced by what it came to."""
        return replace(
            self.settings, device=str(self.device), precision=self.precision, threads=torch.get_num_threads()
        )

    def autocast(self) -> AbstractContextManager:
        """bfloat16 where asked for; float32 otherwise."""
        if self.precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)

    def place(self, model: M) -> M:
        """The model on the device, in the memory format that its convolutions are fastest in."""
        model = model.to(self.device)
        cast(Any, model).to(memory_format=torch.channels_last)
        set_fast(model, self.kernels and not self.compiles)
        return model

    def as_input(self, images: torch.Tensor) -> torch.Tensor:
        """Images as the placed model takes them."""
        return images.contiguous(memory_format=torch.channels_last)

    def pieces(self, images: Tensor) -> tuple[Tensor, ...]:
        """On CPU, so few images at once that what a layer writes is still in the cache when the next one reads it."""
        height, width = images.shape[-2:]
        return (images,) if self.on_gpu else images.split(max(1, CACHED_PIXELS // (height * width)))

    def transform(self, images: Tensor, parameters: ViewParameters, size: int, views: config.Views) -> Tensor:
        """augment.transform, in one kernel where there is one."""
        if self.kernels:
            from muc.kernels import views as kernel

            if kernel.fits(images, size):
                return kernel.transform(images, parameters, size, views)
        return self.as_input(augment.transform(images, parameters, size, views))

    def generator(self, *parts: int | str) -> torch.Generator:
        """A generator on the device whose stream depends on `parts` alone."""
        return torch.Generator(self.device).manual_seed(derive_seed(*parts))

    @property
    def compiles(self) -> bool:
        """Whether torch.compile is to write the kernels."""
        return self.settings.compile == "on"

    def repeater(self, generator: torch.Generator) -> Callable[[Callable[[], None]], None]:
        """What does a step, always the same one, as fast as the device allows.

        The step must read and write the same tensors each time, in shapes that never change, and draw random numbers
        from `generator` alone. On a GPU its kernels are then recorded once and replayed without the host.
        """
        return Recorder(generator) if self.fast else _do

    def wait(self) -> None:
        """Until the device has done all it was asked to."""
        if self.on_gpu:
            torch.cuda.synchronize(self.device)

    def has_room(self, n_bytes: int) -> bool:
        """Whether so many bytes may stay on the device: half of what is free there. On CPU they are there already."""
        if not self.on_gpu:
            return True
        unused = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        return n_bytes <= (torch.cuda.mem_get_info(self.device)[0] + unused) / 2

    def reset_peak_memory(self) -> None:
        if self.on_gpu:
            torch.cuda.reset_peak_memory_stats(self.device)

    def peak_memory(self) -> int | None:
        """Most device bytes held since the reset; None on CPU, where torch does not know."""
        return torch.cuda.max_memory_allocated(self.device) if self.on_gpu else None

    def describe(self) -> str:
        return torch.cuda.get_device_name(self.device) if self.on_gpu else f"cpu ({torch.get_num_threads()} threads)"


def _do(step: Callable[[], None]) -> None:
    step()


def resolve_device(name: str) -> torch.device:
    """A GPU that was asked for and is absent is an error, never a silent fallback."""
    if name == "auto":
        return own_device(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(f"unknown device '{name}'; give auto, cpu, cuda or cuda:N") from None
    if device.type not in ("cpu", "cuda"):
        raise UserError(f"device '{name}' is not supported; give auto, cpu, cuda or cuda:N")
    if device.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if not name.removeprefix("cuda:").isdigit() and name != "cuda":
            raise UserError(f"unknown device '{name}'; give auto, cpu, cuda or cuda:N")
        if int(name.partition(":")[2] or 0) >= count:  # torch wraps numbers above 127 around
            raise UserError(f"device '{name}' was asked for, but this machine has {count} GPUs; give --device cpu")
    return own_device(device)


def own_device(device: torch.device) -> torch.device:
    """Of several processes, each has a GPU of its own."""
    if device.type != "cuda" or processes.world() == 1:
        return device
    number, count = processes.local("LOCAL_RANK", 0), torch.cuda.device_count()
    if (wanted := processes.local("LOCAL_WORLD_SIZE", 1)) > count:
        raise UserError(f"{wanted} processes were started on a machine with {count} GPUs; start one for each of them")
    torch.cuda.set_device(number)
    return torch.device("cuda", number)
