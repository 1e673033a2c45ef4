"""Users' weight files, read without running anything from them."""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from torch import Tensor

from muc import storage
from muc.errors import UserError

PICKLES = (".pt", ".pth", ".ckpt", ".bin")
TIMEOUT_SECONDS = 300.0
MEMORY_BYTES = 2 << 30  # beside four times the file: torch itself takes 0.8 GB

_REMEDY = "save its weights with torch.save(model.state_dict(), FILE), or as safetensors"
REFUSALS = {
    "unsafe": f"cannot be read without running code from it ({{}}), so it is refused; {_REMEDY}",
    "memory": f"asks for far more memory than its size explains, so it is refused; {_REMEDY}",
    "empty": f"holds no state dict of tensors; {_REMEDY}",
    "damaged": "is not a readable PyTorch file; it is damaged or cut off, so copy it again",
}


def read_weights(file: Path) -> dict[str, Tensor]:
    """The tensors of a .safetensors file or of a PyTorch checkpoint's state dict, by their keys there."""
    if not file.is_file():
        what = f"{file} is a folder" if file.is_dir() else f"there is no file {file}"
        raise UserError(f"{what}; give a .safetensors file or a PyTorch checkpoint")
    storage.check_readable(file)
    if file.suffix == ".safetensors":
        tensors = read_safetensors(file)
    elif file.suffix in PICKLES or file.name.endswith(".pth.tar"):  # as MoCo's and PyTorch's examples save
        tensors = read_pickle(file)
    else:
        raise UserError(f"{file} is of an unknown kind; give .safetensors, {', '.join(PICKLES)}")
    if strange := [key for key in tensors if not key.isprintable()]:
        raise UserError(f"{file} has a key with unprintable characters ({strange[0]!a}); rename it")
    return tensors


def read_safetensors(file: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt") as f:
            header = f.metadata() or {}
            tensors = {key: f.get_tensor(key) for key in f.keys()}  # noqa: SIM118, not a dict
    except (SafetensorError, ValueError, OSError) as error:
        raise UserError(f"{file} is not a readable safetensors file ({error}); copy or convert it again") from None
    return storage.load_tensors(file)[0] if "muc" in header else tensors  # our own files have a checksum


def description_in(file: Path) -> dict[str, Any]:
    """What a file that muc exported, and that `read_weights` has read, says of itself; nothing of any other."""
    return storage.read_metadata(file) if file.suffix == ".safetensors" else {}


def read_pickle(file: Path) -> dict[str, Tensor]:
    """Through convert_pickle.py in a process of its own: a bug in the loader is then no bug in this process."""
    print(
        f"reading {file} with PyTorch's weights-only loader in a separate process; nothing in it is executed",
        file=sys.stderr,
    )
    script = Path(__file__).with_name("convert_pickle.py")
    limit = MEMORY_BYTES + 4 * file.stat().st_size
    with tempfile.TemporaryDirectory(prefix="muc-import-") as folder:
        converted = Path(folder) / "weights.safetensors"
        # -P: the script's own folder must not shadow torch's imports.
        command = [sys.executable, "-P", str(script), str(file.resolve()), str(converted), str(limit)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise UserError(
                f"{file} was not read within {TIMEOUT_SECONDS:.0f} s, so it is refused; {_REMEDY}"
            ) from None
        if done.returncode != 0:
            raise UserError(f"{file} {_refusal(done)}")
        return read_safetensors(converted)


def _refusal(done: subprocess.CompletedProcess[str]) -> str:
    kind, _, detail = (done.stdout.splitlines() or [""])[-1].partition(" ")
    if kind in REFUSALS:
        return REFUSALS[kind].format(f"it needs {detail}" if detail else "it is no plain state dict")
    tail = (done.stderr.splitlines() or ["no message"])[-1]
    return f"could not be read: the separate process ended with code {done.returncode} ({tail}); {_REMEDY}"
