"""Model, data and inner optimisers of one learner, without merges, Kafka or pace."""

from collections.abc import Mapping
from typing import Any

import torch

from trainer.inner import InnerOptimizer
from trainer.model import CharModel, ModelShape
from trainer.settings import LearnerSettings
from trainer.text import Shard, windows

SEQUENCES = 4
HELD_OUT_SEQUENCES = 32


class Training:
    """One learner's model with its text and its optimisers.

    Args:
        settings: sizes and seed.
        shard: this learner's text.
        rank: with the seed, the order of the data; the first weights depend on the seed alone.

    Attributes:
        model: what is trained.
        inner: its optimisers.
        tokens_per_step: of one inner step.
    """

    def __init__(self, settings: LearnerSettings, shard: Shard, rank: int) -> None:
        torch.manual_seed(settings.seed)
        shape = ModelShape.for_parameters(settings.parameters)
        self.model = CharModel(shape)
        self._length = shape.context + 1
        self._shard = shard
        self._order = torch.Generator().manual_seed(settings.seed * 1_000 + rank + 1)
        self.inner = InnerOptimizer(self.model)
        self.tokens_per_step = SEQUENCES * shape.context
        spread = torch.linspace(0, len(shard.held_out) - self._length, HELD_OUT_SEQUENCES)
        self._held_out = windows(shard.held_out, spread.long(), self._length)

    def loss(self) -> torch.Tensor:
        """The loss of the next inner step, in nats a byte; `inner.step` makes it a step."""
        most = len(self._shard.train) - self._length
        starts = torch.randint(most, (SEQUENCES,), generator=self._order)
        found: torch.Tensor = self.model(windows(self._shard.train, starts, self._length))
        return found

    def step(self) -> float:
        """One inner step; returns its loss."""
        loss = self.loss()
        self.inner.step(loss)
        return float(loss.detach())

    @torch.no_grad()
    def held_out_loss(self) -> float:
        """Loss of the weights as they are on text that no learner trains on, nats a byte."""
        return float(self.model(self._held_out))

    def state_dict(self) -> dict[str, Any]:
        """Where the data stand; model and optimisers are for whoever wraps them to keep."""
        return {"order": self._order.get_state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on with the data from there."""
        self._order.set_state(state["order"])
