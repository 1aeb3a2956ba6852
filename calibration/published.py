"""The paper's figures, as data: what was published of each regime, and why ours may differ.

Source: "Not All Sync Is Safe: Calibrated DiLoCo Scheduling for Shared AI Infrastructure". Figures
marked as derived are sums or quotients of its own.
"""

from dataclasses import dataclass
from typing import Literal

Regime = Literal["ordinary", "high_pressure", "constant", "bursty", "aperiodic"]
REGIMES: tuple[Regime, ...] = ("ordinary", "high_pressure", "constant", "bursty", "aperiodic")


@dataclass(frozen=True, slots=True)
class Published:
    """One figure of the paper.

    Attributes:
        regime: the regime it is of.
        key: what it is called in `calibration.regimes` and in JSON.
        label: what it is, for people.
        unit: `%` of requests, `pp` (percentage points of them), or nothing for plain numbers.
        value: the number; None where the paper gives words.
        said: those words.
        sd: standard deviation over its runs; None where not published.
        runs: how many; None where not published.
        difference: one line on why ours may differ.
    """

    regime: Regime
    key: str
    label: str
    unit: str
    value: float | None
    difference: str
    said: str | None = None
    sd: float | None = None
    runs: int | None = None


@dataclass(frozen=True, slots=True)
class BurstyCase:
    """The published client and merges of the bursty regime; no largest gap is named."""

    quiet: int = 4
    busy: int = 12
    period_s: float = 120.0
    burst_s: float = 30.0
    budget: int = 8


RUN_S = 600.0
WINDOW_S = 8.0
MIN_GAP_S = 18.0
SLO_S = 1.0
BURSTY = BurstyCase()

_RANDOM, _WA = 6.257, 6.92
_ONLINE_RANDOM, _ONLINE, _ONLINE_GAIN, _SPARED = 6.54, 5.09, 1.46, 60.0
SIDECAR_RATE_PER_S = _SPARED / (_ONLINE_GAIN / 100) / RUN_S
"""Requests a second of one sidecar (derived): the spared requests are the gain in pp of these."""

PUBLISHED = (
    Published(
        "ordinary",
        "p95_ratio",
        "p95 with merges / without",
        "",
        1.0,
        "the model assumes a slowdown; a real sidecar showed none",
    ),
    Published(
        "high_pressure",
        "violating",
        "violating without merges",
        "%",
        None,
        "1.2 times the sidecars' capacity here",
        said="saturated",
    ),
    Published(
        "high_pressure",
        "gaining",
        "policies better than random",
        "",
        0.0,
        "nothing is left to violate",
    ),
    Published(
        "constant",
        "wa_p",
        "WA-DiLoCo against random, p",
        "",
        0.56,
        "a window's first batch can be foreseen here",
    ),
    Published(
        "constant",
        "wa_under_fixed",
        "WA-DiLoCo under fixed period",
        "pp",
        None,
        "budget: default weights merge more often here",
        said="better",
    ),
    Published(
        "constant",
        "wa_under_pressure",
        "WA-DiLoCo under pressure gate",
        "pp",
        None,
        "budget as well",
        said="better",
    ),
    Published(
        "bursty",
        "oracle",
        "oracle, excess violation",
        "%",
        4.445,
        "same client, K, W, gaps; phases are random here",
        sd=0.131,
        runs=5,
    ),
    Published(
        "bursty",
        "random",
        "matched random, the same",
        "%",
        _RANDOM,
        "all schedules alike here; 25 drawn there",
        sd=0.956,
        runs=25,
    ),
    Published(
        "bursty",
        "wa",
        "WA-DiLoCo, the same",
        "%",
        _WA,
        "budget: default weights merge more often here",
    ),
    Published(
        "bursty",
        "wa_over_random",
        "WA-DiLoCo over its random",
        "pp",
        _WA - _RANDOM,
        "derived; our signals see the batches in service",
    ),
    Published(
        "aperiodic",
        "random",
        "matched random, excess violation",
        "%",
        _ONLINE_RANDOM,
        "budget: its K is not published; another trace",
    ),
    Published(
        "aperiodic",
        "online",
        "online forecast, the same",
        "%",
        _ONLINE,
        "budget as well",
    ),
    Published(
        "aperiodic",
        "gain",
        "gain over matched random",
        "pp",
        _ONLINE_GAIN,
        "more merges, each worth less",
    ),
    Published(
        "aperiodic",
        "gain_share",
        "the same, of matched random",
        "%",
        100 * _ONLINE_GAIN / _ONLINE_RANDOM,
        "derived; bursts of 3 s end before a window does",
    ),
    Published(
        "aperiodic",
        "gain_p",
        "the same, p",
        "",
        0.021,
        "depends on the number of runs",
    ),
    Published(
        "aperiodic",
        "spared",
        "spared per sidecar in 10 min",
        "",
        _SPARED,
        "the gain times as many requests",
    ),
)
