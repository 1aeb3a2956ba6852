"""What every process of a run shares: the broker, the names of topics, run and merge group."""

import os
from collections.abc import Mapping

import msgspec

from slackwater.errors import InputError
from slackwater.events import MAX_NAME

BOOTSTRAP_ENV = "KAFKA_BOOTSTRAP_SERVERS"
PREFIX_ENV = "SLACKWATER_TOPIC_PREFIX"
RUN_ID_ENV = "SLACKWATER_RUN_ID"
GROUP_ENV = "SLACKWATER_GROUP"
SIDECAR_ENV = "SLACKWATER_SIDECAR"


class RunSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings shared by all parts of one run.

    Attributes:
        bootstrap: Kafka bootstrap servers, `HOST:PORT[,HOST:PORT...]`.
        prefix: what topic names start with.
        run_id: carried by every event of the run.
        group: the merge group.
    """

    bootstrap: str
    prefix: str = "slackwater"
    run_id: str = "live"
    group: str = "default"

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ, **given: str | None) -> "RunSettings":
        """Explicit values first, then the environment, then the defaults.

        Raises `InputError` when no broker is named, its address is not HOST:PORT, or another value
        is no name that an event can carry.
        """
        names = {
            "bootstrap": BOOTSTRAP_ENV,
            "prefix": PREFIX_ENV,
            "run_id": RUN_ID_ENV,
            "group": GROUP_ENV,
        }
        values = {k: given.get(k) or env.get(v) for k, v in names.items()}
        found = {k: v for k, v in values.items() if v}
        if "bootstrap" not in found:
            msg = (
                f"no Kafka broker is named; set {BOOTSTRAP_ENV}=HOST:PORT, or give --kafka "
                'HOST:PORT to a command, RunSettings.from_env(bootstrap="HOST:PORT") in a program'
            )
            raise InputError(msg)
        for key in found.keys() - {"bootstrap"}:
            check_name(found[key], key if given.get(key) else names[key])
        return cls(**{**found, "bootstrap": check_bootstrap(found["bootstrap"])})


def check_name(text: str, what: str) -> str:
    """Return `text` when an event can carry it as a name; raises `InputError` otherwise.

    What is sent in spite of it reaches the broker, and no reader takes it.
    """
    if not 1 <= len(text) <= MAX_NAME:
        msg = f"{what} has {len(text)} characters; a name in events has 1 to {MAX_NAME}"
        raise InputError(msg)
    if text.encode(errors="replace").decode() != text:
        msg = f"{what} is {text!a}, which is no UTF-8 text; choose a name that is"
        raise InputError(msg)
    return text


def check_bootstrap(text: str) -> str:
    """Return `text` when it is HOST:PORT[,HOST:PORT...]; raises `InputError` otherwise."""
    for part in text.split(","):
        host, colon, port = part.strip().rpartition(":")
        if not (colon and host and port.isdigit() and 0 < int(port) < 65536):
            msg = (
                f"{part.strip()!r} is not a broker address; it must be HOST:PORT "
                "with a port from 1 to 65535, such as localhost:9092"
            )
            raise InputError(msg)
    return text
