"""DiLoCo around a loop: torchft's steps, any module, merges behind the steps, bad values."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from bench.pupil import merge
from slackwater.attach import Attachment, Corridor
from slackwater.clock import RunClock
from slackwater.errors import InputError
from slackwater.events import Finished, Skipped
from slackwater.settings import RunSettings
from trainer.cards import Solo
from trainer.diloco import DiLoCo
from trainer.outer import OuterState

InGroup = Callable[..., list[Any]]
GOLDEN = json.loads((Path(__file__).parent / "data" / "torchft_golden.json").read_text())
NAMES = ["learner-0", "learner-1"]


def attached(rank: int, max_gap_steps: int, min_gap_steps: int = 1) -> Attachment:
    """Without a broker: H_max alone merges."""
    settings, corridor = (
        RunSettings(bootstrap="127.0.0.1:9"),
        Corridor(min_gap_steps, max_gap_steps),
    )
    return Attachment(settings, NAMES[rank], NAMES, corridor, RunClock.real())


def reports(attachment: Attachment, kind: type) -> list[Any]:
    return [event for _, event in attachment._outbox.take(1000) if isinstance(event, kind)]


def gradient(size: int, step: int, rank: int) -> torch.Tensor:
    """As in data/torchft_golden.py."""
    values = [math.sin(0.37 * i + 1.3 * step + 2.1 * rank) for i in range(size)]
    return torch.tensor(values, dtype=torch.float64).float()


def golden_model() -> nn.Module:
    layers = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 2))
    values = torch.tensor([math.cos(0.9 * i) for i in range(37)], dtype=torch.float64).float()
    nn.utils.vector_to_parameters(values, layers.parameters())
    return layers


def set_gradients(layers: nn.Module, values: torch.Tensor) -> None:
    start = 0
    for p in layers.parameters():
        p.grad = values[start : start + p.numel()].view_as(p).clone()
        start += p.numel()


@pytest.mark.parametrize("tokens", [(0, 0), (64, 64)])
def test_20_merges_are_torchfts_to_1e_6(in_group: InGroup, tokens: tuple[int, int]) -> None:
    def role(rank: int) -> Callable[[Any], list[torch.Tensor]]:
        def run(group: Any) -> list[torch.Tensor]:
            layers, every = golden_model(), GOLDEN["sync_every"]
            inner = torch.optim.SGD(layers.parameters(), lr=GOLDEN["inner_lr"])
            found = []
            with DiLoCo(layers, inner, attached(rank, every), group) as diloco:
                for step in range(1, 20 * every + 1):
                    set_gradients(layers, gradient(37, step, rank))
                    diloco.report(tokens=tokens[rank])
                    inner.step()
                    if step % every == 0:
                        found.append(nn.utils.parameters_to_vector(layers.parameters()).detach())
            assert diloco.counts.forced == 20
            return found

        return run

    assert (GOLDEN["learners"], len(GOLDEN["weights"])) == (2, 20)
    for found in in_group([role(0), role(1)]):
        torch.testing.assert_close(
            torch.stack(found), torch.tensor(GOLDEN["weights"]), atol=1e-6, rtol=0
        )


def test_the_merge_of_the_quality_study_is_torchfts_to_1e_6() -> None:
    learners = [golden_model() for _ in range(2)]
    inner = [torch.optim.SGD(one.parameters(), lr=GOLDEN["inner_lr"]) for one in learners]
    outers = [OuterState(*one.parameters()) for one in learners]
    for merges, weights in enumerate(GOLDEN["weights"]):
        for step in range(GOLDEN["sync_every"]):
            done = merges * GOLDEN["sync_every"] + step
            for rank, one in enumerate(learners):
                set_gradients(one, gradient(37, done + 1, rank))
                inner[rank].step()
        merge(outers)
        for outer in outers:
            torch.testing.assert_close(outer.local, torch.tensor(weights), atol=1e-6, rtol=0)


class Odd(nn.Module):
    """Mixed types, a tied layer, a frozen one and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Embedding(7, 4)
        self.norm = nn.BatchNorm1d(4)
        self.middle = nn.Linear(4, 4).bfloat16()
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.leave = nn.Linear(4, 7, bias=False)
        self.leave.weight = self.enter.weight

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.frozen(self.norm(self.enter(words)))
        found: torch.Tensor = self.leave(self.middle(x.bfloat16()).float())
        return found


