"""A seeded random search, then a climb along the coordinates, on all runs and on all but a fold.

The folds climb abreast, so that their candidates share the passes over the signals.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from calibration.tuning.bench import Bench, Score
from calibration.tuning.space import Parameter, Values, drawn, neighbours

FIRST_STEP = 0.25
LEAST_GAIN = 1e-9

Scores = tuple[Score, ...]


@dataclass(frozen=True, slots=True)
class Fold:
    """What a search found that did not see the runs held out; scores are on those runs alone."""

    held_out: tuple[int, ...]
    values: Values
    tuned: Scores
    default: Scores


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a search.

    Attributes:
        start: the default values.
        values: the best ones over all runs.
        default: the default's scores, a run each.
        tuned: the best ones' scores, likewise.
        folds: cross-validation; empty without it.
        candidates: how many were scored, in all.
    """

    start: Values
    values: Values
    default: Scores
    tuned: Scores
    folds: tuple[Fold, ...]
    candidates: int


@dataclass(slots=True)
class _Climb:
    """One search: the runs it sees, where it stands and how far it looks."""

    runs: tuple[int, ...]
    at: Values = ()
    reached: float = -np.inf
    step: float = field(default=FIRST_STEP)

    def take(self, found: dict[Values, Scores]) -> bool:
        """Move to the best candidate if it is better; the first one of equals."""
        means = {c: objective([scores[i] for i in self.runs]) for c, scores in found.items()}
        best = max(means, key=means.__getitem__)
        if means[best] <= self.reached + LEAST_GAIN:
            return False
        self.at, self.reached = best, means[best]
        return True


def objective(scores: Sequence[Score]) -> float:
    """What is searched for: gain over matched random deferral, mean over the runs."""
    return float(np.mean([score.objective for score in scores]))


def steps_of(rounds: int) -> int:
    """How often `advance` is called for each source."""
    return 1 + rounds


def search(
    bench: Bench,
    space: Sequence[Parameter],
    start: Values,
    *,
    candidates: int,
    rounds: int,
    folds: int,
    rng: np.random.Generator,
    advance: Callable[[], None],
) -> Found:
    """Search on all runs, and on all but each fold of neighbouring runs.

    Args:
        bench: scores candidates on the training runs.
        space: the parameters.
        start: the default values; they are a candidate too.
        candidates: random ones beside it.
        rounds: of the climb; one that finds nothing better halves the distance looked at.
        folds: of cross-validation; at most one a run, none under 2.
        rng: seeded generator.
        advance: called `steps_of(rounds)` times for each source.
    """
    every = tuple(range(len(bench.runs)))
    held = (
        [tuple(map(int, part)) for part in np.array_split(every, min(folds, len(every)))]
        if (min(folds, len(every)) > 1)
        else []
    )
    climbs = [_Climb(every), *(_Climb(tuple(i for i in every if i not in out)) for out in held)]
    found = bench.scores([start, *drawn(space, candidates, start, rng)], advance)
    default = found[start]
    for climb in climbs:
        climb.take(found)
    for _ in range(rounds):
        looked = {id(c): neighbours(space, c.at, c.step) for c in climbs}
        found = bench.scores([c for near in looked.values() for c in near], advance)
        for climb in climbs:
            if not climb.take({c: found[c] for c in looked[id(climb)]}):
                climb.step /= 2
    best = {climb.at for climb in climbs}
    known = bench.scores(list(best), lambda: None)
    return Found(
        start=start,
        values=climbs[0].at,
        default=default,
        tuned=known[climbs[0].at],
        folds=tuple(
            Fold(out, climb.at, _only(known[climb.at], out), _only(default, out))
            for climb, out in zip(climbs[1:], held, strict=True)
        ),
        candidates=bench.scored,
    )


def _only(scores: Scores, runs: Sequence[int]) -> Scores:
    return tuple(scores[i] for i in runs)
