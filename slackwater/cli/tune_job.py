"""One tuning: traffic made, a policy's parameters searched on it, and the file that comes of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slackwater.cli.evaluate_document import figures_of, versions
from slackwater.cli.evaluate_ground import Asked, Ground, seeds_of
from slackwater.errors import InputError

if TYPE_CHECKING:
    from calibration.tuning.bench import Score
    from calibration.tuning.search import Found
    from calibration.tuning.tuned import Scores, Search, Summary, Training, Tuned
    from slackwater.cli.evaluate_sources import Traffic

# Runs that `evaluate` would make of the same seed must be others.
STREAM = (1,)
OBJECTIVE = (
    "gain over matched random deferral of its own budget, as a share of its mean, mean over runs"
)
GUARD = (
    "a run whose budget is outside the inner budgets counts for no gain: near the ends of the "
    "corridor all schedules are nearly alike"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneJob(Asked):
    """What a person asked for; the fields are the command's options."""

    policy: str
    candidates: int
    rounds: int
    folds: int


class Tuning:
    """A checked job, ready to search.

    Raises:
        InputError: at once for what the options and files alone show to be wrong.
    """

    def __init__(self, job: TuneJob) -> None:
        from calibration.simulate import corridor_settings
        from calibration.tuning.space import space_of
        from controller.settings import ControllerSettings

        _check(job)
        self.job, self.space = job, space_of(job.policy)
        self.ground = Ground(job, draws=1)
        protocol = self.ground.protocol
        self._settings = corridor_settings(ControllerSettings(), protocol.corridor, protocol.cell_s)
        self.training: list[Training] = []

    @property
    def sources(self) -> int:
        """Traces, and generated runs, that every candidate is scored on."""
        return len(self.ground.traces) + len(self.job.regimes) * self.job.runs

    @property
    def steps(self) -> int:
        """How often `run` calls `advance`."""
        from calibration.tuning.search import steps_of

        return steps_of(self.job.rounds) * self.sources

    def run(self, advance: Callable[[], None]) -> "Tuned":
        """Search, and describe what was found."""
        import numpy as np

        from calibration.tuning.bench import Bench
        from calibration.tuning.search import search
        from calibration.tuning.space import values_of

        job = self.job
        seeds = seeds_of(job.seed, job.runs, STREAM)
        loads = [(name, one) for name, many in self.ground.loads(seeds) for one in many]
        self.training = [_training(name, one) for name, one in loads]
        sources = [traffic.source for _, traffic in loads]
        bench = Bench(sources, job.policy, self.space, self._settings, self.ground.protocol)
        found = search(
            bench,
            self.space,
            values_of(self._settings, self.space),
            candidates=job.candidates,
            rounds=job.rounds,
            folds=job.folds,
            rng=np.random.default_rng([job.seed, *STREAM]),
            advance=advance,
        )
        return self._document(found)

    def _document(self, found: "Found") -> "Tuned":
        from calibration.tuning.tuned import KIND, SCHEMA_VERSION, Tuned

        protocol = self.ground.protocol
        return Tuned(
            kind=KIND,
            schema_version=SCHEMA_VERSION,
            policy=self.job.policy,
            settings=self._named(found.values),
            conditions={
                "window_s": protocol.window_s,
                "min_gap_s": self.job.min_gap_s,
                "max_gap_s": self.job.max_gap_s,
                "segment_s": self.job.segment_s,
                "cell_s": protocol.cell_s,
                "serving": self.job.serving,
                **figures_of(self.ground.figures),
            },
            training=self.training,
            search=self._search(found),
            scores=_scores(found),
            versions=versions(),
        )

    def _named(self, values: Sequence[float]) -> dict[str, float]:
        return {p.name: value for p, value in zip(self.space, values, strict=True)}

    def _search(self, found: "Found") -> "Search":
        from calibration.tuning.bench import inner_budgets
        from calibration.tuning.tuned import Search

        inner = inner_budgets(self.ground.protocol)
        return Search(
            seed=self.job.seed,
            random_candidates=self.job.candidates,
            rounds=self.job.rounds,
            folds=len(found.folds),
            candidates_scored=found.candidates,
            objective=OBJECTIVE,
            guard=GUARD,
            smallest_budget=inner[0],
            largest_budget=inner[-1],
            parameters=[_parameter(p, at) for p, at in zip(self.space, found.start, strict=True)],
            folds_found=[self._named(fold.values) for fold in found.folds],
        )


def _check(job: TuneJob) -> None:
    for name, value, least in (
        ("candidates", job.candidates, 1),
        ("rounds", job.rounds, 0),
        ("folds", job.folds, 0),
    ):
        if value < least:
            msg = f"--{name} is {value}; it must be {least} or more"
            raise InputError(msg)


def _parameter(parameter: Any, default: float) -> dict[str, Any]:
    from dataclasses import asdict

    return {**asdict(parameter), "default": default}


def _training(load: str, traffic: "Traffic") -> "Training":
    from calibration.tuning.tuned import Training

    return Training(
        name=traffic.source.name,
        runs=len(traffic.source.first_cells),
        requests=len(traffic.source.requests),
        sha256=traffic.sha256,
        regime=None if traffic.seed is None else load,
        seed=traffic.seed,
    )


def _scores(found: "Found") -> "Scores":
    from calibration.tuning.tuned import Scores

    default = [score for fold in found.folds for score in fold.default]
    tuned = [score for fold in found.folds for score in fold.tuned]
    return Scores(
        training_default=_summary(found.default),
        training_tuned=_summary(found.tuned),
        held_out_default=_summary(default) if default else None,
        held_out_tuned=_summary(tuned) if tuned else None,
    )


def _summary(scores: "Sequence[Score]") -> "Summary":
    from calibration.results import share
    from calibration.tuning.search import objective
    from calibration.tuning.tuned import Summary

    def mean(values: list[float]) -> float:
        return sum(values) / len(values)

    return Summary(
        runs=len(scores),
        budget=mean([score.budget for score in scores]),
        cost_pp=mean([score.cost_pp for score in scores]),
        gain=mean([score.gain for score in scores]),
        gain_pp=mean([score.gain_pp for score in scores]),
        capture=share(sum(s.gain_pp for s in scores), sum(s.oracle_pp for s in scores)),
        objective=objective(scores),
        pinned_runs=sum(score.pinned for score in scores),
    )
