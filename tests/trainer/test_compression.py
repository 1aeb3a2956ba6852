"""int8 and bfloat16 pseudo-gradients: what is lost, what is made up for, and equal sums."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import InputError
from trainer.cards import Card, Solo
from trainer.compress import BLOCK, from_int8, int8_bytes, to_int8
from trainer.exchange import Exchange
from trainer.group import GlooGroup


def normal(size: int, seed: int, scale: float = 1.0) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed)) * scale


def half_scales(vector: torch.Tensor) -> torch.Tensor:
    """The most that each element may be wrong by."""
    blocks = [part.abs().max().expand(len(part)) for part in vector.split(BLOCK)]
    return torch.cat(blocks) / 127 / 2


@given(size=st.integers(1, 3 * BLOCK + 1), seed=st.integers(0, 99), power=st.integers(-30, 30))
def test_no_element_is_wrong_by_more_than_half_its_blocks_scale(
    size: int, seed: int, power: int
) -> None:
    vector = normal(size, seed, 2.0**power)
    message = to_int8(vector)
    assert message.dtype is torch.uint8
    assert len(message) == int8_bytes(size)
    wrong = (from_int8(message, vector) - vector).abs()
    assert (wrong <= half_scales(vector) * (1 + 1e-5)).all()


def test_int8_is_a_quarter_of_float32_and_a_sixty_fourth_for_the_scales() -> None:
    assert int8_bytes(256 * 1000) / (4 * 256 * 1000) == 0.25 * (1 + 1 / 64)


def test_zeros_and_the_smallest_and_largest_values_stay_finite() -> None:
    for vector in (torch.zeros(300), torch.full((300,), 1e-45)):
        assert torch.equal(from_int8(to_int8(vector), vector), torch.zeros(300))
    largest = torch.full((300,), 1e38)
    torch.testing.assert_close(from_int8(to_int8(largest), largest), largest)


def test_error_feedback_says_in_the_end_all_but_the_last_rest() -> None:
    exchange, whole = Exchange("int8", torch.zeros(1000)), slice(0, 1000)
    said, meant = torch.zeros(1000), torch.zeros(1000)
    for merge in range(50):
        delta = normal(1000, merge)
        meant += delta
        sent = delta.clone()
        exchange.mean(sent, whole, [1.0], 0, Solo())
        exchange.commit()
        said += sent
        assert exchange.rest is not None
        # The rest never grows: it is the rounding of one message.
        assert (exchange.rest.abs() <= half_scales(sent) * 1.01).all()
    torch.testing.assert_close(said + exchange.rest, meant, atol=1e-4, rtol=0)


def test_a_merge_that_was_not_done_leaves_the_rest_as_it_was() -> None:
    exchange = Exchange("int8", torch.zeros(300))
    exchange.mean(normal(300, 1), slice(0, 300), [1.0], 0, Solo())
    assert torch.equal(exchange.state_dict()["rest"], torch.zeros(300))
    exchange.commit()
    again = Exchange("int8", torch.zeros(300))
    again.load_state_dict(exchange.state_dict())
    assert again.rest is not None
    assert again.rest.abs().max() > 0
    assert torch.equal(again.rest, exchange.state_dict()["rest"])


@pytest.mark.parametrize(
    ("compression", "size_bytes", "tolerance"),
    [("none", 4 * 1001, 1e-6), ("bf16", 2 * 1001, 2e-2), ("int8", 1001 + 4 * 4, 2e-2)],
)
def test_all_ranks_come_to_the_same_bits_near_the_weighted_mean(
    in_group: Callable[..., list[Any]], compression: Any, size_bytes: int, tolerance: float
) -> None:
    shares = [0.5, 0.3, 0.2]
    deltas = [normal(1001, rank) for rank in range(3)]

    def role(rank: int) -> Callable[[GlooGroup], Any]:
        def run(group: GlooGroup) -> Any:
            exchange, mine = Exchange(compression, torch.zeros(1001)), deltas[rank].clone()
            group.agree(Card(merge_id="m", step=1, epoch=0, phase="begin"), lambda: None)
            sent = exchange.mean(mine, slice(0, 1001), shares, rank, group)
            return sent, mine

        return run

    results = in_group([role(rank) for rank in range(3)])
    expected = sum(share * delta for share, delta in zip(shares, deltas, strict=True))
    for sent, mean in results:
        assert sent == size_bytes
        assert torch.equal(mean, results[0][1])
        torch.testing.assert_close(mean, expected, atol=tolerance, rtol=0)


@pytest.mark.parametrize("compression", ["none", "bf16", "int8"])
def test_a_share_of_0_adds_nothing_not_even_nan(
    in_group: Callable[..., list[Any]], compression: Any
) -> None:
    good, bad = torch.full((10,), 0.5), torch.full((10,), float("nan"))

    def role(rank: int) -> Callable[[GlooGroup], torch.Tensor]:
        def run(group: GlooGroup) -> torch.Tensor:
            mine = (good, bad)[rank].clone()
            exchange = Exchange(compression, mine)
            if exchange.rest is not None:
                exchange.rest.zero_()
            group.agree(Card(merge_id="m", step=1, epoch=0, phase="begin"), lambda: None)
            exchange.mean(mine, slice(0, 10), [1.0, 0.0], rank, group)
            exchange.commit()
            assert exchange.rest is None or bool(exchange.rest.isfinite().all())
            return mine

        return run

    for mean in in_group([role(0), role(1)]):
        torch.testing.assert_close(mean, good)


def test_an_unknown_compression_is_refused_with_those_there_are() -> None:
    with pytest.raises(InputError, match="'int4'; it must be one of none, bf16, int8"):
        Exchange("int4", torch.zeros(1))  # type: ignore[arg-type]
