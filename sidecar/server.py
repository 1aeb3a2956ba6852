"""Which server was asked: kept with what was measured, so that two are not mixed unseen."""

from pathlib import Path

import msgspec

from slackwater.errors import InputError


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """A server as a record or a trial's log names it.

    Attributes:
        launched: by --launch-vllm; its URL is another each time.
        model: the name that it gives its model.
        vocabulary: prompts were token ids below this; None: words.
        url: of one that was not launched.
        version: of vLLM, where it says one.
    """

    launched: bool
    model: str
    vocabulary: int | None = None
    url: str | None = None
    version: str | None = None


def check_same(then: Server | None, now: Server, path: Path) -> None:
    """Raise `InputError` where what goes on at `path` would be of two servers in one.

    `then` is None in what a version wrote that did not keep it.
    """
    if then is None:
        return
    for name in ("launched", "model", "vocabulary"):
        if getattr(now, name) != getattr(then, name):
            msg = (
                f"--resume {path} was begun with {_words(then)}, and these options name "
                f"{_words(now)}; give those of then, or begin another"
            )
            raise InputError(msg)


def changed(then: Server | None, now: Server) -> str | None:
    """What a person should know of a server that is the same by name; None where nothing."""
    if then is None or (then.url, then.version) == (now.url, now.version):
        return None
    return (
        f"before, the server was {_words(then)}; now it is {_words(now)}: what is measured from "
        "here on goes with what was measured there"
    )


def _words(one: Server) -> str:
    where = "of --launch-vllm" if one.launched else f"at {one.url}"
    prompts = "words" if one.vocabulary is None else f"{one.vocabulary} token ids"
    version = "" if one.version is None else f", vLLM {one.version}"
    return f"{one.model} {where} with prompts of {prompts}{version}"
