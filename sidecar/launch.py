"""Starts a real vLLM server with a tiny model on loopback, and ends it with all it started."""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from sidecar import keeper
from sidecar.direct import answer_of
from sidecar.model import write_tiny_model
from slackwater.broker import free_port
from slackwater.errors import InputError, SlackwaterError
from slackwater.testbed.parts import describe_exit, last_lines

PYTHON = Path(__file__).resolve().parents[1] / ".venv-vllm" / "bin" / "python"
START_TIMEOUT_S = 600.0
STOP_TIMEOUT_S = 60.0
POLL_S = 0.25
MODEL = "tiny"

ARGUMENTS = (
    "--load-format", "dummy", "--skip-tokenizer-init", "--max-model-len", "512",
    "--max-num-seqs", "16", "--no-enable-prefix-caching", "--dtype", "bfloat16", "--enforce-eager",
)  # fmt: skip
# One core for the model; nothing is asked of a network, and nothing is reported to anybody.
ENVIRONMENT = {
    "VLLM_CPU_OMP_THREADS_BIND": "0",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}


class ServerError(SlackwaterError):
    """The vLLM server did not start, or ended by itself."""


class LaunchedVllm:
    """Context manager around one vLLM server, which dies with the process that started it.

        with LaunchedVllm(log=Path("vllm.log")) as server:
            post(f"{server.base_url}/v1/completions", {"model": server.model, ...})

    Args:
        python: the interpreter of the environment that has vLLM.
        log: where the server's output goes.
        env: variables for the server beside this process's own; None takes one away.
        arguments: further arguments of vLLM's OpenAI-compatible server.
        progress: called about once a second while the server starts, with seconds so far.
        start_timeout_s: how long it may take to answer; 22 to 48 s were measured on two
            cores of their own.

    Attributes:
        base_url: `http://127.0.0.1:PORT`.
        model: the name to ask for.
        log: as given.
    """

    def __init__(
        self,
        python: Path = PYTHON,
        *,
        log: Path,
        env: Mapping[str, str | None] | None = None,
        arguments: Sequence[str] = (),
        progress: Callable[[float], None] | None = None,
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        self._python = python
        self.log = log
        self._env = dict(env or {})
        self._arguments = tuple(arguments)
        self._progress = progress
        self._start_timeout_s = start_timeout_s
        self._port = free_port()
        self._stack = contextlib.ExitStack()
        self._keeper: subprocess.Popen[bytes] | None = None
        self.base_url = f"http://127.0.0.1:{self._port}"
        self.model = MODEL

    def start(self) -> "LaunchedVllm":
        """Start the server and wait until it answers.

        Raises `InputError` when there is no vLLM, `ServerError` with its last words when it ends
        or does not answer in time.
        """
        if not self._python.exists():
            msg = f"no vLLM at {self._python}; `make vllm` in a checkout installs one (3.4 GB)"
            raise InputError(msg)
        with self._stack:
            folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
            self._keeper = self._spawn(write_tiny_model(folder / MODEL))
            self._stack.callback(self._end, self._keeper)
            self._wait_until_healthy(self._keeper)
            self._stack = self._stack.pop_all()
        return self

    def stop(self) -> None:
        """Ask the server to end, then kill all that is left of it."""
        self._stack.close()

    @property
    def running(self) -> bool:
        """True while its process lives, whether it answers or not."""
        return self._keeper is not None and self._keeper.poll() is None

    def healthy(self) -> bool:
        """True when the server answers `/health` within a second."""
        return answer_of(f"{self.base_url}/health", 1.0) is not None

    def _spawn(self, folder: Path) -> subprocess.Popen[bytes]:
        command = [str(self._python), "-m", "vllm.entrypoints.openai.api_server"]
        command += ["--host", "127.0.0.1", "--port", str(self._port)]
        command += ["--model", str(folder), "--served-model-name", MODEL]
        command += [*ARGUMENTS, *self._arguments]
        wanted = {**os.environ, **ENVIRONMENT, **self._env}
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", keeper.__name__, *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={name: value for name, value in wanted.items() if value is not None},
                start_new_session=True,
            )

    def _wait_until_healthy(self, process: subprocess.Popen[bytes]) -> None:
        began, said = time.monotonic(), 0.0
        while not self.healthy():
            so_far_s = time.monotonic() - began
            if process.poll() is not None:
                what = f"ended {describe_exit(process.returncode)} while it started"
                raise self._failure(what)
            if so_far_s > self._start_timeout_s:
                what = f"does not answer after {self._start_timeout_s:g} s"
                raise self._failure(what)
            if self._progress is not None and so_far_s - said >= 1:
                said = so_far_s
                self._progress(so_far_s)
            time.sleep(POLL_S)

    def _failure(self, what: str) -> ServerError:
        words = "\n".join(last_lines(self.log))
        if "No module named 'vllm'" in words:
            what += f": {self._python} has no vLLM; let `make vllm` end, or name another"
        return ServerError(f"the vLLM server {what}; its last words, from {self.log}:\n{words}")

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """SIGTERM to the server, by its keeper; then the keeper kills what is left."""
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_TIMEOUT_S)
        if process.stdin is not None:
            process.stdin.close()
        process.wait()

    def __enter__(self) -> "LaunchedVllm":
        return self.start()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
