"""The outer step of DiLoCo: local weights, global weights and outer momentum, each one vector.

Douillard et al., "DiLoCo: Distributed Low-Communication Training of Language Models", 2023:
the pseudo-gradient is where the learner started minus where it arrived, so that descending along
it moves the global weights towards the learner.
"""

import hashlib

import torch
from torch import nn

OUTER_LR = 0.7
OUTER_MOMENTUM = 0.9


def flatten(module: nn.Module) -> torch.Tensor:
    """Move all parameters into one float32 vector that they become views of, and return it."""
    parameters = list(module.parameters())
    flat = torch.cat([p.detach().reshape(-1) for p in parameters])
    start = 0
    for parameter in parameters:
        end = start + parameter.numel()
        parameter.data = flat[start:end].view_as(parameter)
        start = end
    return flat


class OuterState:
    """The weights a learner shares with its group, beside its own.

    Args:
        local: the learner's weights, (parameters,) float32; kept, and written to by `apply`.
        lr: outer learning rate.
        momentum: Nesterov momentum; 0 is plain SGD.
    """

    def __init__(
        self, local: torch.Tensor, lr: float = OUTER_LR, momentum: float = OUTER_MOMENTUM
    ) -> None:
        self.local = local
        self.weights = local.clone().requires_grad_()
        self._sgd = torch.optim.SGD([self.weights], lr, momentum, nesterov=momentum > 0)
        self._delta = torch.empty_like(local)

    @property
    def parameters(self) -> int:
        """How many there are."""
        return self.local.numel()

    @property
    def momentum(self) -> torch.Tensor | None:
        """The outer momentum, (parameters,) float32; None before the first outer step."""
        found = self._sgd.state[self.weights].get("momentum_buffer")
        return found if isinstance(found, torch.Tensor) else None

    def pseudo_gradient(self) -> torch.Tensor:
        """Global minus local weights, (parameters,) float32, in a buffer used again each time."""
        return torch.sub(self.weights.detach(), self.local, out=self._delta)

    def apply(self, mean: torch.Tensor) -> None:
        """Take the outer step along the group's mean; local weights become the global ones."""
        self.weights.grad = mean
        self._sgd.step()
        self.weights.grad = None
        self.restore()

    def restore(self) -> None:
        """Local weights become the global ones again; what was learned since is given up."""
        with torch.no_grad():
            self.local.copy_(self.weights)

    def digest(self) -> str:
        """Of the global weights, equal on all learners that hold the same bits."""
        raw = self.weights.detach().numpy().data
        return hashlib.blake2b(raw, digest_size=16).hexdigest()


def is_finite(vector: torch.Tensor) -> bool:
    """True when no element is NaN or infinite: one pass, no temporary of the vector's size."""
    # A sum is finite when all its parts are, unless it overflows: then look at each.
    return bool(torch.isfinite(vector.sum())) or bool(torch.isfinite(vector).all())
