"""torchft itself, driven on demand: replicas as threads, each with its own manager."""

import dataclasses
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest
import torch

from slackwater.attach import Attachment, Corridor, MergeOrder
from slackwater.clock import RunClock
from slackwater.errors import InputError
from slackwater.settings import RunSettings

pytestmark = [pytest.mark.adapters, pytest.mark.timeout(300)]
NAMES = ["replica-0", "replica-1"]
PATIENCE_S = 120.0


class Heard(Attachment):
    """An attachment that remembers what came of its orders; its H_max can pass for a command."""

    def __init__(self, name: str, max_gap_steps: int, command: str | None = None) -> None:
        nobody = RunSettings(bootstrap="127.0.0.1:1")
        # As H_min, too: a merge that H_max forced in vain is due again after H_min.
        corridor = Corridor(max_gap_steps, max_gap_steps)
        super().__init__(nobody, name, NAMES, corridor, RunClock.real())
        self.ends: list[tuple[int, str]] = []
        self.command = command

    def on_step(self, *given: Any, **also: Any) -> MergeOrder | None:
        order = super().on_step(*given, **also)
        if order is None or self.command is None:
            return order
        return dataclasses.replace(order, merge_id=self.command, reason="commanded")

    def finished(self, order: MergeOrder, **report: Any) -> None:
        self.ends.append((order.step, report["digest"]))
        super().finished(order, **report)

    def skipped(self, order: MergeOrder, reason: str) -> None:
        self.ends.append((order.step, reason.partition(":")[0]))
        super().skipped(order, reason)


class Replica:
    """A model of its own behind torchft's manager."""

    def __init__(
        self, number: int, lighthouse: str, max_gap_steps: int, quorum_timeout_s: float
    ) -> None:
        from torchft.manager import Manager
        from torchft.process_group import ProcessGroupGloo

        from trainer.adapters.torchft import OnDemandDiLoCo

        self.model = torch.nn.Linear(2, 1)
        with torch.no_grad():
            for p in self.model.parameters():
                p.fill_(1.0)
        self.inner = torch.optim.SGD(self.model.parameters(), lr=0.1 * (number + 1))
        self.outer = torch.optim.SGD(self.model.parameters(), lr=1.0)
        self.store = torch.distributed.TCPStore(
            "127.0.0.1", 0, is_master=True, wait_for_workers=False
        )
        self.manager = Manager(
            pg=ProcessGroupGloo(timeout=timedelta(seconds=10)),
            load_state_dict=self.model.load_state_dict,
            state_dict=self.model.state_dict,
            min_replica_size=2,
            use_async_quorum=False,
            init_sync=False,
            rank=0,
            world_size=1,
            store_addr="127.0.0.1",
            store_port=self.store.port,
            lighthouse_addr=lighthouse,
            hostname="127.0.0.1",
            replica_id=NAMES[number],
            timeout=timedelta(seconds=10),
        )
        self.attachment = Heard(NAMES[number], max_gap_steps)
        self.diloco = OnDemandDiLoCo(
            self.manager,
            [self.model],
            self.inner,
            self.outer,
            attachment=self.attachment,
            quorum_timeout_s=quorum_timeout_s,
        )

    def train(self, steps: int, spoil: int | None = None) -> None:
        with self.diloco as diloco:
            for step in range(steps):
                self.inner.zero_grad()
                self.model(torch.ones(1, 2)).sum().backward()
                if step == spoil:
                    self.model.weight.grad.fill_(float("nan"))
                diloco.report(loss=1.0, tokens=2)
                self.inner.step()

    @property
    def weight(self) -> float:
        return float(self.model.weight.detach()[0, 0])


@pytest.fixture
def replicas() -> Iterator[Callable[..., list[Replica]]]:
    """Makes two replicas, of these H_max."""
    from torchft.coordination import LighthouseServer

    with ExitStack() as stack:
        server = LighthouseServer(bind="127.0.0.1:0", min_replicas=2, join_timeout_ms=2000)
        stack.callback(server.shutdown)
        address = f"http://127.0.0.1:{server.address().rpartition(':')[2]}"

        def make(*max_gap_steps: int, quorum_timeout_s: float = 60.0) -> list[Replica]:
            made = [
                Replica(n, address, gap, quorum_timeout_s) for n, gap in enumerate(max_gap_steps)
            ]
            for one in made:
                stack.callback(one.manager.shutdown, wait=False)
            return made

        yield make


