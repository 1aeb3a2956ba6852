"""The studies' learners: the reference model and its optimisers on real text, merged in process.

The learners of a group take turns. Their merge is the plain mean of their pseudo-gradients, which
is what learners with equal tokens get from an all-reduce. A seed fixes the first weights and, with
a learner's rank, the order of its data.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from trainer.inner import InnerOptimizer
from trainer.model import CharModel, ModelShape
from trainer.outer import OUTER_LR, OUTER_MOMENTUM, OuterState
from trainer.text import Shard, read_text, windows
from trainer.training import SEQUENCES

LEARNERS = 2
PARAMETERS = 100_000


@dataclass(frozen=True, slots=True)
class Outer:
    """The outer optimiser; the momentum is Nesterov's, 0 for none."""

    lr: float = OUTER_LR
    momentum: float = OUTER_MOMENTUM


class Pupil:
    """A model that takes inner steps on the text of one learner, or of several at once.

    Args:
        seed: of the first weights and the order of the data.
        ranks: whose text; with all of them a step is one of data-parallel training, for the mean
            loss over all their sequences has the mean of their gradients.
        outer: how it would merge.
        learners: how many share the text.
    """

    def __init__(self, seed: int, ranks: range, outer: Outer, learners: int = LEARNERS) -> None:
        torch.manual_seed(seed)
        shape, raw = ModelShape.for_parameters(PARAMETERS), read_text(None)
        self.model = CharModel(shape)
        self.outer = OuterState(*self.model.parameters(), lr=outer.lr, momentum=outer.momentum)
        self._inner = InnerOptimizer(self.model)
        self._length = shape.context + 1
        self._texts = [Shard.cut(raw, rank, learners) for rank in ranks]
        self._orders = [torch.Generator().manual_seed(seed * 1_000 + rank + 1) for rank in ranks]

    def step(self) -> None:
        batch = [
            windows(text.train, self._starts(text, order), self._length)
            for text, order in zip(self._texts, self._orders, strict=True)
        ]
        self._inner.step(self.model(torch.cat(batch)))

    def _starts(self, text: Shard, order: torch.Generator) -> torch.Tensor:
        return torch.randint(len(text.train) - self._length, (SEQUENCES,), generator=order)

    @torch.no_grad()
    def held_out_loss(self) -> float:
        """Nats a byte over all of the held-out text, cut into sequences."""
        text = self._texts[0].held_out
        starts = torch.arange(0, len(text) - self._length + 1, self._length - 1)
        return float(self.model(windows(text, starts, self._length)))


def data_parallel(seed: int, steps: int, outer: Outer) -> float:
    """Held-out loss when gradients are averaged at every step."""
    pupil = Pupil(seed, range(LEARNERS), outer)
    for _ in range(steps):
        pupil.step()
    return pupil.held_out_loss()


def merged(seed: int, merges: Sequence[int], outer: Outer) -> float:
    """Held-out loss of the shared weights after the last merge."""
    pupils = [Pupil(seed, range(rank, rank + 1), outer) for rank in range(LEARNERS)]
    done = 0
    for step in merges:
        for pupil in pupils:
            for _ in range(step - done):
                pupil.step()
        merge([pupil.outer for pupil in pupils])
        done = step
    assert len({pupil.outer.digest() for pupil in pupils}) == 1
    return pupils[0].held_out_loss()


def merge(outers: Sequence[OuterState]) -> None:
    """One outer step of all, along the mean of their pseudo-gradients."""
    mean = torch.stack([outer.pseudo_gradient() for outer in outers]).mean(dim=0)
    for outer in outers:
        outer.apply(mean)
