"""One evaluation: what was asked, checked beforehand, and its results load by load."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from slackwater.cli.evaluate_ground import Asked, Ground, seeds_of
from slackwater.cli.evaluate_sources import Traffic
from slackwater.cli.evaluate_tuned import TunedFile, notes_of, tuned_by_policy, unclaimed
from slackwater.cli.traffic_options import check_least_gain, check_memory
from slackwater.errors import InputError

if TYPE_CHECKING:
    from calibration.bounded import BoundPrice
    from calibration.contender import Entrant
    from calibration.experiment import Scored
    from calibration.protocol import Protocol
    from calibration.verdict import Verdict
    from controller.settings import ControllerSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(Asked):
    """What a person asked for; the fields are the command's options."""

    policies: tuple[str, ...]
    claim: str | None
    draws: int
    least_gain_percent: float
    settings: tuple[Path, ...] = ()
    max_burden: float | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """Runs that are judged together: those of one regime, or of all traces given."""

    name: str
    traffic: tuple[Traffic, ...]
    scored: "tuple[Scored, ...]"
    verdicts: "tuple[Verdict, ...]"
    notes: tuple[str, ...]
    prices: "tuple[BoundPrice, ...]" = ()


class Evaluation:
    """A checked job, ready to run.

    Raises:
        InputError: at once for what the options and files alone show to be wrong.
    """

    def __init__(self, job: Job) -> None:
        check_least_gain(job.least_gain_percent)
        if job.max_burden is not None and not 1 < job.max_burden < math.inf:
            msg = (
                f"--max-burden is {job.max_burden:g}; it must be above 1: at 1 every sidecar would "
                "have to bear exactly its due"
            )
            raise InputError(msg)
        self.job = job
        self.ground = Ground(job, job.draws)
        self.protocol = self.ground.protocol
        check_memory(job.draws, self.total_runs, self.protocol.corridor.budgets()[0])
        self.tuned = tuned_by_policy(job.settings)
        self.controller = _controller(self.protocol)
        self.entrants = _entrants(job, self.controller, self.tuned)

    @property
    def total_runs(self) -> int:
        """Runs to score in all."""
        return self.ground.total_runs

    def groups(self, advance: Callable[[], None]) -> Iterator[Group]:
        """Score group after group, calling `advance` after each run."""
        for name, traffic in self.ground.loads(seeds_of(self.job.seed, self.job.runs)):
            yield self._group(name, traffic, advance)

    def _group(self, name: str, traffic: tuple[Traffic, ...], advance: Callable[[], None]) -> Group:
        import numpy as np

        from calibration.bounded import prices
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
        cell_s, least = self.protocol.cell_s, self.job.least_gain_percent / 100
        effect = self.ground.figures.effect
        found = verdicts(scored, self.job.claim, cell_s, rng, effect=effect, least_gain=least)
        told = unclaimed(found, self._tuned_entrants(), name, traffic)
        notes = (*_notes(traffic, empty), *notes_of(self.tuned, name, traffic))
        bound = self.job.max_burden
        paid = () if bound is None else tuple(prices(scored, bound, rng))
        return Group(name, traffic, tuple(scored), tuple(told), notes, paid)

    def _tuned_entrants(self) -> dict[str, TunedFile]:
        """The tuned settings by whoever runs by them: with a bound they are as tuned as without."""
        from calibration.bounded import bounded_name

        bound = self.job.max_burden
        bounded = (
            {} if bound is None else {bounded_name(p, bound): f for p, f in self.tuned.items()}
        )
        return {**self.tuned, **bounded}


def _controller(protocol: "Protocol") -> "ControllerSettings":
    """What every policy runs by unless it is tuned."""
    from calibration.simulate import corridor_settings
    from controller.settings import ControllerSettings

    return corridor_settings(ControllerSettings(), protocol.corridor, protocol.cell_s)


def _entrants(
    job: Job, settings: "ControllerSettings", tuned: dict[str, TunedFile]
) -> "list[Entrant]":
    from calibration.contender import Entrant
    from controller.policies import POLICIES, policy_named

    names = job.policies or tuple(POLICIES)
    if "" in names:
        msg = f"--policies {','.join(names)} has an empty name; give NAME or NAME,NAME"
        raise InputError(msg)
    if len(set(names)) < len(names):
        msg = f"--policies {','.join(names)} names a policy twice; name each once"
        raise InputError(msg)
    for policy, file in tuned.items():
        if policy not in names:
            run = ", ".join(names)
            msg = f"--settings {file.path} is for {policy}, not among the policies to run: {run}"
            raise InputError(msg)
    entrants = [
        Entrant(
            name,
            policy_named(name),
            tuned[name].applied(settings) if name in tuned else settings,
        )
        for name in names
    ]
    if job.max_burden is not None:
        entrants = [
            either for free in entrants for either in (free, _bounded(free, job.max_burden))
        ]
    running = [entrant.name for entrant in entrants]
    if job.claim is not None and job.claim not in running:
        msg = f"--claim {job.claim} is not among the policies to run: {', '.join(running)}"
        raise InputError(msg)
    return entrants


def _bounded(free: "Entrant", max_burden: float) -> "Entrant":
    """The same policy under a bound on a sidecar's burden."""
    import msgspec

    from calibration.bounded import bounded_name
    from calibration.contender import Entrant

    settings = msgspec.structs.replace(free.settings, max_burden=max_burden)
    return Entrant(bounded_name(free.name, max_burden), free.policy, settings)


def _notes(traffic: tuple[Traffic, ...], empty: int) -> tuple[str, ...]:
    notes = [note for one in traffic for note in one.notes]
    for one in traffic:
        number = len(one.source.first_cells)
        if number > 1:
            notes.append(
                f"{one.source.name}: its {number} runs are segments of one trace: no common phase "
                "was looked for beyond theirs, and a verdict speaks of this trace alone; choose "
                "--segment before you look at results"
            )
    if empty:
        notes.append(f"{empty} runs without a single request are left out")
    return tuple(notes)
