"""Which request is to arrive when, and how much it asks for: a trace as a schedule."""

from collections.abc import Iterator

import msgspec

from replay_producer.trace import Trace
from slackwater.errors import InputError

DEFAULT_PROMPT_TOKENS = 64
DEFAULT_OUTPUT_TOKENS = 16


class Scheduled(msgspec.Struct, frozen=True):
    """One request to send.

    Attributes:
        id: unique within one run of a client.
        after_us: microseconds from the client's start to its arrival.
        prompt_tokens: tokens in, 1 or more.
        output_tokens: tokens out at the most, 1 or more.
        batch: number of its closed-loop batch; None in an open loop.
        tenant: whom it is for, where known.
    """

    id: str
    after_us: int
    prompt_tokens: int = DEFAULT_PROMPT_TOKENS
    output_tokens: int = DEFAULT_OUTPUT_TOKENS
    batch: int | None = None
    tenant: str | None = None


class Lengths(msgspec.Struct, frozen=True, kw_only=True):
    """How long requests are, where the trace is not to be followed.

    Attributes:
        prompt_tokens: of every request; None as the trace says, 64 where it does not.
        output_tokens: of every request; None as the trace says, 16 where it does not.
        most_prompt_tokens: longer ones are cut to this.
        most_output_tokens: longer ones are cut to this.
    """

    prompt_tokens: int | None = None
    output_tokens: int | None = None
    most_prompt_tokens: int | None = None
    most_output_tokens: int | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None and value < 1:
                msg = f"{name} is {value}; a request needs 1 token or more, in and out"
                raise InputError(msg)

    def prompt(self, recorded: int) -> int:
        """Tokens in of a request that is recorded with so many (-1: unknown)."""
        return _length(recorded, self.prompt_tokens, self.most_prompt_tokens, DEFAULT_PROMPT_TOKENS)

    def output(self, recorded: int) -> int:
        """Tokens out of a request that is recorded with so many (-1: unknown)."""
        return _length(recorded, self.output_tokens, self.most_output_tokens, DEFAULT_OUTPUT_TOKENS)


def _length(recorded: int, fixed: int | None, most: int | None, default: int) -> int:
    wanted = fixed if fixed is not None else (recorded if recorded >= 0 else default)
    return max(1, wanted if most is None else min(wanted, most))


def scheduled(
    trace: Trace,
    lengths: Lengths = Lengths(),  # noqa: B008 - frozen
    speed: float = 1.0,
) -> Iterator[Scheduled]:
    """The requests of a trace in order of arrival; `speed` seconds of it pass in one second."""
    columns = (trace.arrival_us, trace.prompt_tokens, trace.output_tokens, trace.tenant)
    for i, (arrival_us, prompt, output, tenant) in enumerate(zip(*columns, strict=True)):
        yield Scheduled(
            f"r{i}",
            round(int(arrival_us) / speed),
            lengths.prompt(int(prompt)),
            lengths.output(int(output)),
            tenant=tenant,
        )
