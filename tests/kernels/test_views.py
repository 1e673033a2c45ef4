"""The view kernel against its plain twin, for the same parameters."""

from dataclasses import replace

import pytest
import torch

from muc import augment
from muc.config import Views
from muc.kernels import views as kernel

N = 8


@pytest.mark.parametrize(("side", "size"), [(32, 32), (20, 12), (12, 20)])
@pytest.mark.parametrize(
    "views",
    [Views(), Views(min_scale=1.0, flip=1.0, jitter=0.0, grayscale=0.0), Views(hue=0.0, jitter=1.0, grayscale=1.0)],
    ids=["all", "flip", "no hue"],
)
def test_a_view_is_the_plain_one(side: int, size: int, views: Views, device: str) -> None:
    generator = torch.Generator(device).manual_seed(side)
    images = torch.randint(256, (N, 3, side, side), dtype=torch.uint8, device=device, generator=generator)
    images[0] = 90  # no hue at all
    images[1] = 0
    parameters = augment.draw(N, side, side, views, generator)
    found = kernel.transform(images, parameters, size, views)
    assert found.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(found, augment.transform(images, parameters, size, views), rtol=1e-4, atol=5e-5)


def test_every_order_of_the_jitters_is_the_plain_one(device: str) -> None:
    generator = torch.Generator(device).manual_seed(0)
    images = torch.randint(256, (24, 3, 16, 16), dtype=torch.uint8, device=device, generator=generator)
    views = Views(jitter=1.0)
    parameters = augment.draw(24, 16, 16, views, generator)
    orders = torch.cartesian_prod(*[torch.arange(4)] * 4)
    orders = orders[orders.sort(dim=1).values.eq(torch.arange(4)).all(dim=1)].to(device)
    # Hue's places in the order in which the plain version takes them, a quarter of the rows each.
    orders = orders[(orders == augment.HUE).int().argmax(dim=1).argsort(stable=True)]
    parameters = replace(parameters, order=orders, jitter=torch.ones_like(parameters.jitter))
    torch.testing.assert_close(
        kernel.transform(images, parameters, 16, views),
        augment.transform(images, parameters, 16, views),
        rtol=1e-4,
        atol=5e-5,
    )


def test_large_and_gray_images_are_left_to_torch() -> None:
    assert kernel.fits(torch.empty(1, 3, 32, 32), 32)
    assert not kernel.fits(torch.empty(1, 1, 32, 32), 32)
    assert not kernel.fits(torch.empty(1, 3, 224, 224), 32)
    assert not kernel.fits(torch.empty(1, 3, 32, 32), 224)
