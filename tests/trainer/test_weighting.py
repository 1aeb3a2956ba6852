"""Shares of the learners in the mean."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import InputError
from trainer.cards import Card
from trainer.weighting import shares, whole_tokens


def card(tokens: int | None, *, finite: bool = True) -> Card:
    return Card(merge_id="m", step=1, epoch=5, phase="begin", tokens=tokens, finite=finite)


def test_equal_tokens_are_the_plain_mean_and_so_are_none() -> None:
    for tokens in (0, 1, 12_345):
        assert shares([card(tokens)] * 3) == [1 / 3] * 3


def test_who_trained_on_more_tokens_counts_for_more() -> None:
    assert shares([card(300), card(100)]) == [0.75, 0.25]
    assert shares([card(300), card(0)]) == [1.0, 0.0]


def test_tokens_that_are_unknown_are_not_none_but_make_a_plain_mean() -> None:
    assert shares([card(300), card(None)]) == [0.5, 0.5]
    assert shares([card(None), card(None)]) == [0.5, 0.5]
    assert shares([card(300), card(100), card(None, finite=False)]) == [0.75, 0.25, 0.0]


def test_what_is_not_finite_has_no_share_nor_say_in_who_counts_tokens() -> None:
    assert shares([card(0), card(7, finite=False), card(0)]) == [0.5, 0.0, 0.5]
    assert shares([card(1, finite=False)]) == [0.0]


def test_tokens_that_cannot_be_are_unknown_whoever_sent_them() -> None:
    for impossible in (-8, -1, 2**53, 10**400):
        assert shares([card(impossible), card(9)]) == [0.5, 0.5]
    assert shares([card(-8), card(8), card(4)]) == [1 / 3] * 3
    assert shares([card(2**53 - 1), card(0)]) == [1.0, 0.0]


def test_tokens_are_any_integer_of_a_loop() -> None:
    for seven in (7, np.int64(7), np.array(7), torch.tensor(7)):
        assert whole_tokens(seven) == 7
    assert whole_tokens(0) == 0
    assert whole_tokens(None) is None


@pytest.mark.parametrize(
    "given",
    [-1, 2**53, 7.0, float("nan"), float("inf"), "7", torch.tensor(7.0), torch.ones(3).long()],
)
def test_tokens_of_a_loop_that_cannot_be_are_refused(given: object) -> None:
    with pytest.raises(InputError, match=r"tokens is .*; it must be an integer from 0 to below"):
        whole_tokens(given)  # type: ignore[arg-type]


cards = st.builds(card, st.none() | st.integers(0, 10**9), finite=st.booleans())


@given(st.lists(cards, min_size=1, max_size=8))
def test_shares_sum_to_1_when_anybody_contributes(found: list[Card]) -> None:
    total = sum(shares(found))
    assert total == pytest.approx(1.0 if any(one.finite for one in found) else 0.0)
