"""Who bears the harm: shares by sidecar or tenant, and Jain's index of their harm rates."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slackwater.errors import InputError


@dataclass(frozen=True, slots=True)
class Share:
    """One sidecar's or tenant's part.

    Attributes:
        requests: how many it sent.
        harmed: how many of them a merge harmed.
        share_of_requests: of all requests.
        share_of_harm: of all harmed requests; None when none was harmed.
    """

    requests: int
    harmed: int
    share_of_requests: float
    share_of_harm: float | None

    @property
    def burden(self) -> float | None:
        """Share of harm over share of requests: 1 is its due; None when nobody was harmed."""
        return None if self.share_of_harm is None else self.share_of_harm / self.share_of_requests


@dataclass(frozen=True, slots=True)
class Fairness:
    """Shares by name, and Jain's index of harmed / requests over them; None when undefined."""

    shares: dict[str, Share]
    jain: float | None

    @property
    def worst(self) -> str | None:
        """Who bears most harm for its requests; None when nobody was harmed."""
        burdens = {name: s.burden for name, s in self.shares.items() if s.burden is not None}
        return max(burdens, key=burdens.__getitem__) if burdens else None

    @property
    def worst_burden(self) -> float | None:
        """How much that is: share of harm over share of requests; None when nobody was harmed."""
        return None if self.worst is None else self.shares[self.worst].burden

    def bearers(self) -> "tuple[Bearer, ...]":
        """The shares as plain figures, in order of name."""
        return tuple(
            Bearer(name, s.requests, s.harmed, s.share_of_requests, s.share_of_harm, s.burden)
            for name, s in self.shares.items()
        )


@dataclass(frozen=True, slots=True)
class Bearer:
    """One sidecar's or tenant's part, for outputs; the figures are those of `Share`."""

    name: str
    requests: int
    harmed: int
    share_of_requests: float
    share_of_harm: float | None
    burden: float | None


def worst_of(bearers: Iterable[Bearer]) -> Bearer | None:
    """Who bears most harm for its requests, the bearers of one name put together.

    None when nobody was harmed, or there is nobody.
    """
    whole = _together((b.name, b.requests, b.harmed) for b in bearers)
    return next((b for b in whole.bearers() if b.name == whole.worst), None)


def together(parts: Iterable[tuple[str, int, int]]) -> tuple[Bearer, ...]:
    """Name, requests and harmed of each part to shares, those of one name put together."""
    return _together(parts).bearers()


def _together(parts: Iterable[tuple[str, int, int]]) -> Fairness:
    requests: dict[str, int] = {}
    harmed: dict[str, int] = {}
    for name, sent, hit in parts:
        requests[name] = requests.get(name, 0) + sent
        harmed[name] = harmed.get(name, 0) + hit
    return Fairness(_shares(requests, harmed), None)


def fairness(harmed: NDArray[np.bool_], labels: NDArray[np.generic]) -> Fairness:
    """Shares of harm by label: `harmed` [n] with the sidecar or tenant of each request [n].

    Raises `InputError` when the lengths differ.
    """
    if harmed.shape != labels.shape:
        msg = f"{len(harmed)} requests, but {len(labels)} labels; give one for each"
        raise InputError(msg)
    names, code = np.unique(labels, return_inverse=True)
    requests = np.bincount(code, minlength=len(names))
    hit = np.bincount(code, weights=harmed, minlength=len(names)).astype(np.int64)
    keys = [str(name) for name in names]
    counts = (dict(zip(keys, x.tolist(), strict=True)) for x in (requests, hit))
    return Fairness(_shares(*counts), jain(hit / requests))


def _shares(requests: dict[str, int], harmed: dict[str, int]) -> dict[str, Share]:
    sent, hit = sum(requests.values()), sum(harmed.values())
    return {
        name: Share(n, harmed[name], n / sent, harmed[name] / hit if hit else None)
        for name, n in requests.items()
    }


def jain(values: ArrayLike) -> float | None:
    """Jain's index (sum x)^2 / (n sum x^2): 1 when all are equal, 1/n when one bears it all.

    None when there is nobody, or nothing to share (Jain, Chiu and Hawe, 1984).

    >>> jain([2.0, 2.0]), jain([1.0, 0.0]), jain([0.0, 0.0])
    (1.0, 0.5, None)
    """
    x = np.asarray(values, dtype=np.float64)
    square = float((x**2).sum())
    return float(x.sum()) ** 2 / (len(x) * square) if square > 0 else None
