"""Model, data and optimisers of one learner, without merges, Kafka or pace."""

from pathlib import Path

import torch

from slackwater.attach import MergeOrder
from slackwater.errors import InputError
from trainer.checkpoint import read_checkpoint, write_checkpoint
from trainer.inner import InnerOptimizer
from trainer.model import CharModel, ModelShape
from trainer.outer import OuterState
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
    """

    def __init__(self, settings: LearnerSettings, shard: Shard, rank: int) -> None:
        torch.manual_seed(settings.seed)
        shape = ModelShape.for_parameters(settings.parameters)
        self._model = CharModel(shape)
        self._length = shape.context + 1
        self._shard = shard
        self._order = torch.Generator().manual_seed(settings.seed * 1_000 + rank + 1)
        self.outer = OuterState(*self._model.parameters())
        self.inner = InnerOptimizer(self._model)
        self.tokens_per_step = SEQUENCES * shape.context
        spread = torch.linspace(0, len(shard.held_out) - self._length, HELD_OUT_SEQUENCES)
        self._held_out = windows(shard.held_out, spread.long(), self._length)

    def step(self) -> float:
        """One inner step; returns its loss in nats a byte."""
        most = len(self._shard.train) - self._length
        starts = torch.randint(most, (SEQUENCES,), generator=self._order)
        loss = self._model(windows(self._shard.train, starts, self._length))
        self.inner.step(loss)
        return float(loss.detach())

    @torch.no_grad()
    def held_out_loss(self) -> float:
        """Loss of the weights as they are on text that no learner trains on, nats a byte."""
        return float(self._model(self._held_out))

    def load(self, path: Path) -> tuple[int, int]:
        """Go on where `save` was called; returns the step and the merges done by then.

        After a merge the own weights are the shared ones, and the order of the data is drawn from
        a generator of its own: this is all there is. Raises `InputError` when it does not fit.
        """
        state = read_checkpoint(path)
        try:
            self.outer.load_state_dict(state["outer"])
            self.outer.restore()
            self.inner.load_state(state["inner"])
            self._order.set_state(state["data_order"])
            return int(state["step"]), int(state["epoch"])
        except (KeyError, ValueError, RuntimeError) as error:
            msg = (
                f"the checkpoint {path} is not of this learner: {str(error).partition(chr(10))[0]}"
            )
            raise InputError(msg) from error

    def save(self, path: Path, order: MergeOrder) -> int:
        """Write all that this learner needs to go on after `order`; returns bytes."""
        state = {
            "merge_id": order.merge_id,
            "step": order.step,
            "epoch": order.epoch + 1,
            "outer": self.outer.state_dict(),
            "inner": self.inner.state(),
            "data_order": self._order.get_state(),
        }
        return write_checkpoint(path, state)
