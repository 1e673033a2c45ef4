"""A step recorded as a CUDA graph: its kernels are launched at once, without the host."""

import gc
from collections.abc import Callable

import torch

from muc.models.lane import side_stream


class Recorder:
    """Does a step as it is a few times (which warms up the libraries), then records it as a CUDA graph and replays it.

    It is handed the step anew each time instead of keeping it: a training that owns a recorder and is kept by it would
    stay on the device, with all its memory, until Python looks for cycles.
    """

    WARM_UP = 3

    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator
        self.stream = side_stream("record", generator.device)
        self.graph: torch.cuda.CUDAGraph | None = None
        self.calls = 0

    def __call__(self, step: Callable[[], None]) -> None:
        if self.calls == self.WARM_UP:
            self.graph = self._record(step)
        self.calls += 1
        if self.graph is not None:
            self.graph.replay()
            return
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            step()
        torch.cuda.current_stream().wait_stream(self.stream)

    def _record(self, step: Callable[[], None]) -> torch.cuda.CUDAGraph:
        gc.collect()  # an old graph that Python happens to collect during the recording would spoil it
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self.generator)  # each replay draws on, like the step itself would
        with torch.cuda.graph(graph, stream=self.stream):
            step()
        return graph
