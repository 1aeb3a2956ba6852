"""Live runs judged like evaluated ones: their real windows beside matched random schedules."""

from calibration.live.run import LiveRun
from calibration.live.score import Asked, LiveScored, score
from calibration.live.verdict import live_verdicts

__all__ = ["Asked", "LiveRun", "LiveScored", "live_verdicts", "score"]
