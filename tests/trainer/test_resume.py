"""A learner that goes on from a checkpoint is, bit for bit, the one that never stopped."""

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from learners_in_threads import equal
from torch import nn

from slackwater.attach import Attachment, Corridor
from slackwater.clock import RunClock
from slackwater.errors import InputError
from slackwater.events import Finished, Step
from slackwater.settings import RunSettings
from trainer.cards import BEGIN, Card, MergeRefusedError, Solo
from trainer.checkpoint import CheckpointError
from trainer.diloco import DiLoCo
from trainer.peers import Peers
from trainer.roster import Member
from trainer.shared import Shared

STEPS = 37
GAP = 10


class Data:
    """Batches from a generator of its own, and a little noise from all the global ones."""

    def __init__(self) -> None:
        self._order = torch.Generator().manual_seed(3)

    def batch(self) -> torch.Tensor:
        noise = random.random() + np.random.random() + float(torch.rand(()))
        return torch.randn(8, 4, generator=self._order) + 0.01 * noise

    def state_dict(self) -> dict[str, Any]:
        return {"order": self._order.get_state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._order.set_state(state["order"])


class Run:
    """One learner; everything about it is made anew by each."""

    def __init__(
        self, checkpoint: Path | None = None, group: Solo | Peers | None = None, **options: Any
    ) -> None:
        torch.manual_seed(0)
        random.seed(0)
        np.random.seed(0)
        self.model = nn.Sequential(
            nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 1)
        )
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.02)
        self.schedule = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.97)
        self.data = Data()
        settings = RunSettings(bootstrap="127.0.0.1:9")
        self.attachment = Attachment(settings, "l", ["l"], Corridor(3, GAP), RunClock.real())
        self.diloco = DiLoCo(
            self.model,
            self.optimizer,
            self.attachment,
            group or Solo(),
            checkpoint=checkpoint,
            stateful={"data": self.data, "schedule": self.schedule},
            **options,
        )

    def train_to(self, last: int) -> "Run":
        with self.diloco:
            while self.diloco.steps < last:
                loss = self.model(self.data.batch()).square().mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.diloco.report(loss=loss, tokens=8)
                # Before the step: what a merge writes has it.
                self.schedule.step()
                self.optimizer.step()
        return self

    def everything(self) -> dict[str, Any]:
        return self.diloco.state_dict()


VARIANTS = [
    {},
    {"compression": "int8", "fragments": 3},
    {"fragment_sync_delay": 2, "fragment_update_alpha": 0.5, "outer_momentum": 0.0},
]


# The third variant has an exchange under way at steps 10, 11, 20 and 21.
@pytest.mark.parametrize(
    ("options", "stop"),
    [(VARIANTS[0], stop) for stop in (0, 10, 13, 36)]
    + [(VARIANTS[1], stop) for stop in (9, 10, 25)]
    + [(VARIANTS[2], stop) for stop in (9, 12, 25)],
)
@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler")
def test_saved_anywhere_and_resumed_it_is_the_run_that_never_stopped(
    tmp_path: Path, options: dict[str, Any], stop: int
) -> None:
    through = Run(**options).train_to(STEPS)
    first = Run(**options).train_to(stop)
    size = first.diloco.save(tmp_path / "l.safetensors")
    assert size == (tmp_path / "l.safetensors").stat().st_size
    # Other draws in between must not matter, as in a new process.
    again = Run(**options)
    torch.rand(7)
    again.diloco.load(tmp_path / "l.safetensors")
    again.train_to(STEPS)
    assert equal(again.everything(), through.everything())
    assert again.diloco.epoch == 3


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler")
def test_what_a_merge_wrote_is_the_run_that_never_stopped(tmp_path: Path) -> None:
    path = tmp_path / "l.safetensors"
    through = Run().train_to(STEPS)
    Run(checkpoint=path).train_to(27)
    again = Run()
    again.diloco.load(path)
    assert (again.diloco.steps, again.diloco.epoch) == (20, 2)
    assert equal(again.train_to(STEPS).everything(), through.everything())


