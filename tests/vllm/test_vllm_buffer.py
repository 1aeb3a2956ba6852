"""The buffer between vLLM and the sender: bounded, newest first kept, every item accounted for."""

import threading

from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.vllm.buffer import Buffer


@settings(max_examples=50)
@given(st.integers(1, 5), st.lists(st.booleans(), max_size=60))
def test_what_is_kept_is_the_newest_and_all_is_accounted_for(limit: int, puts: list[bool]) -> None:
    buffer: Buffer[int] = Buffer(limit)
    expected: list[int] = []
    for number, put in enumerate(puts):
        if put:
            buffer.put(number)
            expected = [*expected, number][-limit:]
        else:
            assert buffer.take() == (expected.pop(0) if expected else None)
        assert len(buffer) == len(expected)
        assert buffer.added == buffer.taken + buffer.dropped + len(buffer)
    assert [buffer.take() for _ in expected] == expected


def test_two_threads_lose_no_item_without_counting_it() -> None:
    buffer: Buffer[int] = Buffer(3)
    over = threading.Event()
    taken: list[int] = []

    def take() -> None:
        while not over.is_set() or len(buffer):
            item = buffer.take()
            if item is not None:
                taken.append(item)

    taker = threading.Thread(target=take)
    taker.start()
    for number in range(20_000):
        buffer.put(number)
    over.set()
    taker.join()
    assert taken == sorted(taken)
    assert len(taken) == buffer.taken
    assert buffer.taken + buffer.dropped == buffer.added == 20_000
