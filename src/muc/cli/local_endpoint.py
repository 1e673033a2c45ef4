"""Two runs on this computer in place of an endpoint. Here, because the audit itself may not know of models."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from muc.audit.protocol.endpoint import About, Reply
from muc.audit.protocol.folder import Phase
from muc.audit.protocol.pictures import from_png
from muc.opening import Embedder, embedder
from muc.run_folder import RunFolder


class LocalEndpoint:
    def __init__(self, before: Path, after: Path) -> None:
        self.runs: dict[Phase, RunFolder] = {"before": RunFolder(before), "after": RunFolder(after)}
        self.opened: dict[Phase, Embedder] = {}

    def about(self, phase: Phase) -> About:
        model = self._open(phase)
        return About(*model.input_shape, model_sha256=self._digest(phase), views=model.views)

    def embed(self, pngs: Sequence[bytes], phase: Phase) -> Reply:
        model = self._open(phase)
        pixels = np.stack([from_png(png, model.input_shape[0]) for png in pngs])
        return Reply(model(pixels), self._digest(phase))

    def _open(self, phase: Phase) -> Embedder:
        if phase not in self.opened:
            self.opened[phase] = embedder(self.runs[phase])
        return self.opened[phase]

    def _digest(self, phase: Phase) -> str:
        return str(self.runs[phase].result()["model_sha256"])
