"""What a completion's stream says: server-sent events, read chunk by chunk and never kept."""

from typing import Any, NamedTuple

import msgspec

DATA, DONE = b"data:", b"[DONE]"
MOST_LINE_BYTES = 1 << 20
MOST_TOKENS = 1 << 31
"""More than an answer can have; a sum of so many still fits what reads events and outcomes."""


class Usage(NamedTuple):
    """Token counts as the server made them; None where it did not, or made what is no count."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Counts(msgspec.Struct):
    prompt_tokens: Any = None
    completion_tokens: Any = None

    @property
    def usage(self) -> Usage:
        return Usage(_count(self.prompt_tokens), _count(self.completion_tokens))


def _count(value: Any) -> int | None:
    """A whole number from 0 to `MOST_TOKENS`, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value <= MOST_TOKENS and value == int(value) else None


class _Delta(msgspec.Struct):
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[Any] | None = None

    @property
    def says(self) -> bool:
        return bool(self.content or self.reasoning or self.reasoning_content or self.tool_calls)


class _Choice(msgspec.Struct):
    text: str | None = None
    delta: _Delta | None = None
    finish_reason: str | None = None
    index: Any = 0


class Answer(msgspec.Struct):
    """One chunk of a stream, or a whole answer that was not streamed."""

    id: str | None = None
    choices: list[_Choice] = []
    usage: _Counts | None = None
    error: msgspec.Raw = msgspec.Raw(b"null")


_decode = msgspec.json.Decoder(Answer).decode


class Reading:
    """What is known of one streamed answer so far; `feed` takes its bytes as they come.

    Attributes:
        id: the server's name for the request, None until it said it.
        begun: a token has come.
        done: the stream has said that it is complete.
        finish_reason: the last one said.
        usage: the last one said.
        error: JSON of an error said in the stream, as it was said.
        unreadable: data that were no chunks of a completion.
    """

    def __init__(self) -> None:
        self._rest = b""
        self.id: str | None = None
        self.begun = False
        self._choices: set[int] = set()
        self._ended: set[int] = set()
        self.done = False
        self.finish_reason: str | None = None
        self.usage: Usage | None = None
        self.error: str | None = None
        self.unreadable = 0

    def feed(self, chunk: bytes) -> None:
        """Read the lines that the chunk completes; a line of over 1 MiB counts as unreadable."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            if line.startswith(DATA):
                self._data(line[len(DATA) :].strip())
        if len(self._rest) > MOST_LINE_BYTES:
            self.unreadable += 1
            self._rest = b""

    def whole(self, body: bytes) -> None:
        """Read an answer that was not streamed."""
        self._data(body)

    @property
    def complete(self) -> bool:
        """The answer was said to the end: so much of it as has begun, where it has several."""
        return self.done or (self.finish_reason is not None and self._ended >= self._choices)

    def _data(self, data: bytes) -> None:
        if data == DONE:
            self.done = True
            return
        try:
            answer = _decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self.unreadable += 1
            return
        self.id = self.id or answer.id
        if answer.usage is not None:
            self.usage = answer.usage.usage
        error = bytes(answer.error)
        if error != b"null":
            self.error = error.decode(errors="replace")
        for choice in answer.choices:
            self._choice(choice)

    def _choice(self, choice: _Choice) -> None:
        index = choice.index if isinstance(choice.index, int) else 0
        self._choices.add(index)
        if choice.finish_reason:
            self._ended.add(index)
            self.finish_reason = choice.finish_reason
        # A chat stream opens with a role before there is a token. A completion that is not
        # detokenized says its tokens as empty text.
        says = choice.text is not None if choice.delta is None else choice.delta.says
        self.begun = self.begun or says
