"""A thread that keeps up one session with the broker after another, whatever the broker does.

Broker away at the start, in the middle or for good: the thread tries again until it is told to
stop, and says once that it lost the broker and once that it found it.
"""

import logging
import threading
import time

from kafka.errors import KafkaError

from slackwater.errors import BrokerError

RETRY_S = 0.5
SAY_AGAIN_S = 60.0
"""From one time that a fault is said, with its traceback, to the next of the same kind."""


class Sessions(threading.Thread):
    """Runs `session` again and again; a daemon, so it holds no process up.

    Args:
        name: the thread's name.
        where: the broker's address, for what is said.
        log: where the broker's comings and goings are said.
        meanwhile: what goes on without the broker, as in "training goes on".
        retry_s: seconds of wall time between two sessions.

    Attributes:
        connected: True while the broker answers.
    """

    def __init__(
        self, name: str, where: str, log: logging.Logger, meanwhile: str, retry_s: float = RETRY_S
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._where = where
        self._log = log
        self._meanwhile = meanwhile
        self._retry_s = retry_s
        self._stopping = threading.Event()
        self._told: bool | None = None
        self._fault: tuple[type[Exception], float] | None = None
        self.connected = False

    def stop(self, timeout_s: float) -> None:
        """Send what is left, close, and end the thread; gives up after `timeout_s`."""
        self._stopping.set()
        self.join(timeout_s)

    def run(self) -> None:
        """One session with the broker after another, until `stop`."""
        while not self._stopping.is_set():
            try:
                self.session()
            except (BrokerError, KafkaError, OSError) as error:
                self.say_connected(False, str(error))
            except Exception as error:
                # Whatever goes wrong here must not end reporting for the rest of the run.
                self._say_fault(error)
                self.say_connected(False, "see above")
            self._stopping.wait(self._retry_s)

    def session(self) -> None:
        """Connect, call `say_connected`, serve until `stop`; raises when the broker is away."""
        raise NotImplementedError

    def _say_fault(self, error: Exception) -> None:
        """Say what is no fault of the broker's: one that comes again and again, once a minute."""
        now_s = time.monotonic()
        if self._fault is not None:
            kind, said_at_s = self._fault
            if kind is type(error) and now_s - said_at_s < SAY_AGAIN_S:
                return
        self._fault = type(error), now_s
        self._log.exception("the link to Kafka failed; it starts again")

    def say_connected(self, connected: bool, why: str = "") -> None:
        """Note whether the broker answers, and say so when that has changed."""
        self.connected = connected
        if connected is self._told:
            return
        self._told = connected
        if connected:
            self._log.info("reports to %s", self._where)
        else:
            self._log.warning(
                "broker %s is away (%s); %s without it", self._where, why, self._meanwhile
            )
