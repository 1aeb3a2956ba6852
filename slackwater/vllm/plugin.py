"""The class that vLLM loads: entry point `slackwater` of the group `vllm.stat_logger_plugins`.

vLLM ends when a stat logger raises, so nothing is raised here: a plugin that cannot work says so
once and does nothing. `record` is all that it needs to be called.
"""

import atexit
import logging
import os
import threading
from typing import Any

from vllm.v1.metrics.loggers import StatLoggerBase

from slackwater.settings import BOOTSTRAP_ENV, RunSettings
from slackwater.vllm.environment import source_of
from slackwater.vllm.reporter import Reporter
from slackwater.vllm.sender import Sender

# Below vLLM's own logger, so that its handlers and its format are used.
log = logging.getLogger("vllm.slackwater")

_starting = threading.Lock()
_senders: dict[RunSettings, Sender] = {}


class StatLogger(StatLoggerBase):  # type: ignore[misc]
    """Reports one engine's finished requests and load to Kafka."""

    def __init__(self, vllm_config: Any, engine_index: int = 0, *_args: Any, **_more: Any) -> None:
        self._reporter: Reporter | None = None
        if not os.environ.get(BOOTSTRAP_ENV):
            log.info("%s is not set: Slackwater reports nothing of this server", BOOTSTRAP_ENV)
            return
        try:
            self._reporter = _start(vllm_config, engine_index)
        except Exception as error:
            log.exception("Slackwater reports nothing of this server: %s", error)  # noqa: TRY401

    def record(
        self, scheduler_stats: Any = None, iteration_stats: Any = None, *_args: Any, **_more: Any
    ) -> None:
        """One iteration of the engine; on the API server's event loop."""
        if self._reporter is not None:
            self._reporter.record(scheduler_stats, iteration_stats)

    def log_engine_initialized(self, *_args: Any, **_more: Any) -> None:
        """Nothing: what there is to say was said at the start."""


def _start(vllm_config: Any, engine_index: int) -> Reporter:
    settings = RunSettings.from_env()
    reporter = Reporter(source_of(vllm_config, engine_index, settings))
    with _starting:
        sender = _senders.get(settings)
        if sender is None:
            sender = Sender(settings, log)
            sender.start()
            _senders[settings] = sender
            atexit.register(sender.close)
        reporter = sender.add(reporter)
    source = reporter.source
    log.info(
        "Slackwater reports sidecar %s of run %s to %s",
        source.sidecar, source.run_id, settings.bootstrap,
    )  # fmt: skip
    if source.shared:
        log.warning(
            "several API servers share this engine: each reports the requests that it served, and "
            "its load only while it is told; --api-server-count 1 gives the load of an idle one too"
        )
    return reporter
