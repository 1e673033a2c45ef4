"""The only place for device, precision, seeds and threads."""

import os
from contextlib import AbstractContextManager, nullcontext
from hashlib import sha256

import torch

from muc import config
from muc.errors import UserError


class Runtime:
    """What a run computes with, resolved from its settings."""

    def __init__(self, settings: config.Runtime | None = None) -> None:
        self.settings = settings = settings or config.Runtime()
        self.device = resolve_device(settings.device)
        self.on_gpu = self.device.type == "cuda"
        precision = settings.precision
        if precision == "auto":
            precision = "bfloat16" if self.on_gpu else "float32"
        self.precision = precision
        torch.set_num_threads(settings.threads or len(os.sched_getaffinity(0)))
        torch.use_deterministic_algorithms(settings.deterministic)
        torch.backends.cuda.matmul.allow_tf32 = not settings.deterministic
        torch.backends.cudnn.benchmark = self.on_gpu and not settings.deterministic

    def autocast(self) -> AbstractContextManager:
        """bfloat16 where asked for; float32 otherwise."""
        if self.precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)

    def generator(self, *parts: int | str) -> torch.Generator:
        """A generator on the device whose stream depends on `parts` alone."""
        return torch.Generator(self.device).manual_seed(derive_seed(*parts))

    def reset_peak_memory(self) -> None:
        if self.on_gpu:
            torch.cuda.reset_peak_memory_stats(self.device)

    def peak_memory(self) -> int | None:
        """Most device bytes held since the reset; None on CPU, where torch does not know."""
        return torch.cuda.max_memory_allocated(self.device) if self.on_gpu else None

    def describe(self) -> str:
        return torch.cuda.get_device_name(self.device) if self.on_gpu else f"cpu ({torch.get_num_threads()} threads)"


def resolve_device(name: str) -> torch.device:
    """A GPU that was asked for and is absent is an error, never a silent fallback."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(f"unknown device '{name}'; give auto, cpu, cuda or cuda:N") from None
    if device.type not in ("cpu", "cuda"):
        raise UserError(f"device '{name}' is not supported; give auto, cpu, cuda or cuda:N")
    if device.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (device.index or 0) >= count:
            raise UserError(f"device '{name}' was asked for, but this machine has {count} GPUs; give --device cpu")
    return device


def derive_seed(*parts: int | str) -> int:
    """A 63-bit seed from any labels: streams for different purposes never overlap."""
    return int.from_bytes(sha256(repr(parts).encode()).digest()[:8], "little") >> 1
