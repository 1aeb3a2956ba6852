"""How much each learner's pseudo-gradient counts, from the cards that all of them see."""

from collections.abc import Sequence

from trainer.cards import Card


def shares(cards: Sequence[Card], half_life_merges: float = 1.0) -> list[float]:
    """The weight of each card's learner in the mean; they sum to 1, in the order of the cards.

        share_i = t_i f_i / sum_j t_j f_j,    f_i = 2^(-a_i / half_life_merges)

    t is the tokens a learner has trained on since its last merge, a how many merges fewer than the
    foremost it has taken part in. A contribution that is not finite has the share 0. Equal tokens
    and epochs give the plain mean; so does a group in which none has reported tokens. 0 for all
    when no contribution is finite.
    """
    foremost = max(card.epoch for card in cards)
    counted = any(card.tokens for card in cards if card.finite)
    raw = [
        (card.tokens if counted else 1) * 2.0 ** ((card.epoch - foremost) / half_life_merges)
        if card.finite
        else 0.0
        for card in cards
    ]
    total = sum(raw)
    return [one / total if total else 0.0 for one in raw]
