"""Where a report's records lie, and where the report itself must not: in run folders, in folders of such, and in what
an earlier report wrote."""

from pathlib import Path

from muc.errors import UserError
from muc.report.group import Record
from muc.run_folder import ORIGINAL_RECORD, RECORD, RunFolder, inside_run
from muc.storage import read_json

COMPARISON, RESULTS = "comparison.json", "results.json"


def records_at(path: Path) -> list[Record]:
    """What is known of a run, or of all runs in a folder, or was when a report was written there."""
    run = RunFolder(path)
    if not run.started and (found := records_in(path)):
        return found
    earlier = path if path.name == RESULTS else path / RESULTS
    if not run.started and earlier.is_file():
        return records_of_report(earlier)
    judged = any((path / name).exists() for name in (RECORD, ORIGINAL_RECORD))
    if not judged and run.config()["kind"] != "unlearn":
        raise UserError(
            f"{run} serves no request, and what is known of it as an original lies beside a run that does; give such a "
            f"run, evaluated with: muc evaluate {run} UNLEARNED_RUN --against RETRAIN_RUN"
        )
    return run.records()


def records_in(folder: Path) -> list[Record]:
    """Of the evaluated runs in it; in a comparison's, of methods that are not in it, like a Retrain made earlier, what
    the comparison says."""
    runs = sorted(path.parent for path in folder.glob(f"*/{RECORD}"))
    found = [record for run in runs for record in RunFolder(run).records()]
    if not (folder / COMPARISON).is_file():
        return found
    compared = read_json(folder / COMPARISON)
    if not isinstance(compared, dict) or not isinstance(compared.get("records"), list):
        raise UserError(f"{folder / COMPARISON} holds no records of a comparison; run the same muc compare again")
    methods = {record.get("method") for record in found}
    return [*found, *(record for record in compared["records"] if record.get("method") not in methods)]


def records_of_report(file: Path) -> list[Record]:
    """What a report rests on, in its results.json: reports of several seeds become one."""
    found = read_json(file)
    if not isinstance(found, list) or not all(isinstance(r, dict) and {"method", "metrics"} <= r.keys() for r in found):
        raise UserError(f"{file} holds no records of runs; give a run, a folder of runs, or a report of such")
    return found


def check_out(out: Path) -> None:
    """Files of a report would be taken for a run's own, and --force would remove them with it. An earlier report is
    replaced, but nobody's other results."""
    for name in (RESULTS, "report.html"):
        if (out / name).exists() and not (out / "tables.md").exists():
            raise UserError(f"{out / name} is there and of no report by muc; give another --out")
    if folder := inside_run(out.resolve()):
        raise UserError(f"--out {out} lies in the run {folder}; give a folder outside of it")
