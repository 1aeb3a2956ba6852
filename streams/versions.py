"""Versions of what made a run, for its row in the run log."""

import platform
from importlib.metadata import PackageNotFoundError, version

from slackwater import __version__

PACKAGES = ("faust-streaming", "aiokafka", "kafka-python", "duckdb", "pyarrow", "msgspec", "numpy")


def versions() -> dict[str, str]:
    """Name to version: Slackwater, Python, the platform and the libraries that shape a run."""
    found = {
        "slackwater": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
    }
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
