"""Agreement and merge between learners with real gloo between them."""

import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import torch
from learners_in_threads import new_group, until

from slackwater.attach import Attachment, Corridor, MergeOrder, waiting
from slackwater.clock import RunClock
from slackwater.events import Finished, Skipped, Started
from slackwater.settings import RunSettings
from trainer.cards import Card, MergeRefusedError, Solo
from trainer.checkpoint import CheckpointError
from trainer.exchange import Exchange
from trainer.group import GlooGroup
from trainer.handover import SharedState
from trainer.merge import Merger
from trainer.outer import OuterState
from trainer.pulse import Link
from trainer.rounds import Held

Role = Callable[[GlooGroup], Any]
InGroup = Callable[..., list[Any]]
BOTH = ("learner-0", "learner-1")


def card(merge_id: str = "m1", steps: int = 10, epoch: int = 0, *, finite: bool = True) -> Card:
    return Card(merge_id=merge_id, step=steps, epoch=epoch, phase="begin", finite=finite)


def agrees(mine: Card) -> Role:
    return lambda group: group.agree(mine, lambda: None)


def agrees_with_all(mine: Card) -> Role:
    names = [f"learner-{rank}" for rank in range(3)]
    return lambda group: group.agree(mine, lambda: None, names)


def test_equal_cards_agree_and_everybody_sees_all(in_group: InGroup) -> None:
    cards = [card(finite=rank != 1) for rank in range(3)]
    assert in_group([agrees(one) for one in cards]) == [cards] * 3


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (card(merge_id="m2"), "mismatch: merge_id m1 and m2"),
        (card(steps=11), "mismatch: step 10 and 11"),
        (card(epoch=1), "mismatch: epoch 0 and 1"),
    ],
)
def test_any_mismatch_makes_all_refuse_together(
    in_group: InGroup, other: Card, reason: str
) -> None:
    refused = in_group([agrees_with_all(one) for one in (card(), card(), other)])
    assert [type(one) for one in refused] == [MergeRefusedError] * 3
    assert {str(one) for one in refused} == {reason}


def test_who_comes_when_the_others_have_refused_is_told_at_once(in_group: InGroup) -> None:
    refused_by_two = threading.Barrier(3)

    def early(mine: Card) -> Role:
        def role(group: GlooGroup) -> Any:
            try:
                return agrees_with_all(mine)(group)
            finally:
                refused_by_two.wait(60)

        return role

    def late(group: GlooGroup) -> Any:
        refused_by_two.wait(60)
        return agrees_with_all(card())(group)

    refused = in_group([early(card()), early(card(epoch=1)), late])
    assert {str(one) for one in refused} == {"mismatch: epoch 0 and 1"}


def test_who_comes_after_the_others_gave_up_does_not_go_alone(in_group: InGroup) -> None:
    gave_up = threading.Event()

    def early(group: GlooGroup) -> Any:
        with pytest.raises(MergeRefusedError, match="tired"):
            group.agree(card(), lambda: "tired")
        gave_up.set()
        return group.agree(card("m2"), lambda: None)

    def late(group: GlooGroup) -> Any:
        gave_up.wait()
        return group.agree(card("m2"), lambda: None)

    assert in_group([early, late]) == [[card("m2")] * 2] * 2


def test_a_peer_that_left_is_not_waited_for(in_group: InGroup) -> None:
    left = threading.Event()

    def goes(group: GlooGroup) -> None:
        group.leave()
        left.set()

    def stays(group: GlooGroup) -> Any:
        left.wait()
        return group.agree(card(), lambda: None, BOTH)

    refused = in_group([stays, goes])[0]
    assert str(refused) == "left: learner-1 has left"


def test_a_peer_without_a_sign_of_life_is_given_up_and_the_wait_for_it_is_said(
    in_group: InGroup, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "SAY_AFTER_S", 0.0)
    caplog.set_level("INFO", "trainer.group")
    done = threading.Event()

    def stays(group: GlooGroup) -> Any:
        try:
            return group.agree(card(), lambda: None, BOTH)
        finally:
            done.set()

    refused = in_group([stays, lambda _: done.wait()], timeout_s=2.0)[0]
    assert str(refused) == "absent: learner-1 not there after 1 s"
    told = [r.getMessage() for r in caplog.records if r.getMessage().startswith("learner-0 ")]
    waits, on = [text for text in told if " waits " in text or " goes on after " in text]
    assert waits == "learner-0 waits for learner-1 to come to m1, 1 s at most"
    assert on.endswith(f" s: {refused}")


