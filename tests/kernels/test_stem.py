"""The stem kernel against torch's convolution."""

import pytest
import torch

from muc.kernels import stem


@pytest.mark.parametrize(("n", "channels", "height", "width"), [(3, 20, 7, 9), (2, 70, 16, 16)])
def test_convolution_and_its_gradient(n: int, channels: int, height: int, width: int, device: str, monkeypatch) -> None:
    monkeypatch.setattr(stem, "PROGRAMS", 2)
    generator = torch.Generator(device).manual_seed(0)
    x = torch.randn(n, 3, height, width, device=device, generator=generator)
    weight = torch.randn(channels, 3, 3, 3, device=device, generator=generator).requires_grad_()
    mix = torch.randn(n, channels, height, width, device=device, generator=generator)
    found = stem.convolve(x, weight, torch.float32)
    expected = torch.nn.functional.conv2d(x.double(), weight.double(), padding=1)
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-4)
    gradients = [torch.autograd.grad((mix * y).sum(), weight)[0] for y in (found, expected)]
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-4, atol=1e-3)