def odd_step(model: Odd, optimizer: torch.optim.Optimizer, generator: torch.Generator) -> None:
    words = torch.randint(7, (16,), generator=generator)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(words), (words + 1) % 7)
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()


@pytest.mark.parametrize("compression", ["none", "bf16", "int8"])
def test_any_module_merges_what_it_trains_and_keeps_the_rest(
    in_group: InGroup, compression: Any
) -> None:
    torch.manual_seed(1)
    start = Odd().state_dict()

    def role(rank: int) -> Callable[[Any], Any]:
        def run(group: Any) -> Any:
            model = Odd()
            model.load_state_dict(start)
            model.leave.weight = model.enter.weight
            optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
            with DiLoCo(
                model, optimizer, attached(rank, 5), group, compression=compression
            ) as diloco:
                for _ in range(15):
                    odd_step(model, optimizer, torch.Generator().manual_seed(rank))
            return model, diloco

        return run

    (one, first), (other, second) = in_group([role(0), role(1)])
    # 28 of the embedding, once, 8 of the norm, 20 of the middle.
    assert first.outer.parameters == 56
    assert first.outer.digest() == second.outer.digest()
    assert one.leave.weight is one.enter.weight
    for name, parameter in one.named_parameters():
        assert torch.equal(parameter, other.get_parameter(name))
        assert parameter.dtype is start[name].dtype
    assert torch.equal(one.frozen.weight, start["frozen.weight"])
    assert not torch.equal(one.enter.weight, start["enter.weight"])
    assert not torch.equal(one.norm.running_mean, other.norm.running_mean)


def linear(rank: int) -> tuple[nn.Linear, torch.optim.Optimizer]:
    """Its weights are not drawn: all threads of a test draw from one generator."""
    layer = nn.Linear(3, 2)
    nn.utils.vector_to_parameters(gradient(8, 0, 0), layer.parameters())
    return layer, torch.optim.Adam(layer.parameters(), lr=0.1 * (rank + 1))


