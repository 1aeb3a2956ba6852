"""One plan: pilot differences from the traffic itself, and how many runs a gain of a size needs."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from slackwater.cli.evaluate_document import figures_of, versions
from slackwater.cli.evaluate_ground import Asked, Ground, seeds_of
from slackwater.cli.traffic_options import check_least_gain
from slackwater.errors import InputError
from slackwater.printable import printable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from calibration.power import Plan
    from slackwater.cli.evaluate_sources import Traffic

SCHEMA_VERSION = 1
MULTIPLES = (1, 2, 4)
RANDOM_SCHEDULES = 200
STREAM = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanJob(Asked):
    """What a person asked for; the fields are the command's options."""

    gain_pp: float
    least_gain_percent: float
    power: float
    policy: str | None
    max_runs: int


@dataclass(frozen=True, slots=True)
class Length:
    """Runs of one length: what a gain needs, what the traffic holds, and what that could show.

    Attributes:
        plan: the fewest runs that show the gain asked for.
        held: runs of this length that the traffic holds.
        detectable_pp: least gain that those show with the power asked for; None under 6.
    """

    plan: "Plan"
    held: int
    detectable_pp: float | None


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan: one entry a length, from `pilot` runs.

    Attributes:
        pilot: runs that it was made from.
        mean_gain_pp: of the policy's pilot runs; None for random schedules.
        sd_pp: of the differences.
        random_pp: what matched random harms, mean over the pilot.
        least_pp: the least gain that is worth a claim.
        lengths: one entry a length.
        cut: traces cut into several runs.
    """

    pilot: int
    mean_gain_pp: float | None
    sd_pp: float
    random_pp: float
    least_pp: float
    lengths: tuple[Length, ...]
    cut: tuple[str, ...]


class Planning:
    """A checked job, ready to plan.

    Raises:
        InputError: at once for what the options and files alone show to be wrong.
    """

    def __init__(self, job: PlanJob) -> None:
        from calibration.gate import MIN_RUNS
        from controller.policies import policy_named

        _check(job, MIN_RUNS)
        if job.policy is not None:
            policy_named(job.policy)
        self.job, self.ground = job, Ground(job, draws=1)
        self.total_runs = self.ground.total_runs
        if self.total_runs < MIN_RUNS:
            raise InputError(_too_few(job, self.ground, MIN_RUNS))

    def run(self, advance: Callable[[], None]) -> Planned:
        """Measure the pilot runs, then plan."""
        import numpy as np

        from calibration.gate import MIN_RUNS
        from calibration.power import detectable, plan

        job = self.job
        seeds = seeds_of(job.seed, job.runs)
        traffic = [one for _, many in self.ground.loads(seeds) for one in many]
        differences, random_pp = self._differences(traffic, advance)
        pilot = len(random_pp)
        if pilot < MIN_RUNS:
            msg = (
                f"{pilot} runs have a request; the noise of runs is measured on {MIN_RUNS} or more"
            )
            raise InputError(msg)
        rng = np.random.default_rng([job.seed, 2])
        run_s = self.ground.protocol.run_s
        harm_pp = float(np.mean(random_pp))
        least_pp = job.least_gain_percent / 100 * harm_pp
        options: dict[str, Any] = {"power": job.power, "least_pp": least_pp}
        plans = plan(
            differences, run_s, job.gain_pp, rng, multiples=MULTIPLES, max_runs=job.max_runs,
            **options,
        )  # fmt: skip
        lengths = []
        for multiple, found in zip(MULTIPLES, plans, strict=True):
            held = sum(_held(one, multiple, run_s) for one in traffic)
            least = detectable(differences, held, rng, multiple=multiple, **options)
            lengths.append(Length(found, held, least))
        return Planned(
            pilot=pilot,
            mean_gain_pp=float(np.mean(differences)) if job.policy else None,
            sd_pp=float(np.std(differences, ddof=1)),
            random_pp=harm_pp,
            least_pp=least_pp,
            lengths=tuple(lengths),
            cut=tuple(t.source.name for t in traffic if len(t.source.first_cells) > 1),
        )

    def _differences(
        self, traffic: "list[Traffic]", advance: Callable[[], None]
    ) -> "tuple[NDArray[np.float64], list[float]]":
        """Matched random mean minus cost, pp, and that mean [pilot runs].

        The policy's difference in each run, else those of random schedules.
        """
        if self.job.policy is not None:
            return self._policys(self.job.policy, traffic, advance)
        return self._randoms(traffic, advance)

    def _policys(
        self, policy: str, traffic: "list[Traffic]", advance: Callable[[], None]
    ) -> "tuple[NDArray[np.float64], list[float]]":
        import numpy as np

        from calibration.contender import Entrant
        from calibration.experiment import evaluate
        from calibration.simulate import corridor_settings
        from controller.policies import policy_named
        from controller.settings import ControllerSettings

        protocol = self.ground.protocol
        settings = corridor_settings(ControllerSettings(), protocol.corridor, protocol.cell_s)
        entrant = Entrant(policy, policy_named(policy), settings)
        gains, random_pp = [], []
        for one in evaluate([t.source for t in traffic], [entrant], protocol):
            advance()
            if one is not None:
                run = one.runs[0]
                gains.append(run.gain_pp)
                random_pp.append(100 * run.random_mean / run.requests)
        return np.array(gains), random_pp

    def _randoms(
        self, traffic: "list[Traffic]", advance: Callable[[], None]
    ) -> "tuple[NDArray[np.float64], list[float]]":
        import numpy as np

        from calibration.costs import run_costs, stretch
        from calibration.experiment import lead_of
        from calibration.placement import Grid

        protocol = self.ground.protocol
        made: list[NDArray[np.float64]] = []
        random_pp: list[float] = []
        budget = middle_budget(protocol)
        for source in (t.source for t in traffic):
            leads_s = [lead_of(protocol, len(made) + i) for i in range(len(source.first_cells))]
            costs = run_costs(source.requests, source.first_cells, protocol, leads_s)
            for first, cost in zip(source.first_cells, costs, strict=True):
                advance()
                requests = len(stretch(source.requests, first, protocol))
                if not requests:
                    continue
                grid = Grid.in_corridor(protocol.corridor, cost)
                rng = np.random.default_rng([protocol.seed, len(made), STREAM])
                drawn = grid.costs(grid.draw(budget, RANDOM_SCHEDULES, rng))
                made.append(100 * (grid.mean(budget) - drawn) / requests)
                random_pp.append(100 * grid.mean(budget) / requests)
        return np.concatenate(made) if made else np.array([]), random_pp

    def document(self, planned: Planned) -> dict[str, Any]:
        """The plan for programs: configuration, figures, versions and every length."""
        return {
            "schema_version": SCHEMA_VERSION,
            "configuration": {
                **asdict(self.job),
                "traces": [printable(str(path)) for path in self.job.traces],
                "random_schedules": None if self.job.policy else RANDOM_SCHEDULES,
                "budget": None if self.job.policy else middle_budget(self.ground.protocol),
                "window_s": self.ground.figures.window_s,
                **figures_of(self.ground.figures),
            },
            "versions": versions(),
            "pilot_runs": planned.pilot,
            "pilot_mean_gain_pp": planned.mean_gain_pp,
            "pilot_sd_pp": planned.sd_pp,
            "random_pp": planned.random_pp,
            "least_gain_pp": planned.least_pp,
            "independent": not planned.cut,
            "lengths": [
                {**asdict(one.plan), "held": one.held, "detectable_pp": one.detectable_pp}
                for one in planned.lengths
            ],
        }


def middle_budget(protocol: Any) -> int:
    """Merges of a run whose gaps are the corridor's middle, within what fits."""
    run = protocol.corridor
    wanted = round(2 * run.cells / (run.min_gap_cells + run.max_gap_cells))
    fitting = run.budgets()
    return int(min(fitting[-1], max(fitting[0], wanted)))