def train_together(replicas: list[Replica], steps: list[int], spoil: int | None = None) -> None:
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            replicas[number].train(steps[number], spoil if number == 0 else None)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(len(replicas))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert not failures
    assert not any(thread.is_alive() for thread in threads)


def test_two_merge_at_h_max_into_the_mean_of_both(replicas: Callable[..., list[Replica]]) -> None:
    both = replicas(4, 4)
    train_together(both, [8, 8])
    # The gradient is 1: they move by 0.1 and 0.2 a step, the mean by 0.15.
    assert [one.weight for one in both] == [pytest.approx(1 - 8 * 0.15)] * 2
    first, second = (one.attachment.ends for one in both)
    assert [step for step, _ in first] == [4, 8]
    assert first == second


def test_two_that_came_for_different_merges_change_nothing_and_merge_the_next_time(
    replicas: Callable[..., list[Replica]],
) -> None:
    both = replicas(4, 4)
    both[0].attachment.command = "m1"
    train_together(both, [4, 4])
    assert [one.attachment.ends for one in both] == [[(4, "mismatch")]] * 2
    assert [one.weight for one in both] == [pytest.approx(1 - 0.4), pytest.approx(1 - 0.8)]
    both[0].attachment.command = None
    train_together(both, [4, 4])
    assert [one.weight for one in both] == [pytest.approx(1 - 8 * 0.15)] * 2


def test_one_alone_gives_the_merge_up_and_trains_on(
    replicas: Callable[..., list[Replica]],
) -> None:
    both = replicas(4, 4, quorum_timeout_s=0.5)
    train_together(both[:1], [9])
    assert both[0].attachment.ends == [(4, "no_quorum"), (8, "no_quorum")]
    assert both[0].weight == pytest.approx(1 - 0.9)


def test_one_that_waited_in_vain_merges_with_the_other_when_that_has_come(
    replicas: Callable[..., list[Replica]],
) -> None:
    both = replicas(4, 4, quorum_timeout_s=5.0)
    train_together(both[:1], [4])
    assert both[0].attachment.ends == [(4, "no_quorum")]
    train_together(both, [16, 16])
    # torchft may bring them together late, and the one that ends first leaves the other alone.
    first, second = ({digest for _, digest in one.attachment.ends} for one in both)
    assert (first & second) - {"no_quorum"}


def test_weights_that_are_not_finite_are_left_out_of_the_group(
    replicas: Callable[..., list[Replica]],
) -> None:
    both = replicas(2, 2)
    train_together(both, [4, 4], spoil=1)
    assert both[0].attachment.ends[0] == (2, "not_finite")
    first, second = (one.attachment.ends for one in both)
    assert [step for step, _ in first] == [2, 4]
    assert first == second
    assert both[0].weight == both[1].weight


@pytest.mark.parametrize("name", ["_step_post_hook", "_restore_parameters"])
def test_a_release_without_a_name_that_is_used_is_refused_at_import(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    import importlib
    import sys

    from torchft import local_sgd

    class Other:
        """A DiLoCo of another release."""

        __enter__ = _step_pre_hook = _step_post_hook = _restore_parameters = None

    delattr(Other, name)
    monkeypatch.delitem(sys.modules, "trainer.adapters.torchft", raising=False)
    monkeypatch.setattr(local_sgd, "DiLoCo", Other)
    with pytest.raises(InputError, match=f"fits torchft 0.2.0, and torchft .* no .*{name}"):
        importlib.import_module("trainer.adapters.torchft")


def test_options_that_on_demand_merges_have_no_use_for_are_refused() -> None:
    from trainer.adapters.torchft import OnDemandDiLoCo

    model = torch.nn.Linear(2, 1)
    inner = torch.optim.SGD(model.parameters())
    given: dict[str, Any] = {"attachment": Heard(NAMES[0], 4)}
    with pytest.raises(InputError, match="model_fragments has 2 parts"):
        OnDemandDiLoCo(None, [model, model], inner, inner, **given)
    with pytest.raises(InputError, match="sync_every is not this class's to set"):
        OnDemandDiLoCo(None, [model], inner, inner, sync_every=4, **given)