def train(layer: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    set_gradients(layer, gradient(8, step, 0))
    optimizer.step()


def test_an_exchange_behind_the_steps_ends_at_its_delay_and_all_hold_the_same(
    in_group: InGroup,
) -> None:
    def role(rank: int) -> Callable[[Any], Any]:
        def run(group: Any) -> Any:
            layer, optimizer = linear(rank)
            attachment = attached(rank, 10, 5)
            digests = [""]
            with DiLoCo(
                layer, optimizer, attachment, group, fragments=2, fragment_sync_delay=3
            ) as diloco:
                for step in range(1, 42):
                    train(layer, optimizer, step)
                    digests.append(diloco.outer.digest())
            changed = [n for n in range(2, 42) if digests[n] != digests[n - 1]]
            return diloco, changed, reports(attachment, Finished)

        return run

    (first, changed, said), (second, *_) = in_group([role(0), role(1)])
    assert first.outer.digest() == second.outer.digest()
    assert changed == [13, 23, 33]
    # The one of step 40 was ended on leaving.
    assert [event.step for event in said] == [10, 20, 30, 40]
    for number, event in enumerate(said):
        assert f"fragment {number % 2 + 1} of 2; exchanged behind inner steps" in event.reason
        assert event.bytes_exchanged == 4 * 4


def test_who_brings_nan_starts_its_inner_optimiser_afresh(in_group: InGroup) -> None:
    def role(rank: int) -> Callable[[Any], Any]:
        def run(group: Any) -> Any:
            layer, optimizer = linear(rank)
            attachment = attached(rank, 5)
            with DiLoCo(layer, optimizer, attachment, group, fragments=2) as diloco:
                for step in range(1, 6):
                    if rank == 1 and step == 4:
                        with torch.no_grad():
                            layer.weight[0, 0] = float("nan")
                    train(layer, optimizer, step)
            return layer, optimizer, diloco, reports(attachment, Finished)

        return run

    (_, healthy, *_), (layer, healed, diloco, (said,)) = in_group([role(0), role(1)])
    assert len(healthy.state) == 2
    assert len(healed.state) == 0
    assert healed.param_groups[0]["lr"] == 0.2
    assert diloco.counts.contributions_refused == 1
    assert "1 contributions not finite" in said.reason
    assert bool(nn.utils.parameters_to_vector(layer.parameters()).isfinite().all())
    train(layer, healed, 6)
    assert len(healed.state) == 2


def test_what_would_never_merge_is_refused_or_said(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    layer, optimizer = linear(0)
    diloco = DiLoCo(layer, optimizer, attached(0, 10), Solo(), checkpoint=str(tmp_path / "c"))
    with pytest.raises(InputError, match="has not been entered"):
        diloco.report(loss=0.5)
    with diloco:
        assert "its Attachment has not been entered" in caplog.text
        diloco.save(str(tmp_path / "s"))
        with pytest.raises(InputError, match="call it before"):
            diloco.load(str(tmp_path / "s"))


def test_loss_and_tokens_reach_the_log_and_are_not_said_twice() -> None:
    layer, optimizer = linear(0)
    attachment = attached(0, 10)
    with DiLoCo(layer, optimizer, attachment, Solo()) as diloco:
        diloco.report(loss=torch.tensor(0.5), tokens=7, network_pressure=0.25)
        with pytest.raises(InputError, match="tokens is -1"):
            diloco.report(tokens=-1)
        train(layer, optimizer, 1)
        train(layer, optimizer, 2)
    train(layer, optimizer, 3)
    first, second = reports(attachment, object)
    assert (first.step, first.loss, first.tokens, first.network_pressure) == (1, 0.5, 7, 0.25)
    assert (second.step, second.loss, second.tokens) == (2, None, 0)
    assert diloco.steps == 2


def test_a_learner_that_is_alone_with_lr_1_and_no_momentum_loses_nothing() -> None:
    layers = [linear(0), linear(0)]
    attachment = attached(0, 5)
    layer, optimizer = layers[0]
    with DiLoCo(layer, optimizer, attachment, Solo(), outer_lr=1.0, outer_momentum=0.0) as diloco:
        for step in range(1, 6):
            for one in layers:
                train(*one, step)
    merged, plain = (nn.utils.parameters_to_vector(one.parameters()) for one, _ in layers)
    torch.testing.assert_close(merged, plain, atol=1e-6, rtol=0)
    assert torch.equal(diloco.outer.weights, merged)
    assert len(reports(attachment, Finished)) == 1
    assert not reports(attachment, Skipped)


class Unsaved:
    """A part of a checkpoint that cannot be had."""

    def state_dict(self) -> dict[str, Any]:
        msg = "no state"
        raise LookupError(msg)

    def load_state_dict(self, state: Any) -> None:
        raise NotImplementedError


def test_a_merge_that_cannot_be_saved_is_reported_all_the_same(tmp_path: Path) -> None:
    layer, optimizer = linear(0)
    attachment = attached(0, 5)
    with DiLoCo(
        layer,
        optimizer,
        attachment,
        Solo(),
        checkpoint=tmp_path / "a.safetensors",
        stateful={"data": Unsaved()},
    ) as diloco:
        for step in range(1, 11):
            if step % 5:
                train(layer, optimizer, step)
            else:
                with pytest.raises(LookupError, match="no state"):
                    train(layer, optimizer, step)
    said = reports(attachment, Finished)
    assert [event.step for event in said] == [5, 10]
    assert said[0].reason.endswith("; no checkpoint: it could not be written")
    assert (diloco.epoch, attachment._protocol.epoch) == (2, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fragment_sync_delay": 5}, "fragment_sync_delay is 5; it must be 0 to 4"),
        ({"fragment_sync_delay": -1}, "fragment_sync_delay is -1"),
        ({"fragment_update_alpha": 1.0}, "fragment_update_alpha is 1"),
        ({"fragments": 9}, "fragments is 9; it must be 1 to 8"),
        ({"compression": "zip"}, "compression is 'zip'"),
    ],
)
def test_what_cannot_be_is_refused_before_the_first_step(
    options: dict[str, Any], message: str
) -> None:
    layer, optimizer = linear(0)
    with pytest.raises(InputError, match=message):
        DiLoCo(layer, optimizer, attached(0, 10, 5), Solo(), **options)
