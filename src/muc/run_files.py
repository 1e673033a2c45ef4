"""What the JSON files of a run hold, so that they are read strictly."""

from dataclasses import dataclass
from typing import Any, Literal

from muc.storage import FORMAT_VERSION


@dataclass(frozen=True)
class SplitFile:
    """What split.json holds."""

    format_version: int
    seed: int
    validation: list[int]
    retain: list[int]
    unlearn: list[int]


@dataclass(frozen=True)
class ConfigFile:
    """What config.json holds; settings, method and runtime are read by those who know them."""

    kind: Literal["pretrain", "unlearn", "import"]
    pretraining: dict[str, Any]
    seed: int
    data_sha256: str
    ancestry: list[Any]
    runtime: dict[str, Any]
    method: dict[str, Any] | None = None
    request: dict[str, Any] | None = None
    parent: dict[str, str] | None = None
    source: dict[str, Any] | None = None


@dataclass(frozen=True)
class ResultFile:
    """What result.json holds."""

    model_sha256: str
    seconds: float
    peak_memory_bytes: int | None
    format_version: int = FORMAT_VERSION
    epochs: int = 0
    waiting: float | None = None
    """Of a streamed run: the share of the time in which it had nothing to compute for want of data."""
    bound_by: str | None = None
