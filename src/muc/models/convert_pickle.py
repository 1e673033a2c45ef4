"""A script for a process of its own: read a PyTorch pickle weights-only, keep its tensors, write them as safetensors.

    python convert_pickle.py FILE OUT.safetensors MEMORY_LIMIT_BYTES

Exit code 1 means refused; the last line of stdout says why: KIND DETAIL, with KIND from weight_files.REFUSALS.
It imports nothing of muc, so that it can be started by its path, wherever muc was imported from.
"""

import re
import resource
import sys
from collections.abc import Mapping
from pickle import UnpicklingError
from typing import Any

import torch
from safetensors.torch import save_file

# Where training scripts keep the weights, likeliest first. Nothing else is looked into: not hyper_parameters, not
# optimisers. Of a self-distilled pair the teacher is what is published (DINO).
WRAPPERS = ("state_dict", "model_state_dict", "model", "net", "network", "module", "teacher", "student", "ema")
PARTS = ("backbone", "encoder", "encoder_q", "encoder_k", "projector", "projection_head", "head")


def find_state(value: Any) -> dict[str, torch.Tensor]:
    """The innermost state dict of a checkpoint; one that is kept in parts gets the parts' names as prefixes."""
    if not isinstance(value, Mapping):
        return {}
    for name in WRAPPERS:
        if found := find_state(value.get(name)):
            return found
    tensors = {key: item for key, item in value.items() if isinstance(key, str) and isinstance(item, torch.Tensor)}
    for name in PARTS:
        tensors |= {f"{name}.{key}": item for key, item in find_state(value.get(name)).items()}
    return tensors


def dense(tensor: torch.Tensor) -> bool:
    return tensor.layout == torch.strided and not tensor.is_quantized and not tensor.is_complex()


def reason(error: BaseException) -> str:
    """KIND DETAIL of a failure; only a dotted name is repeated from the file."""
    text = str(error)
    if isinstance(error, MemoryError) or "can't allocate memory" in text or "bad_alloc" in text:
        return "memory"
    if found := re.search(r"GLOBAL ([\w.]+)", text):
        return f"unsafe {found[1]}"
    if isinstance(error, UnpicklingError) or "TorchScript" in text:
        return "unsafe"
    return "damaged"


def main(file: str, out: str, limit: str) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (int(limit), int(limit)))
    try:
        found = find_state(torch.load(file, weights_only=True, map_location="cpu"))
        # Cloned: tensors that share storage cannot be written, and an expanded one shows its true size here.
        tensors = {
            key: item.detach().clone(memory_format=torch.contiguous_format)
            for key, item in found.items()
            if dense(item)
        }
        if tensors:
            save_file(tensors, out)
    except Exception as error:  # a hostile file may raise anything
        print(reason(error))
        sys.exit(1)
    if not tensors:
        print("empty")
        sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