def test_the_wish_to_end_ends_the_wait(in_group: InGroup) -> None:
    refused = in_group([agrees(card()), lambda _: None], stopping=lambda: True)[0]
    assert str(refused) == "stopping: learner-0 ends"


def test_a_sum_without_the_peer_ends_in_time_and_the_next_merge_connects_anew(
    in_group: InGroup,
) -> None:
    failed = threading.Event()

    def waits(group: GlooGroup) -> Any:
        try:
            group.agree(card(), lambda: None)
            with pytest.raises(MergeRefusedError, match="peer_lost: "):
                group.sum(torch.ones(4))
        finally:
            failed.set()
        return sums(group)

    def stalls(group: GlooGroup) -> Any:
        group.agree(card(), lambda: None)
        failed.wait()
        with pytest.raises(MergeRefusedError, match="peer_lost: "):
            group.agree(msgspec.structs.replace(card(), phase="exchanged"), lambda: None)
        return sums(group)

    def sums(group: GlooGroup) -> list[float]:
        group.agree(card("m2"), lambda: None)
        vector = torch.ones(4)
        group.sum(vector)
        group.agree(msgspec.structs.replace(card("m2"), phase="exchanged"), lambda: None)
        return vector.tolist()

    assert in_group([waits, stalls], timeout_s=3.0) == [[2.0] * 4] * 2


class Learner:
    """Everything a merge needs, with weights that a test moves by hand."""

    def __init__(
        self,
        group: Any,
        name: str = "learner-0",
        *,
        fails: bool = False,
        compression: Any = "none",
        fragments: int = 1,
    ) -> None:
        settings = RunSettings(bootstrap="127.0.0.1:9")
        self.attachment = Attachment(settings, name, [name], Corridor(1, 10), RunClock.real())
        self.local = torch.arange(100, dtype=torch.float32)
        self.outer = OuterState(self.local, fragments=fragments)
        self.healed = 0
        self.fails = fails
        self.merger = Merger(
            self.attachment,
            group,
            self.outer,
            heal=self.heal,
            save=self.save,
            exchange=Exchange(compression, self.outer.weights),
            speed=20.0,
        )

    def heal(self) -> None:
        self.healed += 1

    def save(self, _order: MergeOrder) -> int:
        if self.fails:
            msg = "disk full"
            raise CheckpointError(msg)
        return 123

    def merge(self, number: int, delta: torch.Tensor) -> bool:
        self.local += delta
        return self.merger.run(self.ordered(f"m{number}", number * 10, number))

    def ordered(self, merge_id: str, step: int, epoch: int = 0) -> MergeOrder:
        """An order as `on_step` gives it: the attachment waits for its end."""
        order = MergeOrder(merge_id, step, 10, epoch, "score", BOTH)
        self.attachment._protocol.order = order
        return order

    def reports(self) -> list[Any]:
        return [event for _, event in self.attachment._outbox.take(100)]


def moves(rank: int, number: int) -> torch.Tensor:
    return torch.randn(100, generator=torch.Generator().manual_seed(rank * 100 + number))


def test_a_merge_is_the_outer_step_along_the_mean(in_group: InGroup) -> None:
    def role(group: GlooGroup) -> Learner:
        learner = Learner(group)
        for number in range(3):
            assert learner.merge(number, moves(group.rank, number))
        return learner

    first, second = in_group([role, role])
    assert first.outer.digest() == second.outer.digest()
    assert torch.equal(first.local, first.outer.weights)
    own = torch.arange(100, dtype=torch.float32)
    reference = OuterState(own)
    for number in range(3):
        own += (moves(0, number) + moves(1, number)) / 2
        reference.apply(reference.pseudo_gradient())
    torch.testing.assert_close(first.outer.weights, reference.weights)


def test_reports_say_what_was_exchanged_and_in_event_time(in_group: InGroup) -> None:
    def role(group: GlooGroup) -> list[Any]:
        learner = Learner(group)
        learner.merge(0, moves(group.rank, 0))
        return learner.reports()

    for started, finished in in_group([role, role]):
        assert (started.merge_id, started.step, started.reason) == ("m0", 0, "score")
        assert finished.bytes_exchanged == 4 * 100
        assert (finished.parameters, finished.checkpoint_bytes) == (100, 123)
        assert finished.exchange_s <= finished.seconds
        # 20 event seconds in one of wall time: two stamps at speed 1 are at most that far apart.
        assert finished.seconds <= 20 * (finished.at_us - started.at_us) / 1e6