def _held(traffic: "Traffic", multiple: int, run_s: float) -> int:
    """Whole runs of that many pilot runs; of generated traffic as many as there were seeds."""
    if traffic.seed is not None:
        return 1
    return int((traffic.duration_s + 1e-6) // (multiple * run_s))


def _check(job: PlanJob, least: int) -> None:
    if not job.gain_pp > 0:
        msg = f"--gain is {job.gain_pp:g}; it must be above 0 percentage points of requests"
        raise InputError(msg)
    check_least_gain(job.least_gain_percent)
    if not 0 < job.power < 1:
        msg = f"--power is {job.power:g}; it must be between 0 and 1, 0.8 as a rule"
        raise InputError(msg)
    if job.max_runs < least:
        msg = f"--max-runs is {job.max_runs}; it must be {least} or more"
        raise InputError(msg)


def _too_few(job: PlanJob, ground: Ground, least: int) -> str:
    if job.regimes:
        return (
            f"--runs {job.runs} makes {ground.total_runs} pilot runs; give --runs {least} or more"
        )
    run = ground.protocol.corridor
    shortest = int((run.min_gap_cells + run.window_cells) * ground.protocol.cell_s)
    lengths_s = [traffic.duration_s for traffic in ground.traces]
    for segment_s in range(int(job.segment_s), shortest, -1):
        if sum(int(length // segment_s) for length in lengths_s) >= least:
            shorter = f"take --segment {segment_s} or less, "
            break
    else:
        shorter = ""
    return (
        f"{ground.total_runs} segments of {job.segment_s:g} s; the noise of runs is measured on "
        f"{least} or more: {shorter}more or longer traces, or --regime with traffic like theirs"
    )
