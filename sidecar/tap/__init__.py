"""A reverse proxy that streams through and says what it saw, for servers that take no plugin."""

from sidecar.tap.proxy import Tap
from sidecar.tap.settings import TapSettings

__all__ = ["Tap", "TapSettings"]
