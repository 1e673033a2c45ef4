"""Images of any number, a chunk at a time on the device."""

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from muc.data.files import ImageFiles, Pixels
from muc.runtime import Runtime


def chunks(images: Pixels | Tensor, size: int, runtime: Runtime) -> Generator[Tensor]:
    """At most `size` images at once, in order; while one chunk of files is worked on, the next is decoded."""
    if not isinstance(images, ImageFiles):
        for part in torch.as_tensor(images).split(size):
            yield part.to(runtime.device)
        return
    parts = [slice(start, start + size) for start in range(0, len(images), size)]
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(images.__getitem__, parts[0])
        for after in [*parts[1:], None]:
            part = coming.result()
            if after:
                coming = reader.submit(images.__getitem__, after)
            yield torch.from_numpy(part).to(runtime.device)


def hold(images: Pixels, size: int, runtime: Runtime) -> Pixels | Tensor:
    """The images on the device if there is room for them, else as they are.

    Files too: a probe looks at them a hundred times. On CPU they stay files, as they are for want of memory there.
    """
    if not runtime.has_room(images.nbytes) or (isinstance(images, ImageFiles) and not runtime.on_gpu):
        return images
    if not isinstance(images, ImageFiles):
        return torch.from_numpy(images).to(runtime.device)
    held = torch.empty(images.shape, dtype=torch.uint8, device=runtime.device)
    for place, part in zip(held.split(size), chunks(images, size, runtime), strict=True):
        place.copy_(part)
    return held
