"""Kernels run on a GPU where there is one, and otherwise in Triton's interpreter, which is slow: small shapes only."""

from typing import Any

import pytest
import torch

pytest.importorskip("triton")

if not torch.cuda.is_available():
    from triton.runtime import interpreter

    patch_tensor = interpreter._patch_lang_tensor

    def patch_index(tensor: Any, scope: Any) -> None:
        """numpy 2.4 no longer takes an array of one element for a number, as the interpreter's loops would have it."""
        patch_tensor(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    interpreter._patch_lang_tensor = patch_index


@pytest.fixture
def device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"
