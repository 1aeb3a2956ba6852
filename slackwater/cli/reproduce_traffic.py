"""The traffic of the paper's regimes: its batch client, or open arrivals at modelled sidecars."""

from typing import TYPE_CHECKING

from slackwater.cli.evaluate_sources import LEAD_IN_S, served
from slackwater.clock import US_PER_S

if TYPE_CHECKING:
    from calibration.protocol import Protocol
    from calibration.published import Regime
    from calibration.serving import Requests, ServingModel
    from calibration.trials import Load

# The paper's client waits for its batches in these; the other two are about the sidecar itself.
CLOSED_LOOP = ("constant", "bursty", "aperiodic")


def model_of(regime: "Regime") -> "ServingModel":
    """The serving model of a regime's runs."""
    from calibration.profile import Profile, QueueFigures
    from calibration.serving import serving_model
    from replay_producer.sidecar import ServiceSettings

    profile = Profile(queue=QueueFigures(slots=ServiceSettings().slots))
    return serving_model("closed_loop" if regime in CLOSED_LOOP else "queue", profile)


def load_of(regime: "Regime", seed: int, protocol: "Protocol") -> "Load":
    """One run's traffic, at a random moment of it: signals are warm, phases are random."""
    import numpy as np

    from calibration.trials import Load
    from replay_producer.generators import generate

    lead_cells = round(LEAD_IN_S / protocol.cell_s)
    rng = np.random.default_rng([seed, 2])
    first = lead_cells + int(rng.integers(lead_cells))
    duration_s = (first + protocol.corridor.cells) * protocol.cell_s
    if regime == "bursty":
        requests = _bursty(duration_s)
    elif regime in CLOSED_LOOP:
        requests = _client(regime, duration_s, seed)
    else:
        requests = served(generate(regime, duration_s, seed=seed), duration_s)
    return Load(f"{regime}/{seed}", requests, first, seed)


def _bursty(duration_s: float) -> "Requests":
    """What the published client sends without merges."""
    from calibration.published import BURSTY
    from calibration.serving import BurstSchedule, ClosedLoop, requests_of

    schedule = BurstSchedule(BURSTY.quiet, BURSTY.busy, BURSTY.period_s, BURSTY.burst_s)
    return _sent(ClosedLoop(schedule=schedule), requests_of([], duration_s))


def _client(regime: str, duration_s: float, seed: int) -> "Requests":
    """One sidecar's client, each batch of what has arrived at the published mean rate."""
    from calibration.published import SIDECAR_RATE_PER_S
    from calibration.serving import ClosedLoop, requests_of
    from replay_producer.generators import generate

    trace = generate(regime, duration_s, SIDECAR_RATE_PER_S, seed)
    return _sent(ClosedLoop(), requests_of(trace.arrival_us / US_PER_S, duration_s))


def _sent(model: "ServingModel", requests: "Requests") -> "Requests":
    from calibration.serving import requests_of, windows_of

    alone = model.serve(requests, windows_of([], 1.0))
    return requests_of(alone.arrival_s, requests.duration_s, e2e_s=alone.latency_s)
