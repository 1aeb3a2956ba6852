"""One run: the testbed's parts, with real requests to a real server in the place of its replay."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sidecar.load import Endpoint, Limits, Scheduled
from sidecar.trial.sending import SendingPart
from slackwater.settings import RunSettings
from slackwater.testbed.commands import GROUP
from slackwater.testbed.parts import Part
from slackwater.testbed.plan import Plan
from slackwater.testbed.run import LiveRun
from slackwater.testbed.snapshot import brief
from slackwater.testbed.status import Status
from slackwater.testbed.supervisor import Limits as Waits
from slackwater.testbed.watcher import Watcher
from slackwater.testbed.workdir import WorkDir

LOOK_S = 1.0
FRESH_S = 30.0


class ServedRun(LiveRun):
    """Broker, stream job, learners, and a load client. See `LiveRun`.

    Args:
        plan: what the stream job and the learners are told.
        info: kept in the run log with the run.
        work: its directory.
        show: told where it is.
        endpoint: the server.
        schedule: what is sent to it.
        limits: of the client.
    """

    limits = Waits(ready_s=180.0, settle_s=120.0, drain_s=120.0)

    def __init__(
        self,
        plan: Plan,
        info: dict[str, Any],
        work: WorkDir,
        show: Callable[[Status], None],
        *,
        endpoint: Endpoint,
        schedule: list[Scheduled],
        limits: Limits,
    ) -> None:
        super().__init__(plan, info, work, show)
        # The stream job shares its machine with the server: it is asked little, and seldom.
        self._watcher = Watcher(
            self._ask, plan.speed, self._hold_merges, take=brief, every_s=LOOK_S, fresh_s=FRESH_S
        )
        self._sending = (endpoint, schedule, limits)
        self._folder: Path = work.logs

    def _replay(self) -> Part:
        plan = self._plan
        settings = RunSettings(
            bootstrap=self._broker.bootstrap, prefix=plan.prefix, run_id=plan.run_id, group=GROUP
        )
        return SendingPart(*self._sending, settings, self._folder)
