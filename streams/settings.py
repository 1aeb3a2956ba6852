"""Settings of the stream job, frozen and strict."""

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from controller.settings import ControllerSettings, NotNegative, Positive
from slackwater.settings import RunSettings

Role = Literal["count", "decide", "log"]
ROLES: tuple[Role, ...] = ("count", "decide", "log")


class StreamSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one stream process does.

    Attributes:
        run: broker, topic prefix, run and merge group.
        controller: everything the decisions depend on.
        policy: the policy that commands merges.
        shadow: policies that decide beside it, for the log alone.
        roles: `count` requests into bins, `decide` on bins and reports, `log` to DuckDB.
        db: the run log, with role `log`.
        bin_s: width of a time bin, event time; a whole number of them makes a tick.
        lateness_s: how late an event may come, behind its sidecar's newest, and still count.
        silence_s: wall seconds after which a silent source is no longer waited for.
        expect_sidecars: sidecars to wait for (up to `silence_s`) before the first decision.
        commit_s: wall seconds between two commits of the run log.
        metrics_port: Prometheus endpoint; None for none, 0 for any free port.
        offset_reset: where a new consumer group starts reading.
        run_info: what is known of the run besides, kept in the run log.
    """

    run: RunSettings
    controller: ControllerSettings = ControllerSettings()
    policy: str = "wa_forecast"
    shadow: tuple[str, ...] = ()
    roles: tuple[Role, ...] = ROLES
    db: Path | None = None
    bin_s: Positive = 0.25
    lateness_s: NotNegative = 0.2
    silence_s: Positive = 2.0
    expect_sidecars: Annotated[int, Meta(ge=0)] = 0
    commit_s: Positive = 0.25
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = None
    offset_reset: Literal["earliest", "latest"] = "latest"
    run_info: dict[str, Any] = {}
