"""Load clients for OpenAI-compatible endpoints: every request that came due is accounted for."""

from sidecar.load.account import MIN_ANSWERED, Account
from sidecar.load.anchor import Anchor
from sidecar.load.batches import Bursts, run_closed_loop
from sidecar.load.endpoint import VLLM_TOKENS, Endpoint
from sidecar.load.open_loop import Limits, LoadReport, run_open_loop
from sidecar.load.outcome import Outcome
from sidecar.load.preflight import check_endpoint
from sidecar.load.schedule import Lengths, Scheduled, scheduled
from sidecar.load.summary import Summary, summarise
from sidecar.load.thread import LoadThread, start_closed_loop, start_open_loop

__all__ = [
    "MIN_ANSWERED",
    "VLLM_TOKENS",
    "Account",
    "Anchor",
    "Bursts",
    "Endpoint",
    "Lengths",
    "Limits",
    "LoadReport",
    "LoadThread",
    "Outcome",
    "Scheduled",
    "Summary",
    "check_endpoint",
    "run_closed_loop",
    "run_open_loop",
    "scheduled",
    "start_closed_loop",
    "start_open_loop",
    "summarise",
]
