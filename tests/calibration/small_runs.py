"""Small served runs for tests: requests of known arrivals and latencies, every policy entered."""

import numpy as np

from calibration.contender import Entrant
from calibration.placement.corridor import Corridor
from calibration.serving import Requests, requests_of
from calibration.simulate import Segment, corridor_settings
from controller.policies import POLICIES, policy_named
from controller.settings import ControllerSettings

CORRIDOR = Corridor(240, 8, 16, 64)


def bursty_requests(rng: np.random.Generator, duration_s: float, sidecars: int = 2) -> Requests:
    """Calm with bursts of four times its rate, 12 s in every 36 s; latencies of 0.1 to 1.5 s."""
    candidates = np.sort(rng.uniform(0, duration_s, rng.poisson(8 * duration_s)))
    kept = candidates[(candidates % 36 < 12) | (rng.random(len(candidates)) < 0.25)]
    return requests_of(
        kept,
        duration_s,
        e2e_s=rng.uniform(0.1, 1.5, len(kept)),
        sidecar=np.arange(len(kept)) % sidecars,
    )


def entrants(
    corridor: Corridor = CORRIDOR, policies: tuple[str, ...] = tuple(POLICIES), lead_s: float = 0.0
) -> list[Entrant]:
    settings = corridor_settings(ControllerSettings(), corridor, lead_s=lead_s)
    return [Entrant(name, policy_named(name), settings) for name in policies]


def segments(number: int, corridor: Corridor = CORRIDOR) -> list[Segment]:
    return [Segment(i * corridor.cells, corridor) for i in range(number)]
