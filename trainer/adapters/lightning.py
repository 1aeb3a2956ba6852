"""A callback for Lightning: its job becomes a learner that merges by order."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from trainer.adapters.membership import Membership
from trainer.adapters.needs import library
from trainer.join import Place
from trainer.peers import Peers

__all__ = ["MergeCallback", "Peers", "Place"]

_lightning = library("lightning.pytorch", "lightning>=2.6")


class MergeCallback(Membership, _lightning.Callback):  # type: ignore[misc,name-defined]
    """Merges inside `optimizer.step()`; see `Membership` for the arguments it shares.

        with Attachment(...) as attachment, MergeCallback(attachment, peers) as merges:
            lightning.Trainer(callbacks=[merges]).fit(module, data)

    The loss is what was propagated back for the step, added up over its batches.

    Args:
        tokens: of a batch, as the loader gives it; None when they are unknown.
    """

    def __init__(
        self, *given: Any, tokens: Callable[[Any], int] | None = None, **options: Any
    ) -> None:
        super().__init__(*given, **options)
        self._tokens_of = tokens
        self._loss: torch.Tensor | None = None
        self._tokens = 0

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Join the group with the module and optimisers that the Trainer has prepared."""
        self.begin(pl_module, trainer.optimizers, trainer.world_size, self._measure)

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        """Count the batch's tokens."""
        if self._tokens_of is not None:
            self._tokens += self._tokens_of(batch)

    def on_before_backward(self, trainer: Any, pl_module: Any, loss: torch.Tensor) -> None:
        """Keep the loss: Lightning has divided it by the batches of the step."""
        loss = loss.detach()
        self._loss = loss if self._loss is None else self._loss + loss

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Leave the group."""
        self.end()

    def _measure(self) -> Mapping[str, Any]:
        # Tokens that nobody counts are unknown: 0 would weigh nothing in a merge.
        tokens = None if self._tokens_of is None else self._tokens
        said = {"loss": self._loss, "tokens": tokens}
        self._loss, self._tokens = None, 0
        return said
