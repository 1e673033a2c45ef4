"""What muc is measured against: the loop most people would write, and the released code's in all that costs time.

PIL views made by DataLoader workers, torchvision's ResNet, eager float32 (with TF32 convolutions, torch's default),
split batch norm by reshaping for MoCo, one optimiser step at a time from the host.
"""

import time
from copy import deepcopy

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms
from torchvision.models import resnet

from muc.config import IMAGENET_MEAN, IMAGENET_STD
from muc.recipes import recipe


class TwoViews(Dataset):
    """Two random views of each image, by torchvision on PIL images."""

    def __init__(self, images: np.ndarray) -> None:
        self.images = images.transpose(0, 2, 3, 1)
        size = images.shape[-1]
        self.view = transforms.Compose(
            [
                transforms.RandomResizedCrop(size, scale=(0.1, 1.0), antialias=True),
                transforms.RandomHorizontalFlip(),
                transforms.RandomApply([transforms.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8),
                transforms.RandomGrayscale(p=0.2),
                transforms.ToTensor(),
                transforms.Normalize(IMAGENET_MEAN, IMAGENET_STD),
            ]
        )

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image = Image.fromarray(self.images[index])
        return self.view(image), self.view(image)


class SplitBatchNorm(nn.BatchNorm2d):
    """Eight groups of a batch, normalised separately by a reshape."""

    def forward(self, input: Tensor) -> Tensor:
        n, c, h, w = input.shape
        if not self.training:
            return super().forward(input)
        groups = 8
        mean, var = self.running_mean.repeat(groups), self.running_var.repeat(groups)  # ty: ignore
        y = nn.functional.batch_norm(
            input.reshape(-1, c * groups, h, w), mean, var, self.weight.repeat(groups), self.bias.repeat(groups), True
        )
        self.running_mean.copy_(mean.view(groups, c).mean(0))  # ty: ignore
        self.running_var.copy_(var.view(groups, c).mean(0))  # ty: ignore
        return y.view(n, c, h, w)


class Encoder(nn.Module):
    def __init__(self, architecture: str, split: bool) -> None:
        super().__init__()
        norm = SplitBatchNorm if split else nn.BatchNorm2d
        self.network = getattr(resnet, architecture)(norm_layer=norm)
        self.network.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        self.network.maxpool = nn.Identity()
        features = self.network.fc.in_features
        self.network.fc = nn.Identity()
        head = [nn.Linear(features, features, bias=False), nn.BatchNorm1d(features), nn.ReLU()]
        self.head = nn.Linear(features, 128) if split else nn.Sequential(*head, nn.Linear(features, 128, bias=False))

    def forward(self, x: Tensor) -> Tensor:
        return normalize(self.head(self.network(x)), dim=1)


class Loop:
    """The training loop of one algorithm."""

    def __init__(self, algorithm: str, architecture: str, device: str) -> None:
        self.algorithm, self.device = algorithm, device
        settings = recipe("cifar10", algorithm)
        torch.backends.cudnn.allow_tf32 = True
        torch.backends.cudnn.benchmark = True
        self.encoder = Encoder(architecture, algorithm == "moco").to(device).train()
        self.keys = deepcopy(self.encoder).requires_grad_(False)
        self.queue = normalize(torch.randn(4096, 128, device=device), dim=1)
        self.temperature = settings.model.temperature
        optimisation = settings.optimisation
        self.optimiser = torch.optim.SGD(
            self.encoder.parameters(), optimisation.learning_rate, optimisation.momentum, 0.0, optimisation.weight_decay
        )

    def step(self, first: Tensor, second: Tensor) -> float:
        loss = self.simclr(first, second) if self.algorithm == "simclr" else self.moco(first, second)
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        return loss.item()

    def simclr(self, first: Tensor, second: Tensor) -> Tensor:
        z = self.encoder(torch.cat([first, second]))
        scores = z @ z.T / self.temperature
        scores.fill_diagonal_(float("-inf"))
        n = len(first)
        return cross_entropy(scores, torch.cat([torch.arange(n, 2 * n), torch.arange(n)]).to(z.device))

    def moco(self, first: Tensor, second: Tensor) -> Tensor:
        query = self.encoder(first)
        with torch.no_grad():
            for slow, fast in zip(self.keys.parameters(), self.encoder.parameters(), strict=True):
                slow.mul_(0.99).add_(fast, alpha=0.01)
            order = torch.randperm(len(second), device=second.device)
            keys = self.keys(second[order])[order.argsort()]
        positive, negative = (query * keys).sum(1, keepdim=True), query @ self.queue.T
        self.queue = torch.cat([keys, self.queue])[: len(self.queue)]
        scores = torch.cat([positive, negative], dim=1) / self.temperature
        return cross_entropy(scores, torch.zeros(len(scores), dtype=torch.long, device=scores.device))


def seconds_per_step(
    algorithm: str, architecture: str, images: np.ndarray, batch: int, steps: int, workers: int, device: str
) -> float:
    """Mean over `steps`, after three that warm up."""
    loop = Loop(algorithm, architecture, device)
    loader = DataLoader(
        TwoViews(images[np.arange((steps + 3) * batch) % len(images)]),
        batch,
        shuffle=True,
        num_workers=workers,
        drop_last=True,
        pin_memory=device == "cuda",
    )
    begun = 0.0
    for i, (first, second) in enumerate(loader):
        if i == 3:
            begun = time.perf_counter()
        loop.step(first.to(device, non_blocking=True), second.to(device, non_blocking=True))
    return (time.perf_counter() - begun) / steps
