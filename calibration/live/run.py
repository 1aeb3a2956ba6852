"""One live run as its log tells it, before anything is counted."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

TOLERANCE_S = 5e-7
"""Arrivals are whole microseconds; half of one forgives what sums of seconds lose."""


@dataclass(frozen=True, slots=True, eq=False)
class LiveRun:
    """Requests and merge windows of one run; times are seconds of event time.

    0 is when the last of the learners that made the first merge began its first inner step (of all
    learners, where none was made), or the first arrival without learners.

    Attributes:
        name: the run's id.
        policy: the policy that commands; `none` where there is none.
        trace: name of the trace or of the generated regime.
        load: the same for runs that served one load: trace and hash or seed.
        arrival_s: [n] in order of arrival; those before 0 are negative.
        length_s: [n] arrival to end, however it ended.
        latency_s: [n] end-to-end time; NaN where nobody can say, infinite after a timeout.
        tokens: [n] prompt and output; None when one of them is unknown.
        sidecar, tenant: [n] labels; tenants None when one is unknown.
        end_s: up to when merges were allowed and the traffic is known.
        starts_s, lengths_s: [k] measured windows, in order; a length is NaN where unknown.
        reasons: [k] why each merge was made.
        late_merges: merges that began after `end_s`, and are not among these.
        min_gap_steps, max_gap_steps: the corridor in inner steps.
        step_s: measured mean time of an inner step; None without learners.
        slo_s: a request that takes longer violates.
    """

    name: str
    policy: str
    trace: str
    load: str
    arrival_s: Floats
    length_s: Floats
    latency_s: Floats
    tokens: npt.NDArray[np.int64] | None
    sidecar: npt.NDArray[np.str_]
    tenant: npt.NDArray[np.str_] | None
    end_s: float
    starts_s: Floats
    lengths_s: Floats
    reasons: tuple[str, ...]
    late_merges: int
    min_gap_steps: int
    max_gap_steps: int
    step_s: float | None
    slo_s: float

    @property
    def merges(self) -> int:
        """How many windows there were."""
        return len(self.starts_s)

    @property
    def span_s(self) -> float:
        """From the first arrival to the last one."""
        return float(self.arrival_s[-1] - self.arrival_s[0]) if len(self.arrival_s) else 0.0

    def first(self, seconds: float) -> npt.NDArray[np.bool_]:
        """[n] the requests of so many seconds from the first arrival on."""
        until_s = self.arrival_s[:1].sum() + seconds
        return np.asarray(self.arrival_s <= until_s + TOLERANCE_S)
