"""Attach a running trainer to its merge group: kafka-python and msgspec, no torch."""

from slackwater.attach.client import Attachment, AttachSummary
from slackwater.attach.orders import MergeOrder
from slackwater.attach.pressure import HostPressure
from slackwater.corridor import Corridor
from slackwater.events import H_MAX

__all__ = ["H_MAX", "AttachSummary", "Attachment", "Corridor", "HostPressure", "MergeOrder"]
