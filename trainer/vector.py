"""A model's parameters as one vector, wherever they live and whatever their types are.

The learner's own tensors stay where they are: nothing is moved or replaced, so that optimisers,
tied layers and views of them go on to work. Values are copied out for a merge and back after it.
"""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from slackwater.errors import InputError


@dataclass(frozen=True, slots=True)
class _Part:
    """The stretch of a parameter that lies in a span: elements `first` to `last` of it."""

    parameter: torch.Tensor
    first: int
    last: int
    start: int

    @property
    def end(self) -> int:
        return self.start + self.last - self.first


class ParameterVector:
    """Trainable parameters one after the other, each once, as elements of one vector.

    Args:
        parameters: floating-point tensors; those that need no gradient are the caller's to leave
            out. A tensor that comes twice (tied layers) counts once.

    Attributes:
        size: elements of the vector.
        dtype: float32, or float64 when a parameter has it.

    Raises `InputError` for no parameters, or one that is not of floating point.
    """

    def __init__(self, parameters: Sequence[torch.Tensor]) -> None:
        self._parameters = list({id(p): p for p in parameters}.values())
        if not self._parameters:
            msg = "the model has no trainable parameter; there is nothing to merge"
            raise InputError(msg)
        for found in self._parameters:
            if not found.dtype.is_floating_point:
                msg = f"a parameter is of type {found.dtype}; only floating point can be merged"
                raise InputError(msg)
        types = [p.dtype for p in self._parameters]
        self.dtype = functools.reduce(torch.promote_types, types, torch.float32)
        self.size = sum(p.numel() for p in self._parameters)

    @torch.no_grad()
    def read(self, span: slice, into: torch.Tensor) -> None:
        """Copy the elements in `span` to `into`, of that length, on the CPU."""
        for part in self._parts(span):
            values = part.parameter.detach().reshape(-1)[part.first : part.last]
            into[part.start : part.end].copy_(values)

    @torch.no_grad()
    def write(self, span: slice, values: torch.Tensor) -> None:
        """Set the elements in `span`; each parameter rounds to its own type."""
        for part in self._parts(span):
            given = values[part.start : part.end]
            if part.parameter.is_contiguous():
                part.parameter.view(-1)[part.first : part.last].copy_(given)
            else:
                whole = part.parameter.reshape(-1).clone()
                whole[part.first : part.last].copy_(given)
                part.parameter.copy_(whole.view(part.parameter.shape))

    @torch.no_grad()
    def round(self, span: slice, values: torch.Tensor) -> None:
        """In place, what `write` and then `read` would make of `values`."""
        for part in self._parts(span):
            if part.parameter.dtype != self.dtype:
                given = values[part.start : part.end]
                given.copy_(given.to(part.parameter.dtype))

    def _parts(self, span: slice) -> Iterator[_Part]:
        start = 0
        for parameter in self._parameters:
            end = start + parameter.numel()
            first, last = max(start, span.start), min(end, span.stop)
            if first < last:
                yield _Part(parameter, first - start, last - start, first - span.start)
            start = end
