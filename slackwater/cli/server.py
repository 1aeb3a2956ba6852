"""The server that is measured: one started here, or one that runs already."""

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from slackwater.errors import InputError, SlackwaterError
from slackwater.testbed.workdir import WorkDir

if TYPE_CHECKING:
    from sidecar.load import Endpoint
    from sidecar.server import Server

TINY_VOCABULARY = 4096
VLLM_LOG = "vllm.log"
API_KEY_ENV = "OPENAI_API_KEY"


def api_key() -> str | None:
    """The key that `OPENAI_API_KEY` holds; None without one."""
    return os.environ.get(API_KEY_ENV) or None


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """What a person said of the server; None where nothing was said.

    Attributes:
        launch_vllm: start one here.
        vllm_python: the interpreter that has vLLM.
        endpoint: the URL of one that runs.
        model: its model's name.
        vocabulary: token ids below this instead of words.
    """

    launch_vllm: bool
    vllm_python: Path | None
    endpoint: str | None
    model: str | None
    vocabulary: int | None

    @property
    def given(self) -> bool:
        """Whether there is a server at all."""
        return self.launch_vllm or self.endpoint is not None

    def check(self, *, needed: bool = True) -> None:
        """Raise `InputError` unless exactly one server is named, with what it needs and no more.

        None at all will do where none is `needed`.
        """
        if self.launch_vllm + (self.endpoint is not None) > 1 or (needed and not self.given):
            msg = "give --launch-vllm, or --endpoint URL --model NAME: one of the two"
            raise InputError(msg)
        if self.endpoint is not None and self.model is None:
            msg = f"--endpoint {self.endpoint} needs --model, the name that it gives its model"
            raise InputError(msg)
        unheeded = {
            "--vllm-python": None if self.launch_vllm else self.vllm_python,
            "--model": None if self.endpoint else self.model,
            "--vocabulary": None if self.endpoint else self.vocabulary,
        }
        if given := [name for name, value in unheeded.items() if value is not None]:
            whose = "--launch-vllm" if given == ["--vllm-python"] else "--endpoint"
            msg = f"{', '.join(given)} goes with {whose}, and there is none; leave it out"
            raise InputError(msg)


@contextlib.contextmanager
def working(parent: Path, prefix: str, say: Callable[[str], None]) -> Iterator[WorkDir]:
    """A folder for logs and checkpoints, gone at the end; when it fails, vLLM's log stays."""
    with WorkDir(parent, prefix) as work:
        try:
            yield work
        except SlackwaterError:
            if (log := work.logs / VLLM_LOG).exists():
                work.keep_logs = True
                say(f"what vLLM said is kept in {log}")
            raise


def server_of(asked: ServerOptions, endpoint: "Endpoint | None" = None) -> "Server":
    """What is kept of the server; its version too where `endpoint` says that it answers."""
    from sidecar.experiment.host import server_version
    from sidecar.launch import MODEL
    from sidecar.server import Server

    return Server(
        launched=asked.launch_vllm,
        model=asked.model or MODEL,
        vocabulary=TINY_VOCABULARY if asked.launch_vllm else asked.vocabulary,
        url=None if asked.launch_vllm else asked.endpoint,
        version=None if endpoint is None else server_version(endpoint.base),
    )


def endpoint_of(
    asked: ServerOptions, log: Path, stack: contextlib.ExitStack, say: Callable[[str], None]
) -> "Endpoint":
    """The endpoint, once it answers; a server started here ends with the stack.

    Raises `InputError` or `SlackwaterError` when it cannot be had.
    """
    from sidecar.load import VLLM_TOKENS, Endpoint, check_endpoint

    if asked.launch_vllm:
        from sidecar.launch import PYTHON, LaunchedVllm

        say("starting vLLM: up to a minute")
        server = stack.enter_context(
            LaunchedVllm(
                asked.vllm_python or PYTHON,
                log=log,
                progress=lambda so_far_s: say(f"starting vLLM: {so_far_s:.0f} s"),
            )
        )
        endpoint = Endpoint(
            url=server.base_url,
            model=server.model,
            vocabulary=TINY_VOCABULARY,
            extra=VLLM_TOKENS,
        )
    else:
        assert asked.endpoint is not None  # noqa: S101 - checked before
        assert asked.model is not None  # noqa: S101 - likewise
        extra = {} if asked.vocabulary is None else VLLM_TOKENS
        endpoint = Endpoint(
            url=asked.endpoint,
            model=asked.model,
            vocabulary=asked.vocabulary,
            extra=extra,
            api_key=api_key(),
        )
    check_endpoint(endpoint)
    return endpoint
