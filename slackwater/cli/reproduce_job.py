"""The reproduction itself: runs of the five regimes, measured."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slackwater.cli.reproduce_traffic import CLOSED_LOOP, load_of, model_of

if TYPE_CHECKING:
    from calibration.contender import Entrant
    from calibration.protocol import Protocol
    from calibration.published import Regime
    from calibration.regimes import ArmSummary, Measured
    from calibration.trials import Arm

MAX_GAP_S = 72.0
# Under the queue each schedule is served request by request; its mean needs no more of them.
QUEUE_SHARE = 40


@dataclass(frozen=True, slots=True)
class Reproduced:
    """One regime: our figures by the published ones' keys, and every arm behind them."""

    regime: "Regime"
    serving: str
    draws: int
    seeds: tuple[int, ...]
    figures: "dict[str, Measured]"
    arms: "list[ArmSummary]"


def reproduce_regimes(
    runs: int, draws: int, seed: int, advance: Callable[[], None]
) -> Iterator[Reproduced]:
    """Regime after regime, `runs` independent runs each, calling `advance` after every run."""
    import numpy as np

    from calibration.published import REGIMES
    from calibration.regimes import measured

    seeds = tuple(int(x) for x in np.random.SeedSequence(seed).generate_state(runs))
    for regime in REGIMES:
        protocol = protocol_of(regime, draws, seed)
        entrants = _entrants(protocol)
        arms = []
        for own in seeds:
            arms.append(_run(regime, own, entrants, protocol))
            advance()
        figures, summaries = measured(regime, arms, np.random.default_rng([seed, runs]))
        serving = protocol.model.name
        yield Reproduced(regime, serving, protocol.draws, seeds, figures, summaries)


def protocol_of(regime: "Regime", draws: int, seed: int) -> "Protocol":
    """The published run, window and least gap, in the corridor of 18 to 72 s.

    Raises `InputError` for under one draw.
    """
    from calibration.protocol import Protocol, corridor_of
    from calibration.published import MIN_GAP_S, RUN_S, SLO_S, WINDOW_S
    from calibration.simulate import CELL_S

    return Protocol(
        corridor=corridor_of(RUN_S, WINDOW_S, MIN_GAP_S, MAX_GAP_S, CELL_S),
        cell_s=CELL_S,
        model=model_of(regime),
        draws=draws if regime in CLOSED_LOOP else -(-draws // QUEUE_SHARE),
        seed=seed,
        slo_s=SLO_S,
    )


def _entrants(protocol: "Protocol") -> "list[Entrant]":
    from calibration.contender import Entrant
    from calibration.regimes import POLICIES
    from calibration.simulate import corridor_settings
    from controller.policies import policy_named
    from controller.settings import ControllerSettings

    settings = corridor_settings(ControllerSettings(), protocol.corridor, protocol.cell_s)
    return [Entrant(name, policy_named(name), settings) for name in POLICIES]


def _run(
    regime: "Regime", seed: int, entrants: "list[Entrant]", protocol: "Protocol"
) -> "list[Arm]":
    from calibration.published import BURSTY
    from calibration.trials import Trial

    trial = Trial(load_of(regime, seed, protocol), protocol)
    arms = trial.policies(entrants)
    return [*arms, trial.offline(BURSTY.budget)] if regime == "bursty" else arms
