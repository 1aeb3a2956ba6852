"""How much each learner's pseudo-gradient counts, from the cards that all of them see."""

from collections.abc import Sequence

from trainer.cards import Card


def shares(cards: Sequence[Card]) -> list[float]:
    """The weight of each card's learner in the mean; they sum to 1, in the order of the cards.

        share_i = t_i / sum_j t_j

    t is the tokens a learner has trained on since its last merge. A contribution that is not
    finite has the share 0. Equal tokens give the plain mean; so does a group in which those of
    any learner are unknown, or none has trained on any. 0 for all when no contribution is finite.
    """
    finite = [card for card in cards if card.finite]
    weighed = all_known(cards) and any(card.tokens for card in finite)
    raw = [((card.tokens or 0) if weighed else 1) if card.finite else 0 for card in cards]
    total = sum(raw)
    return [one / total if total else 0.0 for one in raw]


def all_known(cards: Sequence[Card]) -> bool:
    """True when the tokens of all whose contribution is finite are known."""
    return all(card.tokens is not None for card in cards if card.finite)
