"""One evaluation: what was asked, checked beforehand, and its results load by load."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from slackwater.cli.evaluate_sources import Traffic, from_file, from_regime
from slackwater.errors import InputError

if TYPE_CHECKING:
    from calibration.contender import Entrant
    from calibration.experiment import Scored
    from calibration.protocol import Protocol
    from calibration.serving import ServingModel
    from calibration.verdict import Verdict

TRACES = "traces"
# The overlap model without the requests in service as the window opens.
ARRIVALS = "arrivals"


@dataclass(frozen=True, slots=True)
class Job:
    """What a person asked for; the fields are the command's options."""

    traces: tuple[Path, ...]
    regimes: tuple[str, ...]
    policies: tuple[str, ...]
    claim: str | None
    window_s: float
    min_gap_s: float
    max_gap_s: float
    segment_s: float
    runs: int
    draws: int
    serving: str
    seed: int


@dataclass(frozen=True, slots=True)
class Group:
    """Runs that are judged together: those of one regime, or of all traces given."""

    name: str
    traffic: tuple[Traffic, ...]
    scored: "tuple[Scored, ...]"
    verdicts: "tuple[Verdict, ...]"
    notes: tuple[str, ...]


class Evaluation:
    """A checked job, ready to run.

    Raises:
        InputError: at once for what the options and files alone show to be wrong.
    """

    def __init__(self, job: Job) -> None:
        from calibration.protocol import Protocol, corridor_of
        from calibration.simulate import CELL_S
        from replay_producer.generators import check_regime

        for regime in job.regimes:
            check_regime(regime)
        self.job = job
        self.protocol: Protocol = Protocol(
            corridor=corridor_of(job.segment_s, job.window_s, job.min_gap_s, job.max_gap_s, CELL_S),
            cell_s=CELL_S,
            model=_model(job.serving),
            draws=job.draws,
            seed=job.seed,
        )
        self.entrants = _entrants(job, self.protocol)
        self._traces = tuple(from_file(path, self.protocol) for path in job.traces)

    @property
    def total_runs(self) -> int:
        """Runs to score in all."""
        cut = sum(len(traffic.source.first_cells) for traffic in self._traces)
        return cut + len(self.job.regimes) * self.job.runs

    def groups(self, advance: Callable[[], None]) -> Iterator[Group]:
        """Score group after group, calling `advance` after each run."""
        if self._traces:
            yield self._group(TRACES, self._traces, advance)
        for regime in self.job.regimes:
            traffic = tuple(from_regime(regime, seed, self.protocol) for seed in self._seeds())
            yield self._group(regime, traffic, advance)

    def _seeds(self) -> list[int]:
        import numpy as np

        return [int(x) for x in np.random.SeedSequence(self.job.seed).generate_state(self.job.runs)]

    def _group(self, name: str, traffic: tuple[Traffic, ...], advance: Callable[[], None]) -> Group:
        import numpy as np

        from calibration.evidence import verdicts
        from calibration.experiment import evaluate

        scored, empty = [], 0
        for one in evaluate([t.source for t in traffic], self.entrants, self.protocol):
            advance()
            if one is None:
                empty += 1
            else:
                scored.append(one)
        if not scored:
            msg = f"{name}: no run has a single request; take another segment length or trace"
            raise InputError(msg)
        rng = np.random.default_rng([self.job.seed, len(scored)])
        found = verdicts(scored, self.job.claim, self.protocol.cell_s, rng)
        return Group(name, traffic, tuple(scored), tuple(found), _notes(traffic, empty))


def _model(name: str) -> "ServingModel":
    """The serving model of that name; a queue has as many slots as a replayed sidecar."""
    from calibration.profile import OverlapFigures, Profile, QueueFigures
    from calibration.serving import MODELS, serving_model
    from replay_producer.sidecar import ServiceSettings

    if name not in {ARRIVALS, *MODELS}:
        msg = f"--serving {name} is not known; it must be one of {', '.join([ARRIVALS, *MODELS])}"
        raise InputError(msg)
    arriving = OverlapFigures(counting="arriving" if name == ARRIVALS else "in_service")
    profile = Profile(overlap=arriving, queue=QueueFigures(slots=ServiceSettings().slots))
    return serving_model("overlap" if name == ARRIVALS else name, profile)


def _entrants(job: Job, protocol: "Protocol") -> "list[Entrant]":
    from calibration.contender import Entrant
    from calibration.simulate import corridor_settings
    from controller.policies import POLICIES, policy_named
    from controller.settings import ControllerSettings

    names = job.policies or tuple(POLICIES)
    if len(set(names)) < len(names):
        msg = f"--policies {','.join(names)} names a policy twice; name each once"
        raise InputError(msg)
    if job.claim is not None and job.claim not in names:
        msg = f"--claim {job.claim} is not among the policies to run: {', '.join(names)}"
        raise InputError(msg)
    settings = corridor_settings(ControllerSettings(), protocol.corridor, protocol.cell_s)
    return [Entrant(name, policy_named(name), settings) for name in names]


def _notes(traffic: tuple[Traffic, ...], empty: int) -> tuple[str, ...]:
    notes = [note for one in traffic for note in one.notes]
    for one in traffic:
        number = len(one.source.first_cells)
        if number > 1:
            notes.append(
                f"{one.source.name}: its {number} runs are segments of one trace, not independent "
                "runs; a verdict speaks of this trace alone"
            )
    if empty:
        notes.append(f"{empty} runs without a single request are left out")
    return tuple(notes)
