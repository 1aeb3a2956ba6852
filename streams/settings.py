"""Settings of the stream job, frozen and strict."""

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from controller.settings import ControllerSettings, NotNegative, Positive
from slackwater.policies import NO_POLICY
from slackwater.settings import RunSettings

Role = Literal["count", "decide", "log"]
ROLES: tuple[Role, ...] = ("count", "decide", "log")


class StreamSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one stream process does.

    Attributes:
        run: broker, topic prefix, run and merge group.
        controller: everything the decisions depend on.
        policy: the policy that commands merges; `none` where nobody does, without role `decide`.
        shadow: policies that decide beside it, for the log alone.
        roles: `count` requests into bins, `decide` on bins and reports, `log` to DuckDB.
        db: the run log, with role `log`.
        bin_s: width of a time bin, event time; a whole number of them makes a tick.
        lateness_s: how late an event may come, behind its sidecar's newest, and still count.
        silence_s: wall seconds after which a silent source is no longer waited for.
        skew_s: event time that a source may be behind the newest one and still be waited for.
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
    bin_s: Annotated[float, Meta(ge=0.01)] = 0.25
    lateness_s: NotNegative = 0.2
    silence_s: Positive = 2.0
    skew_s: Positive = 60.0
    expect_sidecars: Annotated[int, Meta(ge=0)] = 0
    commit_s: Positive = 0.25
    metrics_host: str = "127.0.0.1"
    metrics_port: Annotated[int, Meta(ge=0, le=65535)] | None = None
    offset_reset: Literal["earliest", "latest"] = "latest"
    run_info: dict[str, Any] = {}

    def __post_init__(self) -> None:
        bins = self.controller.tick_s / self.bin_s
        if abs(bins - round(bins)) > 1e-9 or round(bins) < 1:
            msg = (
                f"bin_s {self.bin_s} does not divide controller.tick_s {self.controller.tick_s}; "
                "a tick must be a whole number of bins"
            )
            raise ValueError(msg)
        if not self.roles:
            msg = f"roles is empty; give at least one of {', '.join(ROLES)}"
            raise ValueError(msg)
        if self.policy == NO_POLICY and "decide" in self.roles:
            msg = f"policy {NO_POLICY} decides nothing; give --roles count,log with it"
            raise ValueError(msg)
        named = (self.policy, *self.shadow)
        if len(set(named)) < len(named):
            msg = f"a policy is named twice among {', '.join(named)}; name each once"
            raise ValueError(msg)
        if self.controller.group != self.run.group:
            msg = f"controller.group is the run's group, {self.run.group!r}; set SLACKWATER_GROUP"
            raise ValueError(msg)
