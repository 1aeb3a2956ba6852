"""Serving models: how requests' latency answers to merge windows."""

from calibration.serving.cells import isolated_costs, requests_per_cell, start_costs
from calibration.serving.closed_loop import ClosedLoop
from calibration.serving.concurrency import BurstSchedule
from calibration.serving.contract import (
    Excess,
    Requests,
    Served,
    ServingModel,
    Windows,
    excess_violation,
    requests_of,
    windows_of,
)
from calibration.serving.overlap import Overlap
from calibration.serving.queue import Queue
from calibration.serving.registry import MODELS, serving_model

__all__ = [
    "MODELS",
    "BurstSchedule",
    "ClosedLoop",
    "Excess",
    "Overlap",
    "Queue",
    "Requests",
    "Served",
    "ServingModel",
    "Windows",
    "excess_violation",
    "isolated_costs",
    "requests_of",
    "requests_per_cell",
    "serving_model",
    "start_costs",
    "windows_of",
]
