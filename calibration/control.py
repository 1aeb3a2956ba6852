"""What matched random schedules would have served: the load that a policy's own is held against.

A closed-loop client sends less beside merges: that is the merges' doing, under any placement. The
load must match between the schedules that are compared, with as many merges each.
"""

import numpy as np

from calibration.costs import serve
from calibration.envelope import Envelope
from calibration.figures import ServedLoad, Stretch, served_load
from calibration.protocol import Protocol
from calibration.serving import ClosedLoop

SCHEDULES = 32


def control_load(load: Stretch, envelope: Envelope, protocol: Protocol) -> ServedLoad:
    """Mean load of the first 32 drawn schedules; where clients do not wait, that of any."""
    if not isinstance(protocol.model, ClosedLoop):
        return served_load(load.unmerged, load.led)
    arms = [
        served_load(serve(load.led, starts.tolist(), protocol, load.lead_s), load.led)
        for starts in envelope.starts[:SCHEDULES]
    ]
    tokens = [arm.tokens for arm in arms if arm.tokens is not None]
    return ServedLoad(
        requests=float(np.mean([arm.requests for arm in arms])),
        tokens=float(np.mean(tokens)) if len(tokens) == len(arms) else None,
    )
