"""Muon: the optimizer of the matrices inside the layers, computed in float32.

`torch.optim.Muon` takes the same step in bfloat16. A processor without instructions for it computes such
products on one thread, and a training takes several times as long.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

MOMENTUM = 0.95
ITERATIONS = 5
QUINTIC = (3.4445, -4.7750, 2.0315)  # coefficients of x, x^3, x^5: they raise small singular values fast
SMALLEST = 1e-7  # norm that is divided by


def orthogonalize(matrix: Tensor) -> Tensor:
    """Brings the singular values of a matrix, [rows, columns], near 1, by iterations of Newton and Schulz.

    (Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks".)
    """
    a, b, c = QUINTIC
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if tall else matrix  # the product of its rows is the smaller square
    x = x / x.norm().clamp(min=SMALLEST)
    for _ in range(ITERATIONS):
        square = x @ x.T
        x = torch.addmm(x, torch.addmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x


class Muon(torch.optim.Optimizer):
    """Steps along the momentum of the gradients, orthogonalized, and lets weights decay.

    A step is about as long as one of AdamW (Liu et al. 2025, arXiv 2502.16982, section 2.2), so that both
    optimizers can have rates of one size.
    """

    def __init__(self, matrices: Iterable[Tensor], lr: float, weight_decay: float) -> None:
        """Takes weights, [rows, columns] each, the rate, and how much of a weight decays at a rate of 1."""
        super().__init__(matrices, {"lr": lr, "weight_decay": weight_decay})

    def direction(self, momentum: Tensor) -> Tensor:
        """Returns the momentum of a weight, [rows, columns], orthogonalized."""
        return orthogonalize(momentum)

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Takes one step; `closure` is not called."""
        for group in self.param_groups:
            rate = group["lr"]
            for weight in group["params"]:
                state = self.state[weight]
                if not state:
                    state["momentum_buffer"] = torch.zeros_like(weight)
                momentum = state["momentum_buffer"]
                momentum.lerp_(weight.grad, 1 - MOMENTUM)
                direction = self.direction(weight.grad.lerp(momentum, MOMENTUM))
                weight.mul_(1 - rate * group["weight_decay"])
                weight.add_(direction, alpha=-rate * 0.2 * max(weight.shape) ** 0.5)
