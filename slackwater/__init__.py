"""Slackwater decides when DiLoCo learners may merge on hosts that also serve traffic.

This package is what a user installs to attach a trainer, or to send request events: event types,
topics, settings, the attach client and the command line. It imports neither Faust, DuckDB nor
torch.
"""

__version__ = "0.1.0"
