"""A callback for the Hugging Face Trainer: its job becomes a learner that merges by order."""

from collections.abc import Mapping
from typing import Any

from torch.optim import Optimizer

from trainer.adapters.membership import Membership
from trainer.adapters.needs import library
from trainer.join import Place
from trainer.peers import Peers

__all__ = ["MergeCallback", "Peers", "Place"]

_transformers = library("transformers", "transformers[torch]>=5")


class MergeCallback(Membership, _transformers.TrainerCallback):  # type: ignore[misc,name-defined]
    """Merges inside `optimizer.step()`; see `Membership` for the arguments.

        with Attachment(...) as attachment, MergeCallback(attachment, peers) as merges:
            Trainer(model, arguments, train_dataset=data, callbacks=[merges]).train()

    The loss is what the Trainer logs, so it is reported once for each `logging_steps`, at the step
    after. Tokens are counted when `include_num_input_tokens_seen` is set, else unknown.
    """

    _state: Any = None
    _loss: float | None = None
    _tokens_before = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Join the group with the model and optimiser that the Trainer has prepared."""
        self._state, self._tokens_before = state, state.num_input_tokens_seen
        optimizer = _bare(given["optimizer"])
        self.begin(given["model"], [optimizer], args.world_size, self._measure)

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, float], **given: Any
    ) -> None:
        """Take the training loss from the log; logs of an evaluation have none."""
        self._loss = logs.get("loss", self._loss)

    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Leave the group."""
        self.end()

    def _measure(self) -> Mapping[str, Any]:
        tokens = int(self._state.num_input_tokens_seen) - self._tokens_before
        self._tokens_before += tokens
        loss, self._loss = self._loss, None
        # No step is of no tokens: then they are not counted.
        return {"loss": loss, "tokens": tokens or None}


def _bare(optimizer: Any) -> Optimizer:
    """The optimiser that accelerate has wrapped: hooks belong to that one."""
    inner = getattr(optimizer, "optimizer", None)
    return _bare(inner) if isinstance(inner, Optimizer) else optimizer