def test_one_nan_leaves_the_rest_as_if_it_had_not_come(in_group: InGroup) -> None:
    def role(group: GlooGroup) -> Learner:
        learner = Learner(group)
        for number in range(2):
            delta = moves(0, number)
            if group.rank == 1 and number == 1:
                delta[57] = float("nan")
            learner.merge(number, delta)
        return learner

    healthy, poisoned = in_group([role, role])
    alone = Learner(Solo())
    for number in range(2):
        alone.merge(number, moves(0, number))
    for learner in (healthy, poisoned):
        assert torch.equal(learner.outer.weights, alone.outer.weights)
        assert torch.equal(learner.outer.momentum, alone.outer.momentum)
        assert torch.equal(learner.local, alone.local)
        assert learner.reports()[-1].reason == "score; 1 contributions not finite, left out"
    assert (healthy.healed, poisoned.healed) == (0, 1)
    counts = [one.merger.counts.contributions_refused for one in (healthy, poisoned)]
    assert counts == [0, 1]


def test_without_a_finite_contribution_all_go_back_to_the_global_weights(in_group: InGroup) -> None:
    def role(group: GlooGroup) -> Learner:
        learner = Learner(group)
        assert not learner.merge(0, torch.full((100,), float("inf")))
        return learner

    for learner in in_group([role, role]):
        assert torch.equal(learner.outer.weights, torch.arange(100, dtype=torch.float32))
        assert torch.equal(learner.outer.local, learner.outer.weights.detach())
        assert learner.healed == 1
        (report,) = learner.reports()
        assert report.reason.startswith("not_finite")


def test_a_checkpoint_that_fails_is_said_in_the_report_and_ends_the_run() -> None:
    learner = Learner(Solo(), fails=True)
    with pytest.raises(CheckpointError, match="disk full"):
        learner.merge(0, moves(0, 0))
    finished = learner.reports()[-1]
    assert finished.checkpoint_bytes is None
    assert finished.reason == "score; no checkpoint: it could not be written"


def test_a_learner_with_three_times_the_tokens_counts_three_times(in_group: InGroup) -> None:
    def role(group: GlooGroup) -> Learner:
        learner = Learner(group)
        learner.merger.trained((300, 100)[group.rank])
        learner.merge(0, moves(group.rank, 0))
        assert learner.merger.tokens == [0]
        return learner

    first, second = in_group([role, role])
    assert first.outer.digest() == second.outer.digest()
    own = torch.arange(100, dtype=torch.float32)
    reference = OuterState(own)
    own += 0.75 * moves(0, 0) + 0.25 * moves(1, 0)
    reference.apply(reference.pseudo_gradient())
    torch.testing.assert_close(first.outer.weights, reference.weights)


def test_learners_that_send_different_things_refuse_together(in_group: InGroup) -> None:
    def role(group: GlooGroup) -> list[Any]:
        learner = Learner(group, compression=("none", "int8")[group.rank])
        assert not learner.merge(0, moves(0, 0))
        return learner.reports()

    for (skipped,) in in_group([role, role]):
        assert skipped.reason == "mismatch: kind none 1/1 and int8 1/1"


def test_fragments_take_turns_and_the_report_says_which(in_group: InGroup) -> None:
    def role(group: GlooGroup) -> Learner:
        learner = Learner(group, fragments=2, compression="int8")
        learner.merger.trained(100)
        for number in range(2):
            learner.merge(number, moves(group.rank, number))
        return learner

    first, second = in_group([role, role])
    assert first.outer.digest() == second.outer.digest()
    assert torch.equal(first.local[50:], first.outer.weights[50:])
    assert torch.equal(first.local[:50], first.outer.weights[:50] + moves(0, 1)[:50])
    assert first.merger.tokens == [0, 0]
    finished = [event for event in first.reports() if isinstance(event, Finished)]
    assert [event.reason for event in finished] == [
        "score; fragment 1 of 2",
        "score; fragment 2 of 2",
    ]
    assert [event.bytes_exchanged for event in finished] == [50 + 4] * 2


def test_an_exchange_behind_the_steps_is_of_the_weights_when_it_began(in_group: InGroup) -> None:
    def role(group: GlooGroup) -> Learner:
        learner = Learner(group)
        learner.local += moves(group.rank, 0)
        learner.merger.trained(10)
        order = learner.ordered("m0", 10)
        assert learner.merger.begin(order, behind=True)
        assert learner.merger.under_way == order
        learner.local += 100.0
        learner.merger.trained(4)
        assert learner.merger.end()
        assert learner.merger.under_way is None
        assert learner.merger.tokens == [4]
        return learner

    def plain(group: GlooGroup) -> Learner:
        learner = Learner(group)
        learner.merge(0, moves(group.rank, 0))
        return learner

    behind, reference = in_group([role, role]), in_group([plain, plain])
    for one, other in zip(behind, reference, strict=True):
        assert one.outer.digest() == other.outer.digest()
        assert torch.equal(one.local, other.local)
        assert "exchanged behind inner steps, waited " in one.reports()[-1].reason


