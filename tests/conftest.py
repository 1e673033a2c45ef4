"""What all tests share: one thread (the tests already run side by side) and the same random examples every time."""

import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("muc", deadline=None, max_examples=40, derandomize=True)
settings.load_profile("muc")
