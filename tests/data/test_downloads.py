"""Several processes start at once, and a set is downloaded once."""

import os
import subprocess
import sys
from pathlib import Path

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def test_one_process_downloads_while_others_wait(tmp_path: Path) -> None:
    here = Path(__file__).parent
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(here.parents[1] / "src"), os.environ.get("PYTHONPATH", "")]),
    }
    command = [*TORCHRUN, str(here / "one_download.py"), str(tmp_path)]
    ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    first, second = ((tmp_path / f"process{rank}").read_text() for rank in range(2))
    assert first == second
