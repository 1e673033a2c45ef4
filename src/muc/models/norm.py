"""Batch norm together with what follows it in a ResNet, and over parts of a batch where MoCo wants that."""

from math import gcd

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm

from muc.processes import groups_here, norm_of_all


class BatchNorm(nn.BatchNorm2d):
    """Batch norm over `groups` consecutive parts of the batch separately, as if each were on its own GPU.

    A batch that does not divide evenly uses the greatest common divisor. Evaluation is ordinary batch norm. With
    `fast` a GPU does it all in three passes over memory (muc.kernels.norm); the runtime sets it.
    """

    fast = False

    def __init__(self, num_features: int, groups: int = 1) -> None:
        super().__init__(num_features)
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return self.join(input)[0]

    def join(self, x: Tensor, residual: Tensor | None = None, relu: bool = False) -> tuple[Tensor, Tensor]:
        """relu(norm(x) + residual), twice: for what comes next, and for the shortcut past it."""
        if self.fast and (self.training or not torch.is_grad_enabled()):
            return self._fused(x, residual, relu)
        groups = groups_here(len(x), self.groups) if self.training else 1
        y = super().forward(x) if groups == 1 else self._grouped(x, groups) if groups else norm_of_all(self, x)
        if residual is not None:
            y = y + residual
        y = torch.relu(y) if relu else y
        return y, y

    def _fused(self, x: Tensor, residual: Tensor | None, relu: bool) -> tuple[Tensor, Tensor]:
        from muc.kernels import norm

        running = self._running()
        if not self.training:
            y = norm.evaluate(x, residual, self.weight, self.bias, running, self.eps, relu)
            return y, y
        assert self.momentum is not None
        groups = gcd(len(x), self.groups)
        return norm.train(x, residual, self.weight, self.bias, running, groups, self.momentum, self.eps, relu)

    def _grouped(self, x: Tensor, groups: int) -> Tensor:
        """Groups become channels, last in memory as convolutions have them: one norm, and not one for each group."""
        running_mean, running_var, count = self._running()
        assert self.momentum is not None
        count.add_(1)
        mean, var = running_mean.repeat(groups), running_var.repeat(groups)
        weight, bias = self.weight.repeat(groups), self.bias.repeat(groups)
        parts = x.permute(0, 2, 3, 1).unflatten(0, (groups, -1))  # (groups, n, h, w, c)
        folded = parts.permute(1, 2, 3, 0, 4).flatten(3).permute(0, 3, 1, 2)
        y = batch_norm(folded, mean, var, weight, bias, True, self.momentum, self.eps)
        running_mean.copy_(mean.view(groups, -1).mean(0))
        running_var.copy_(var.view(groups, -1).mean(0))
        return y.permute(0, 2, 3, 1).unflatten(3, (groups, -1)).permute(3, 0, 1, 2, 4).flatten(0, 1).permute(0, 3, 1, 2)

    def _running(self) -> tuple[Tensor, Tensor, Tensor]:
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        return self.running_mean, self.running_var, self.num_batches_tracked
