"""What runs there are below a folder, and in what state."""

import os
from pathlib import Path
from typing import Any

from muc.errors import UserError
from muc.run_folder import RunFolder
from muc.storage import load_tensors


def list_runs(folder: Path) -> list[dict[str, Any]]:
    """One row a run, by path."""
    if not folder.is_dir():
        raise UserError(f"there is no folder '{folder}'; give one that holds runs")
    return [describe(RunFolder(path.parent)) for path in sorted(folder.rglob("config.json"))]


def describe(run: RunFolder) -> dict[str, Any]:
    row = {"run": str(run), "what": "?", "data": "?", "from": "", "when": "?", "state": state_of(run)}
    try:
        values = run.config()
        model = values["pretraining"]["model"]
        row["what"] = f"{run.made_by()} {model['algorithm']} {model['architecture']} seed {values['seed']}"
        row["data"] = values["pretraining"]["data"]["name"]
        row["from"] = os.path.normpath(run.path / values["parent"]["path"]) if "parent" in values else ""
        row["when"] = run.env()["date"]
    except (UserError, KeyError, TypeError):
        row["state"] = "corrupt"
    return row


def state_of(run: RunFolder) -> str:
    """done, interrupted, or corrupt (weights, state or JSON damaged). Checks every checksum."""
    try:
        run.split()
        run.inventory()
        if run.done:
            run.result()
            load_tensors(run.path / "model.safetensors")
            return "done"
        run.load_state()
        return "interrupted"
    except UserError:
        return "corrupt"
