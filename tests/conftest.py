"""What all tests share: one thread (the tests already run side by side) and the same random examples every time."""

import os

import torch
from hypothesis import settings

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # kernels run in Triton's interpreter; read when Triton is first imported

torch.set_num_threads(1)
settings.register_profile("muc", deadline=None, max_examples=40, derandomize=True)
settings.load_profile("muc")
