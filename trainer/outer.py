"""The outer step of DiLoCo: global weights and outer momentum, each one vector on the CPU.

Douillard et al., "DiLoCo: Distributed Low-Communication Training of Language Models", 2023
(arXiv:2311.08105): the pseudo-gradient is where the learner started minus where it arrived, so
that descending along it moves the global weights towards the learner. Fragments: Douillard et
al., "Streaming DiLoCo with overlapping communication", 2025 (arXiv:2501.18512).
"""

import hashlib
import itertools
from collections.abc import Mapping
from typing import Any

import torch

from slackwater.errors import InputError
from trainer.vector import ParameterVector

OUTER_LR = 0.7
OUTER_MOMENTUM = 0.9


class OuterState:
    """The weights a learner shares with its group, beside its own.

    Args:
        parameters: the learner's own weights; read for a pseudo-gradient, written by `apply`.
        lr: outer learning rate.
        momentum: Nesterov momentum; 0 is plain SGD.
        fragments: how many equal stretches of the vector are merged apart from each other.

    Attributes:
        weights: the global weights, (parameters,) float32; float64 when a parameter has it.
        momentum: the outer momentum, of the same shape; None when there is none.
        spans: where each fragment lies in the vector.
    """

    def __init__(
        self,
        *parameters: torch.Tensor,
        lr: float = OUTER_LR,
        momentum: float = OUTER_MOMENTUM,
        fragments: int = 1,
    ) -> None:
        self._vector = ParameterVector(parameters)
        if not 1 <= fragments <= self.parameters:
            msg = f"fragments is {fragments}; it must be 1 to {self.parameters}, the parameters"
            raise InputError(msg)
        self._whole = slice(0, self.parameters)
        bounds = [self.parameters * n // fragments for n in range(fragments + 1)]
        self.spans = [slice(*pair) for pair in itertools.pairwise(bounds)]
        self.weights = self.local
        self._delta = torch.empty_like(self.weights)
        self.momentum = torch.zeros_like(self.weights) if momentum else None
        self._parts = [self.weights[span] for span in self.spans]
        self._sgd = torch.optim.SGD(self._parts, lr, momentum, nesterov=momentum > 0)
        if self.momentum is not None:
            for part, span in zip(self._parts, self.spans, strict=True):
                self._sgd.state[part]["momentum_buffer"] = self.momentum[span]
        self._digest: str | None = None

    @property
    def parameters(self) -> int:
        """How many there are."""
        return self._vector.size

    @property
    def local(self) -> torch.Tensor:
        """A copy of the learner's own weights, (parameters,)."""
        found = torch.empty(self.parameters, dtype=self._vector.dtype)
        self._vector.read(self._whole, found)
        return found

    def pseudo_gradient(self, fragment: int = 0) -> torch.Tensor:
        """Global minus local weights of a fragment, in a buffer used again each time.

        Where a parameter is coarser than the vector, the global weights are taken as the learner
        got them, rounded: a learner that did not move has a pseudo-gradient of exactly 0.
        """
        span = self.spans[fragment]
        delta = self._delta[span]
        own = torch.empty_like(delta)
        self._vector.read(span, own)
        delta.copy_(self._parts[fragment])
        self._vector.round(span, delta)
        return delta.sub_(own)

    def apply(self, mean: torch.Tensor, fragment: int = 0, *, keep: float = 0.0) -> None:
        """Take a fragment's outer step along the group's mean; local weights become the global.

        `keep` is the share of the local weights that stays, torchft's `fragment_update_alpha`.
        """
        part = self._parts[fragment]
        part.grad = mean
        self._sgd.step()
        part.grad = None
        self._digest = None
        span = self.spans[fragment]
        if not keep:
            self._vector.write(span, part)
            return
        own = torch.empty_like(part)
        self._vector.read(span, own)
        self._vector.write(span, torch.lerp(part, own, keep))

    def restore(self) -> None:
        """Local weights become the global ones again; what was learned since is given up."""
        self._vector.write(self._whole, self.weights)

    def digest(self) -> str:
        """Of the global weights, equal on all learners that hold the same bits."""
        if self._digest is None:
            raw = self.weights.numpy().data
            self._digest = hashlib.blake2b(raw, digest_size=16).hexdigest()
        return self._digest

    def state_dict(self) -> dict[str, torch.Tensor]:
        """What all learners of the group hold alike: `weights`, and `momentum` when there is one.

        These are the tensors themselves: copy or send them before the next outer step.
        """
        state = {"weights": self.weights}
        return state if self.momentum is None else {**state, "momentum": self.momentum}

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a group's `state_dict`; `restore` makes the local weights follow it.

        Raises `InputError` when it is of another model or another kind of outer step; then
        nothing has changed.
        """
        mine = self.state_dict()
        if state.keys() != mine.keys():
            msg = f"outer state has {', '.join(state)}; this learner's has {', '.join(mine)}"
            raise InputError(msg)
        for name, tensor in mine.items():
            if state[name].shape != tensor.shape:
                theirs, ours = list(state[name].shape), list(tensor.shape)
                msg = f"outer {name} has shape {theirs}; this model's has {ours}"
                raise InputError(msg)
        for name, tensor in mine.items():
            tensor.copy_(state[name])
        self._digest = None


def is_finite(vector: torch.Tensor) -> bool:
    """True when no element is NaN or infinite: one pass, no temporary of the vector's size."""
    # A sum is finite when all its parts are, unless it overflows: then look at each.
    return bool(torch.isfinite(vector.sum())) or bool(torch.isfinite(vector).all())
