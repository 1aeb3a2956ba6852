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


def uneven_requests(rng: np.random.Generator, duration_s: float) -> Requests:
    """Sidecar 0 steady at 10/s, sidecar 1 at 2/s with bursts of 34/s, 10 s in every 40 s."""
    steady = rng.uniform(0, duration_s, rng.poisson(10 * duration_s))
    candidates = rng.uniform(0, duration_s, rng.poisson(34 * duration_s))
    kept = candidates[(candidates % 40 < 10) | (rng.random(len(candidates)) < 2 / 34)]
    arrivals = np.concatenate([steady, kept])
    order = np.argsort(arrivals)
    sidecar = np.repeat([0, 1], [len(steady), len(kept)])[order]
    return requests_of(
        arrivals[order], duration_s, e2e_s=rng.uniform(0.1, 0.6, len(order)), sidecar=sidecar
    )


def entrants(
    corridor: Corridor = CORRIDOR,
    policies: tuple[str, ...] = tuple(POLICIES),
    lead_s: float = 0.0,
    **settings_: object,
) -> list[Entrant]:
    base = ControllerSettings(**settings_)  # type: ignore[arg-type]
    settings = corridor_settings(base, corridor, lead_s=lead_s)
    return [Entrant(name, policy_named(name), settings) for name in policies]


def segments(number: int, corridor: Corridor = CORRIDOR) -> list[Segment]:
    return [Segment(i * corridor.cells, corridor) for i in range(number)]
