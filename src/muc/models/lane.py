"""Streams beside the GPU's main one, for work that need not wait for what that is doing."""

from collections.abc import Generator
from contextlib import contextmanager
from functools import cache

import torch
from torch import Tensor


@cache
def side_stream(purpose: str, device: torch.device) -> torch.cuda.Stream:
    """The one stream of this purpose: cuBLAS keeps 64 MiB for each that it ever worked on, for good."""
    return torch.cuda.Stream(device)


class Lane:
    """A stream beside the main one: one waits for memory while the other computes.

    Gradients run where their values were made, so that a backward pass has the lane, too. What they read must have been
    made here: memory of the main stream's may be written anew before the lane has come to it.
    """

    def __init__(self) -> None:
        self.stream = side_stream("lane", torch.device("cuda", torch.cuda.current_device()))
        self.kept: tuple[Tensor, ...] = ()
        self.forked = False
        # Weights used here may have gradients of the main stream's as well (of their l1 norm): autograd waits for both.
        torch.autograd.graph.set_warn_on_accumulate_grad_stream_mismatch(False)

    def __reduce__(self) -> tuple[type["Lane"], tuple[()]]:
        """A copy of a model has the same stream, which cannot be copied, and nothing under way."""
        return Lane, ()

    @contextmanager
    def beside(self, *read: Tensor) -> Generator[None]:
        """Work here from where the main stream is now. What is `read` is kept until the main stream has waited."""
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            yield
        self.kept, self.forked = read, True

    def keep(self, *made: Tensor) -> None:
        """What was made here and is read by the main stream, until the lane has waited for that with its next work: its
        gradients, which wait for nothing, would be written over it."""
        self.kept = made

    def join(self) -> None:
        """The main stream waits for what was begun here. Where nothing was it may not: a graph that is being recorded
        cannot wait for a stream outside of it."""
        if self.forked:
            torch.cuda.current_stream().wait_stream(self.stream)
        self.kept, self.forked = (), False
