"""How many requests a second a server answers one at a time: what a load is a share of."""

from collections.abc import Callable

from sidecar.load.batches import Bursts
from sidecar.load.endpoint import Endpoint
from sidecar.load.open_loop import Limits
from sidecar.load.outcome import Outcome
from sidecar.load.thread import start_closed_loop
from slackwater.clock import US_PER_S
from slackwater.errors import SlackwaterError

LEAST = 5
WAIT_S = 0.1
ONE = 1


def answers_alone_per_s(
    endpoint: Endpoint,
    *,
    prompt_tokens: int,
    output_tokens: int,
    check: Callable[[], None],
    limits: Limits = Limits(),  # noqa: B008 - frozen
    warm_up_s: float = 3.0,
    measured_s: float = 6.0,
) -> float:
    """Requests answered a second by a server that has one at a time: the inverse of its mean time.

    Those sent in the first `warm_up_s` are left out. `check` is called ten times a second; what it
    raises ends the client and is raised.

    Raises `SlackwaterError` when fewer than five were answered afterwards, or any was not.
    """
    outcomes: list[Outcome] = []
    load = start_closed_loop(
        endpoint,
        Bursts(quiet=ONE, busy=ONE, prompt_tokens=prompt_tokens, output_tokens=output_tokens),
        duration_s=warm_up_s + measured_s,
        on_outcome=outcomes.append,
        limits=limits,
    )
    try:
        while load.is_alive():
            check()
            load.join(WAIT_S)
    except BaseException:
        load.abort()
        raise
    settled_us = load.result().started_us + round(warm_up_s * US_PER_S)
    return _per_s([one for one in outcomes if one.scheduled_us >= settled_us], measured_s)


def _per_s(outcomes: list[Outcome], measured_s: float) -> float:
    wrong = [one.error or one.status for one in outcomes if one.status != "ok"]
    if wrong or len(outcomes) < LEAST:
        what = f"one of them was not: {wrong[0]}" if wrong else f"it takes {LEAST}"
        if wrong and "okenizer" in wrong[0]:
            what += " (a vLLM without a tokenizer takes token ids: give --vocabulary N)"
        msg = (
            f"the server answered {len(outcomes) - len(wrong)} requests, one at a time, in "
            f"{measured_s:g} s, and {what}; look whether it is well, or give --rate"
        )
        raise SlackwaterError(msg)
    return len(outcomes) / sum(one.ended_us - one.scheduled_us for one in outcomes) * US_PER_S
