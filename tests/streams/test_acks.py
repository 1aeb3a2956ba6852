import asyncio
from dataclasses import dataclass, field

from controller.counting import PartitionCounter
from slackwater.events import Load
from streams.acks import BinHold, Shipper

T0 = 1_750_000_000_000_000


@dataclass
class Stream:
    acked: list[object] = field(default_factory=list)

    async def ack(self, event: object) -> None:
        self.acked.append(event)


@dataclass(frozen=True)
class Event:
    key: bytes
    number: int = 0


def load(at_s: float, sidecar: str = "s") -> Load:
    at_us = T0 + round(at_s * 1e6)
    return Load(run_id="r", at_us=at_us, sidecar=sidecar, running=1, waiting=0)


def test_requests_are_acknowledged_when_their_bins_have_closed() -> None:
    async def run() -> list[object]:
        stream, counter, hold = Stream(), PartitionCounter(0, 0.25, 0.0), BinHold(lambda: 0.0)
        for number, at_s in enumerate((0.1, 0.2, 0.3)):
            counter.add([load(at_s)])
            counter.close("r", "g")
            await hold.add(stream, Event(b"s", number), counter)
        return [event.number for event in stream.acked]  # type: ignore[attr-defined]

    assert asyncio.run(run()) == [0, 1]


def test_silent_sidecar_does_not_hold_its_partition_for_ever() -> None:
    async def run() -> int:
        now = [0.0]
        stream, counter = Stream(), PartitionCounter(0, 0.25, 0.0)
        hold = BinHold(lambda: now[0])
        counter.add([load(0.1, "silent"), load(0.1, "s")])
        await hold.add(stream, Event(b"silent"), counter)
        for tenth in range(200):
            now[0] = tenth / 10
            counter.add([load(tenth / 10, "s")])
            counter.close("r", "g")
            await hold.add(stream, Event(b"s", tenth), counter)
        return len(stream.acked)

    assert asyncio.run(run()) > 190


def test_nothing_is_acknowledged_before_its_commit() -> None:
    async def run() -> list[str]:
        order: list[str] = []

        class Noting(Stream):
            async def ack(self, event: object) -> None:
                order.append("ack")

        async def commit() -> int:
            order.append("commit")
            return 1

        shipper = Shipper(commit, 0.25)
        await shipper.add(Noting(), Event(b"s"), 1)
        assert order == []
        await shipper.ship()
        return order

    assert asyncio.run(run()) == ["commit", "ack"]
