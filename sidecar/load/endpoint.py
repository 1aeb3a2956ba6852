"""An OpenAI-compatible endpoint, and how a request to it is put."""

import random
from typing import Any, Literal

import msgspec

from sidecar.load.schedule import Scheduled
from sidecar.url import check_url
from slackwater.errors import InputError

VLLM_TOKENS: dict[str, Any] = {"detokenize": False, "ignore_eos": True}
"""What vLLM needs besides, to serve token-id prompts without a tokenizer to their full length."""

OURS = frozenset({"model", "stream", "prompt", "messages", "max_tokens", "n", "best_of"})
"""Fields of a request that its outcome rests on: one answer, streamed, as long as asked for."""

POOL = 1 << 14
OWN = 4
PATHS = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}
WORDS = ("slack", "water", "tide", "ship", "bar", "cross", "safe", "time", "way", "on")


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where requests go, and in which form.

    Attributes:
        url: `http://HOST:PORT` or `https://...`, with or without `/v1`.
        model: the name that the server gives its model.
        api: `completions`, or `chat` for `/v1/chat/completions`.
        vocabulary: prompts are token ids drawn from [0, vocabulary); None sends words.
        extra: further fields of every request's body, such as `VLLM_TOKENS`; none of `OURS`.
        api_key: sent as a bearer token; None sends none.
    """

    url: str
    model: str
    api: Literal["completions", "chat"] = "completions"
    vocabulary: int | None = None
    extra: dict[str, Any] = {}
    api_key: str | None = None

    def __post_init__(self) -> None:
        check_url(self.url, "endpoint")
        if self.vocabulary is not None and self.vocabulary < 1:
            msg = f"a vocabulary of {self.vocabulary} tokens has no ids; it must be 1 or more"
            raise InputError(msg)
        if self.vocabulary is not None and self.api == "chat":
            msg = "chat takes words, not token ids; leave the vocabulary or chat out"
            raise InputError(msg)
        ours = ", ".join(sorted(OURS & self.extra.keys()))
        if ours:
            msg = f"extra has {ours}: the client asks for one streamed answer itself; leave it out"
            raise InputError(msg)

    @property
    def base(self) -> str:
        """The URL without a `/v1` or slash at its end."""
        return self.url.rstrip("/").removesuffix("/v1")

    @property
    def target(self) -> str:
        """The URL that requests are posted to."""
        return self.base + PATHS[self.api]

    @property
    def headers(self) -> dict[str, str]:
        """Headers of every request."""
        known = {"Content-Type": "application/json"}
        return known | ({"Authorization": f"Bearer {self.api_key}"} if self.api_key else {})


class Composer:
    """Writes bodies of requests whose prompts differ from one another, at little cost.

    Prompts are a few random ids or words and then a stretch of one pool of them, begun at random,
    so that no cache of prefixes serves them. Equal seeds give equal prompts; None takes another one
    each time, for the next client must not send what this one has put into the server's cache.
    """

    def __init__(self, endpoint: Endpoint, seed: int | None = None) -> None:
        self._random = random.Random(seed)  # noqa: S311 - prompts, no secrets
        self._chat = endpoint.api == "chat"
        ids = endpoint.vocabulary
        self._source: Any = range(ids) if ids is not None else WORDS
        self._words = ids is None
        self._pool: list[Any] = self._random.choices(self._source, k=POOL)
        self._fixed = {
            "model": endpoint.model,
            "stream": True,
            "stream_options": {"include_usage": True},
            **endpoint.extra,
        }
        self._encode = msgspec.json.Encoder().encode

    def body(self, item: Scheduled) -> bytes:
        """The JSON of one request."""
        prompt = self._prompt(item.prompt_tokens)
        asked = (
            {"messages": [{"role": "user", "content": prompt}]}
            if self._chat
            else {"prompt": prompt}
        )
        return self._encode({**self._fixed, **asked, "max_tokens": item.output_tokens})

    def _prompt(self, length: int) -> Any:
        begin = self._random.randrange(POOL)
        # Starts in the pool alone would come again after some hundred prompts.
        own = self._random.choices(self._source, k=min(OWN, length))
        stretch = own + self._pool[begin : begin + length - len(own)]
        while len(stretch) < length:
            stretch += self._pool[: length - len(stretch)]
        return " ".join(stretch) if self._words else stretch