def test_a_peer_lost_behind_the_steps_leaves_everything_as_it_was(in_group: InGroup) -> None:
    gone = threading.Event()

    def stays(group: GlooGroup) -> Learner:
        learner = Learner(group)
        order = learner.ordered("m0", 10)
        assert learner.merger.begin(order, behind=True)
        learner.local += 1.0
        assert not learner.merger.end()
        gone.set()
        return learner

    def goes(group: GlooGroup) -> None:
        group.agree(card_of(Learner(group), "m0"), lambda: None)
        gone.wait()

    stayed = in_group([stays, goes], timeout_s=5.0)[0]
    assert torch.equal(stayed.local, torch.arange(100, dtype=torch.float32) + 1.0)
    assert torch.equal(stayed.outer.weights, torch.arange(100, dtype=torch.float32))
    assert stayed.reports()[-1].reason.startswith("peer_lost")


def card_of(learner: Learner, merge_id: str) -> Card:
    order = MergeOrder(merge_id, 10, 10, 0, "score", BOTH)
    return learner.merger._card(order, "begin", 0)


def test_groups_that_meet_at_one_place_do_not_mix(
    in_group: InGroup,
) -> None:
    def role(group: GlooGroup) -> Any:
        cards = group.agree(card(), lambda: None)
        vector = torch.ones(2)
        group.sum(vector)
        return len(cards), vector.tolist()

    found: list[list[Any]] = []
    threads = [threading.Thread(target=lambda: found.append(in_group([role] * 2))) for _ in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[(2, [2.0, 2.0])] * 2] * 2


def test_a_quorum_goes_on_without_those_who_do_not_come_and_they_are_late(
    in_group: InGroup,
) -> None:
    merged = threading.Event()

    def comes(group: GlooGroup) -> Any:
        forced = msgspec.structs.replace(card("hmax-10"), forced=True)
        try:
            return len(group.agree(forced, lambda: None))
        finally:
            merged.set()

    def does_not(_group: GlooGroup) -> None:
        merged.wait()

    assert in_group([comes, comes, does_not], quorum=2, timeout_s=4.0) == [2, 2, None]


def test_fewer_than_the_quorum_do_not_merge(in_group: InGroup) -> None:
    left = threading.Event()

    def goes(group: GlooGroup) -> None:
        group.leave()
        left.set()

    def stays(group: GlooGroup) -> Any:
        left.wait()
        until(lambda: len(group.pulse.alive()) == 1)
        return group.agree(card(), lambda: None)

    refused = in_group([stays, goes])[0]
    assert str(refused) == "quorum: 1 there, 2 are needed"


def test_a_second_process_of_the_same_name_takes_the_first_ones_place(
    in_group: InGroup, meeting_port: int
) -> None:
    def role(group: GlooGroup) -> Any:
        room = group.pulse._meeting.room
        again = new_group(meeting_port, room, "learner-0", quorum=1)
        until(group.pulse.superseded)
        with pytest.raises(MergeRefusedError) as refused:
            group.agree(card(), lambda: None)
        again.leave()
        return str(refused.value)

    assert in_group([role]) == ["duplicate: another process goes by the name learner-0"]


def test_who_missed_a_merge_finds_the_shared_state_of_most_merges(
    in_group: InGroup, meeting_port: int
) -> None:
    state = SharedState(
        epoch=3, step=70, last_merge_step=60, digest="d3", tensors={"weights": torch.arange(4.0)}
    )

    def role(group: GlooGroup) -> Any:
        room = group.pulse._meeting.room
        ahead = new_group(meeting_port, room, "learner-1", quorum=1, read=lambda: state)
        ahead.tell(70, 60, 3, "d3")
        until(lambda: group.pulse.ahead() is not None)
        found = group.newer()
        ahead.leave()
        assert found is not None
        return found.epoch, found.step, found.tensors["weights"].tolist()

    assert in_group([role]) == [(3, 70, [0.0, 1.0, 2.0, 3.0])]


def breaks_after_the_exchange(learner: Learner) -> None:
    """As where memory is short once all have been through the collective."""
    mean = learner.merger.exchange.mean

    def broken(*given: Any) -> int:
        learner.merger.exchange.mean = mean  # type: ignore[method-assign]
        mean(*given)
        msg = "out of memory"
        raise RuntimeError(msg)

    learner.merger.exchange.mean = broken  # type: ignore[method-assign]


