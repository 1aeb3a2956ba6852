"""What `evaluate`, `tune` and `plan` stand on: how runs are scored, and their traffic."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from slackwater.cli.evaluate_figures import figures
from slackwater.cli.evaluate_sources import Traffic, from_file, from_regime

TRACES = "traces"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a person asked for; the fields are the commands' options, None where not given."""

    traces: tuple[Path, ...]
    regimes: tuple[str, ...]
    min_gap_s: float
    max_gap_s: float
    segment_s: float
    runs: int
    serving: str
    seed: int
    window_s: float | None = None
    slo_s: float | None = None
    profile: Path | None = None
    model: tuple[str, ...] = ()
    skip_bad: bool = False


class Ground:
    """Checked options: figures, protocol, and traffic load by load.

    Attributes:
        figures: the serving model's and the protocol's, with their origin.
        protocol: how runs are scored.

    Raises:
        InputError: at once for what the options and files alone show to be wrong.
    """

    def __init__(self, asked: Asked, draws: int) -> None:
        from calibration.protocol import Protocol, corridor_of
        from calibration.simulate import CELL_S
        from replay_producer.generators import check_regime

        for regime in asked.regimes:
            check_regime(regime)
        self._asked = asked
        self.figures = figures(
            asked.serving, asked.profile, asked.model, asked.slo_s, asked.window_s
        )
        lengths_s = (asked.segment_s, self.figures.window_s, asked.min_gap_s, asked.max_gap_s)
        self.protocol = Protocol(
            corridor=corridor_of(*lengths_s, CELL_S),
            cell_s=CELL_S,
            model=self.figures.model,
            draws=draws,
            seed=asked.seed,
            slo_s=self.figures.slo_s,
        )
        self.traces = tuple(
            from_file(path, self.protocol, "skip" if asked.skip_bad else "stop")
            for path in asked.traces
        )

    @property
    def total_runs(self) -> int:
        """Runs in all."""
        cut = sum(len(traffic.source.first_cells) for traffic in self.traces)
        return cut + len(self._asked.regimes) * self._asked.runs

    def loads(self, seeds: Sequence[int]) -> Iterator[tuple[str, tuple[Traffic, ...]]]:
        """All traces together, or each regime with a run a seed, by name."""
        if self.traces:
            yield TRACES, self.traces
        for regime in self._asked.regimes:
            yield regime, tuple(from_regime(regime, seed, self.protocol) for seed in seeds)


def seeds_of(seed: int, runs: int, stream: tuple[int, ...] = ()) -> list[int]:
    """A seed for each generated run; another `stream` gives other runs."""
    import numpy as np

    made = np.random.SeedSequence(seed, spawn_key=stream).generate_state(runs)
    return [int(x) for x in made]
