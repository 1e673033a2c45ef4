"""What sweeps over Alignment Calibration's settings share: runs named by label, and their records."""

from collections.abc import Iterable

from muc.report.group import Record, without_samples
from muc.reproduce.trial import Trial
from muc.run_folder import ORIGINAL_RECORD, RECORD
from muc.storage import read_json


def records_of(trials: Iterable[Trial], label: str) -> list[Record]:
    """What was found out about the runs of that label, one a trial, without the values of single images."""
    made = []
    for trial in trials:
        original = label == "pretrain"
        path = trial.retrain.path / ORIGINAL_RECORD if original else trial.chosen(label).path / RECORD
        made.append(without_samples(read_json(path)))
    return made
