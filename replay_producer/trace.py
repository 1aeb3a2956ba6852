"""A trace: who asked for how much, and when, as arrays; times are integer microseconds."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

UNKNOWN_TOKENS = -1

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Objects = NDArray[np.object_]


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Requests in order of arrival; every array has one entry a request, shape (n,).

    Attributes:
        name: file name or regime.
        format: name of the reader or `generated`.
        arrival_us: microseconds from the trace's first instant, ascending, none negative.
        prompt_tokens: -1 where unknown; 0 means none.
        output_tokens: -1 where unknown; 0 means none.
        e2e_s: recorded seconds from arrival to end, NaN where unknown.
        ttft_s: recorded seconds from arrival to first token, NaN where unknown.
        status: `ok`, `aborted`, `timeout` or `error`, as recorded.
        sidecar: name of the sidecar that served it, None where the trace does not say.
        tenant: whom it was for, None where the trace does not say.
        duration_us: length of the trace: to the last arrival of a file, as asked of a generator.
        sha256: hex digest of the file, None for a generated trace.
        origin_us: the first instant in microseconds since the epoch, None where times are relative.
        skipped: rows that could not be used and were left out.
        notes: what a person should know about the reading.
    """

    name: str
    format: str
    arrival_us: Ints
    prompt_tokens: Ints
    output_tokens: Ints
    e2e_s: Floats
    ttft_s: Floats
    status: Objects
    sidecar: Objects
    tenant: Objects
    duration_us: int
    sha256: str | None = None
    origin_us: int | None = None
    skipped: int = 0
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.arrival_us)

    def head(self, duration_us: int) -> "Trace":
        """The part that arrives before `duration_us`; the trace itself when it is no longer."""
        if self.duration_us < duration_us:
            return self
        cut = int(np.searchsorted(self.arrival_us, duration_us, side="left"))
        columns: dict[str, Any] = {name: getattr(self, name)[:cut] for name in COLUMNS}
        return replace(self, duration_us=duration_us, **columns)


COLUMNS = (
    "arrival_us",
    "prompt_tokens",
    "output_tokens",
    "e2e_s",
    "ttft_s",
    "status",
    "sidecar",
    "tenant",
)
