"""A record as the pure statistics take it."""

from collections import Counter

import numpy as np

from calibration.effect import Account, Block, Observed, Window
from sidecar.experiment.design import Design
from sidecar.experiment.record import WARM_UP, Merge, PlayedBlock, Record
from sidecar.load import Outcome
from slackwater.clock import US_PER_S
from slackwater.statuses import CLIENT_STATUSES


def observed(record: Record) -> Observed:
    """The complete blocks, in seconds since the record began."""
    origin_us = record.set_up.started_us
    kept = [block for block in record.blocks if block.complete and block.arm != WARM_UP]
    requests = [(number, one) for number, block in enumerate(kept) for one in block.requests]

    def seconds(times_us: list[int]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return (np.array(times_us, np.int64) - origin_us) / US_PER_S

    return Observed(
        blocks=[_block(block, origin_us) for block in kept],
        windows=[
            Window(
                number,
                (merge.start_us - origin_us) / US_PER_S,
                (merge.end_us - origin_us) / US_PER_S,
            )
            for number, block in enumerate(kept)
            for merge in block.merges
            if merge.done
        ],
        arrival_s=seconds([one.scheduled_us for _, one in requests]),
        # A client's last look and its schedule may lie a microsecond apart.
        end_s=seconds([max(one.ended_us, one.scheduled_us) for _, one in requests]),
        status=np.array([CLIENT_STATUSES.index(one.status) for _, one in requests], np.int64),
        tokens=np.array([_tokens(one, record.set_up.design) for _, one in requests], np.int64),
        block=np.array([number for number, _ in requests], np.int64),
    )


def _tokens(one: Outcome, design: Design) -> int:
    """As the server counted them; as asked for where it did not say, or never came to that."""
    known = one.prompt_tokens, one.output_tokens
    asked = design.prompt_tokens, design.output_tokens
    return sum(a if k is None else k for k, a in zip(known, asked, strict=True))


def _block(played: PlayedBlock, origin_us: int) -> Block:
    assert played.arm != WARM_UP  # noqa: S101 - left out above
    start_s, end_s = ((at - origin_us) / US_PER_S for at in (played.start_us, played.end_us))
    return Block(played.arm, played.round, start_s, end_s)


def accounts(record: Record) -> dict[str, Account]:
    """Every request that came due, by arm: warm-ups and interrupted blocks are arms here too."""
    found: dict[str, Account] = {}
    for arm, blocks in _by_arm(record).items():
        ended = Counter(one.status for block in blocks for one in block.requests)
        found[arm] = Account(ended.total(), *(ended[status] for status in CLIENT_STATUSES))
    return found


def discarded(record: Record) -> list[Merge]:
    """Merges that are in no figure: of warm-ups, and of interrupted blocks."""
    return [
        merge
        for block in record.blocks
        if block.arm == WARM_UP or not block.complete
        for merge in block.merges
        if merge.done
    ]


def refused(record: Record) -> list[Merge]:
    """Merges that were asked for and not done."""
    return [merge for block in record.blocks for merge in block.merges if not merge.done]


def _by_arm(record: Record) -> dict[str, list[PlayedBlock]]:
    arms: dict[str, list[PlayedBlock]] = {}
    for block in record.blocks:
        arms.setdefault(block.arm if block.complete else "interrupted", []).append(block)
    return arms