@pytest.mark.parametrize("behind", [False, True])
def test_an_exchange_that_breaks_in_one_learner_is_no_merge_for_any(
    in_group: InGroup, behind: bool
) -> None:
    def role(group: GlooGroup) -> tuple[Learner, Any]:
        learner = Learner(group)
        learner.local += moves(group.rank, 0)
        order = learner.ordered("m0", 10)

        def merges() -> bool:
            return learner.merger.begin(order, behind=behind) and learner.merger.end()

        if group.rank == 1:
            breaks_after_the_exchange(learner)
            with pytest.raises(RuntimeError, match="out of memory"):
                merges()
        else:
            assert not merges()
        assert learner.merger.under_way is None
        assert not learner.merger.end()
        assert torch.equal(learner.outer.weights, torch.arange(100, dtype=torch.float32))
        skipped = learner.reports()[-1]
        assert learner.merge(1, moves(group.rank, 1))
        return learner, skipped

    (first, told), (second, broke) = in_group([role, role])
    assert broke.reason == "failed: RuntimeError: out of memory"
    assert told.reason.startswith("peer_lost: ")
    assert first.outer.digest() == second.outer.digest()


def test_a_merge_that_broke_is_not_ended_later() -> None:
    learner = Learner(Solo())
    breaks_after_the_exchange(learner)
    with pytest.raises(RuntimeError, match="out of memory"):
        learner.merge(0, moves(0, 0))
    assert not learner.merger.end()
    assert [type(one) for one in learner.reports()] == [Started, Skipped]


def test_the_first_call_is_heard_by_who_has_never_merged(in_group: InGroup) -> None:
    def calls(group: GlooGroup) -> int:
        return len(group.agree(card(), lambda: None))

    def comes(group: GlooGroup) -> int:
        until(lambda: group.called(0.0))
        found = len(group.agree(card(), lambda: None))
        assert not group.called(0.0)
        return found

    assert in_group([calls, comes]) == [2, 2]


def test_a_call_that_is_over_is_heard_no_more(in_group: InGroup) -> None:
    heard = threading.Event()

    def calls(group: GlooGroup) -> Any:
        return group.agree(card(), lambda: "tired" if heard.is_set() else None)

    def hears(group: GlooGroup) -> None:
        until(lambda: group.called(0.0))
        heard.set()
        until(lambda: not group.called(0.0))

    refused, _ = in_group([calls, hears])
    assert str(refused) == "tired"


@pytest.mark.parametrize("old", [card("hmax-7", 7), card("hmax-7", 7, epoch=1)])
def test_one_with_other_shared_weights_does_not_keep_a_quorum_from_merging(
    in_group: InGroup, old: Card
) -> None:
    new = msgspec.structs.replace(card(epoch=1), digest="d1", forced=True)
    theirs = msgspec.structs.replace(old, digest="d0", forced=True)
    first, second, late = in_group([agrees(new), agrees(new), agrees(theirs)], quorum=2)
    assert (first, second) == ([new] * 2, [new] * 2)
    assert str(late) == "late: the others merge without this learner"


def test_a_learner_that_reports_no_tokens_counts_like_the_others(in_group: InGroup) -> None:
    def role(group: GlooGroup) -> Any:
        learner = Learner(group)
        learner.merger.trained((300, None)[group.rank])
        assert learner.merge(0, moves(group.rank, 0))
        assert learner.merger.tokens == [0]
        return learner.local, learner.reports()[-1].reason

    own = torch.arange(100, dtype=torch.float32)
    reference = OuterState(own)
    own += (moves(0, 0) + moves(1, 0)) / 2
    reference.apply(reference.pseudo_gradient())
    for local, reason in in_group([role, role]):
        torch.testing.assert_close(local, reference.weights)
        assert reason == "score; a plain mean, as not all report tokens"


def test_a_generation_of_another_store_is_not_taken_for_one_of_this(meeting_port: int) -> None:
    group = new_group(meeting_port, "held", "learner-0", quorum=1)
    group.tell(0, 0, 0, "")
    until(lambda: bool(group.pulse.alive()) and group.pulse._link is not None)
    link = group.pulse.link()
    elsewhere = Link(link.shelf, link.slot)
    found = []
    for held in (None, Held(link, 1, (link.slot,)), Held(elsewhere, 1, (link.slot,))):
        found.append(group._rounds.begin(card(), lambda: None, (), held).generation)
    assert found == [1, 1, 2]
    group.leave()