class RefusedOnce(Solo):
    """The first merge finds the others away; `steps` are where the later ones begin."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        self._refused = False

    def agree(
        self,
        card: Card,
        cancelled: Callable[[], str | None],
        participants: Sequence[str] = (),
    ) -> list[Card]:
        if not self._refused:
            self._refused = True
            msg = "absent: the others are away"
            raise MergeRefusedError(msg)
        if card.phase == BEGIN:
            self.steps.append(card.step)
        return super().agree(card, cancelled, participants)


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler")
@pytest.mark.parametrize("options", [{}, {"fragment_sync_delay": 2}])
def test_what_a_merge_wrote_that_was_forced_a_second_time_merges_next_at_h_max(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    path = tmp_path / "l.safetensors"
    group = RefusedOnce()
    through = Run(group=group, **options).train_to(STEPS)
    # Refused at 10, the first is due again after H_min.
    assert group.steps == [13, 23, 33]
    Run(path, RefusedOnce(), **options).train_to(22)
    again = Run(**options)
    again.diloco.load(path)
    assert again.diloco.epoch == 1
    again.train_to(22)
    assert again.diloco.counts.forced == 0
    assert equal(again.train_to(STEPS).everything(), through.everything())


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler")
@pytest.mark.parametrize(
    ("options", "stop", "stood"),
    # The merge at 20 counts; one under way at 20 and 21 is waited for.
    [({}, 26, 24), ({}, 23, 20), (VARIANTS[1], 26, 24), (VARIANTS[2], 23, 22)],
)
def test_what_is_written_between_merges_is_the_run_that_never_stopped(
    tmp_path: Path, options: dict[str, Any], stop: int, stood: int
) -> None:
    path = tmp_path / "l.safetensors"
    through = Run(**options).train_to(STEPS)
    Run(checkpoint=path, checkpoint_every_steps=4, **options).train_to(stop)
    again = Run(**options)
    again.diloco.load(path)
    assert again.diloco.steps == stood
    assert equal(again.train_to(STEPS).everything(), through.everything())


def test_checkpoints_between_merges_need_a_number_and_a_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="checkpoint_every_steps is 0; it must be 1 or more"):
        Run(checkpoint=tmp_path / "l", checkpoint_every_steps=0)
    with pytest.raises(InputError, match="checkpoint_every_steps needs the checkpoint"):
        Run(checkpoint_every_steps=5)


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler")
def test_without_its_momentum_it_is_another_run(tmp_path: Path) -> None:
    """The comparison above can fail."""
    through = Run().train_to(STEPS)
    first = Run().train_to(13)
    assert first.diloco.outer.momentum is not None
    first.diloco.outer.momentum.zero_()
    first.diloco.save(tmp_path / "l.safetensors")
    again = Run()
    again.diloco.load(tmp_path / "l.safetensors")
    assert not equal(again.train_to(STEPS).everything(), through.everything())


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler")
def test_no_checkpoint_in_the_middle_of_an_exchange(tmp_path: Path) -> None:
    run = Run(fragment_sync_delay=2)
    with run.diloco:
        for _ in range(11):
            run.model(run.data.batch()).sum().backward()
            run.optimizer.step()
        with pytest.raises(CheckpointError, match="while an exchange is under way"):
            run.diloco.save(tmp_path / "l.safetensors")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fragments": 2}, "has 1 fragments, this learner 2"),
        ({"outer_momentum": 0.0}, "outer state has weights, momentum; this learner's has weights"),
    ],
)
def test_a_checkpoint_of_another_kind_is_refused(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    Run().diloco.save(tmp_path / "l.safetensors")
    other = Run(**change)
    with pytest.raises(InputError, match=message):
        other.diloco.load(tmp_path / "l.safetensors")


def with_optimizers(*optimizers: torch.optim.Optimizer) -> DiLoCo:
    settings = RunSettings(bootstrap="127.0.0.1:9")
    attachment = Attachment(settings, "l", ["l"], Corridor(3, GAP), RunClock.real())
    first = optimizers[0].param_groups[0]["params"][0]
    return DiLoCo(nn.ParameterList([first]), optimizers, attachment, Solo())


def test_a_checkpoint_of_another_inner_optimiser_is_refused_before_anything_is_taken(
    tmp_path: Path,
) -> None:
    weights = [nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(3))]
    path = tmp_path / "l.safetensors"
    with_optimizers(torch.optim.AdamW(weights, lr=0.1)).save(path)
    with torch.no_grad():
        weights[0].zero_()
    for others in (
        [torch.optim.SGD(weights, lr=0.1, momentum=0.9)],
        [torch.optim.Adagrad(weights, lr=0.1)],
        [torch.optim.AdamW(weights[:1], lr=0.1)],
        [torch.optim.AdamW([{"params": [one]} for one in weights], lr=0.1)],
        [torch.optim.AdamW([one], lr=0.1) for one in weights],
    ):
        with pytest.raises(InputError, match="the inner optimisers AdamW of 2 parameters; this"):
            with_optimizers(*others).load(path)
    assert not weights[0].any()
    with_optimizers(torch.optim.AdamW(weights, lr=0.1)).load(path)
    assert weights[0].all()


class Ahead(Solo):
    """Others with the same shared weights, who are a few steps ahead."""

    def standing(self) -> Member:
        return Member(name="other", nonce="n", epoch=1, step=18, last_merge_step=10)


class InAGroup(Peers):
    def join(self, shared: Shared) -> Solo:
        return Ahead()


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler")
def test_resumed_into_its_group_it_reports_the_tokens_that_it_will_weigh(tmp_path: Path) -> None:
    path = tmp_path / "l.safetensors"
    Run().train_to(15).diloco.save(path)
    again = Run(group=InAGroup([]))
    again.diloco.load(path)
    again.train_to(19)
    taken = [event for _, event in again.attachment._outbox.take(100)]
    steps = [event for event in taken if isinstance(event, Step)]
    # Five steps of 8 tokens before it stopped, and this one.
    assert [(step.step, step.tokens_since_merge) for step in steps] == [(19, 48)]
    assert again.diloco.state_dict()["tokens"] == [48]


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler")
def test_an_attachment_that_would_close_before_the_last_merge_is_reported_is_refused() -> None:
    run = Run(fragment_sync_delay=2)
    with run.diloco, run.attachment, pytest.raises(InputError, match="enter it first"):
        run.optimizer.step()
    run = Run(fragment_sync_delay=2)
    with run.attachment:
        # The exchange of step 10 is under way at the end.
        run.train_to(11)
        taken = [event for _, event in run.attachment._outbox.take(100)]
    assert [event.step for event in taken if isinstance(event, Finished)] == [10]
    assert run.attachment.errors == 0
