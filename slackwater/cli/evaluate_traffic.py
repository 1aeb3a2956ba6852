"""The requests of an evaluated run as rows of a run log, those in service at its start too."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slackwater.clock import US_PER_S

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from calibration.protocol import Protocol
    from slackwater.cli.evaluate_sources import Traffic


@dataclass(frozen=True, slots=True)
class StretchUs:
    """A run's stretch of its trace, microseconds on the log's clock."""

    begin_us: int
    end_us: int


def stretch_of(first_cell: int, protocol: "Protocol") -> StretchUs:
    """The stretch from `first_cell` on; counted from the trace's first instant."""
    end_s = first_cell * protocol.cell_s + protocol.run_s
    begin_us = round(first_cell * protocol.cell_s * US_PER_S)
    return StretchUs(begin_us, round(end_s * US_PER_S))


def request_columns(run_id: str, traffic: "Traffic", stretch: StretchUs) -> "pa.Table":
    """Requests that arrive in a run, and older ones in service as it begins.

    They are those of the run without merges, as the policies were scored on: each ends well, after
    the time that was recorded or modelled. `at_us` is the first microsecond it is gone by.
    """
    import numpy as np
    import pyarrow as pa

    from calibration.serving.overlap import finish_s

    requests, trace = traffic.source.requests, traffic.trace
    gone_us = np.ceil(finish_s(requests, "in_service") * US_PER_S).astype(np.int64)
    here = (trace.arrival_us >= stretch.begin_us) | (gone_us > stretch.begin_us)
    kept = np.flatnonzero(here & (trace.arrival_us < stretch.end_us))
    return pa.table(
        {
            "run_id": pa.repeat(run_id, len(kept)),
            "at_us": gone_us[kept],
            "sidecar": _kept(requests.sidecar, kept),
            "id": [str(i) for i in kept.tolist()],
            "tenant": trace.tenant[kept].tolist(),
            "arrival_us": trace.arrival_us[kept],
            "status": pa.repeat("ok", len(kept)),
            "e2e_s": _kept(requests.e2e_s, kept),
            "prompt_tokens": _known(trace.prompt_tokens[kept]),
            "output_tokens": _known(trace.output_tokens[kept]),
        }
    )


def _kept(column: "NDArray[np.generic] | None", kept: "NDArray[np.int64]") -> "pa.Array | None":
    import pyarrow as pa

    return pa.nulls(len(kept)) if column is None else pa.array(column[kept].tolist())


def _known(tokens: "NDArray[np.int64]") -> "pa.Array":
    import pyarrow as pa

    return pa.array(tokens, mask=tokens < 0)
