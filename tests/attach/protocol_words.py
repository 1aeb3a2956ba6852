"""A merge protocol whose words are kept, and the words that it is told."""

from collections.abc import Sequence

from slackwater.attach import Corridor, MergeOrder
from slackwater.attach.protocol import Await, Protocol
from slackwater.events import Accepted, MergeCommand, Skipped

NOW_US = 1_700_000_000_000_000
BOTH = ("learner-0", "learner-1")
CORRIDOR = Corridor(5, 20)
ABOUT = {"run_id": "r", "at_us": NOW_US, "group": "default"}


class Learner(Protocol):
    """A protocol whose words are kept."""

    def __init__(self, corridor: Corridor = CORRIDOR) -> None:
        self.said: list[tuple[str, str, int, str]] = []
        super().__init__("learner-0", BOTH, corridor, lambda *words: self.said.append(words[:4]))

    def told(self, merge_id: str, at_step: int | None, **other: object) -> None:
        self.command(command(merge_id, at_step, **other), NOW_US)

    def hears_accepts(self, merge_id: str, step: int, who: Sequence[str] = BOTH) -> None:
        for name in who:
            self.heard(accepted(merge_id, step, name))

    def steps_to(self, last: int) -> list[MergeOrder | Await]:
        found = (self.at_step(step, NOW_US) for step in range(self.step + 1, last + 1))
        return [order for order in found if order is not None]

    @property
    def last_reason(self) -> str:
        return self.said[-1][3].partition(":")[0]


def command(merge_id: str, at_step: int | None, **other: object) -> MergeCommand:
    fields = {
        "deadline_us": NOW_US + 1,
        "window_s": 8.0,
        "reason": "score",
        "participants": list(BOTH),
    }
    return MergeCommand(**ABOUT, merge_id=merge_id, at_step=at_step, **{**fields, **other})  # type: ignore[arg-type]


def accepted(merge_id: str, step: int, learner: str) -> Accepted:
    return Accepted(**ABOUT, learner=learner, merge_id=merge_id, step=step)  # type: ignore[arg-type]


def skipped(merge_id: str, step: int, learner: str) -> Skipped:
    return Skipped(**ABOUT, learner=learner, merge_id=merge_id, step=step, reason="late")  # type: ignore[arg-type]
