"""How much each learner's pseudo-gradient counts, from the cards that all of them see."""

import operator
from collections.abc import Sequence
from typing import SupportsIndex

from slackwater.errors import InputError
from trainer.cards import Card

# Tokens are below it: the largest whole number up to which a float64 has every one.
TOKENS_END = 2**53


def shares(cards: Sequence[Card]) -> list[float]:
    """The weight of each card's learner in the mean; they sum to 1, in the order of the cards.

        share_i = t_i / sum_j t_j

    t is the tokens a learner has trained on since its last merge. A contribution that is not
    finite has the share 0. Equal tokens give the plain mean; so does a group in which those of
    any learner are unknown, or none has trained on any. 0 for all when no contribution is finite.
    Tokens that cannot be, such as fewer than 0, are unknown.
    """
    finite = [card for card in cards if card.finite]
    weighed = all_known(cards) and any(card.tokens for card in finite)
    raw = [((card.tokens or 0) if weighed else 1) if card.finite else 0 for card in cards]
    total = sum(raw)
    return [one / total if total else 0.0 for one in raw]


def all_known(cards: Sequence[Card]) -> bool:
    """True when the tokens of all whose contribution is finite are known."""
    return all(known(card.tokens) is not None for card in cards if card.finite)


def known(tokens: int | None) -> int | None:
    """The tokens, None when they are unknown or cannot be."""
    return tokens if tokens is not None and 0 <= tokens < TOKENS_END else None


def whole_tokens(given: SupportsIndex | None) -> int | None:
    """Tokens that a loop says: an integer, also of numpy or a tensor of one; None stays.

    Raises `InputError` for anything but a whole number from 0 to below 2**53.
    """
    if given is None:
        return None
    try:
        tokens = known(operator.index(given))
    except TypeError:
        tokens = None
    if tokens is None:
        msg = (
            f"tokens is {str(given)[:60]}; it must be an integer from 0 to below 2**53, or None "
            "when it is unknown: such as batch.numel()"
        )
        raise InputError(msg)
    return tokens
