"""torchft's DiLoCo, merging when Slackwater says so instead of every `sync_every` steps.

torchft keeps what it does best: its quorum decides who takes part, it averages, steps and heals a
replica that fell behind. This class only chooses the moment. It uses names that are private in
torchft, so it fits one release, and says so when another one differs.
"""

import hashlib
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from slackwater.attach import H_MAX, Attachment, MergeOrder
from slackwater.errors import InputError
from trainer.adapters.needs import check_names, library, warn_of_another_release

FITS = "0.2.0"
DILOCO_NAMES = ("__enter__", "_step_pre_hook", "_step_post_hook", "_restore_parameters")
OBJECT_NAMES = ("_fragments", "_local_optimizer", "_local_step", "_manager")
FRAGMENT_NAMES = ("_model_fragment", "original_parameters", "perform_sync", "prepare_sync")
MANAGER_NAMES = (
    "_quorum_future",
    "allow_state_dict_read",
    "allreduce",
    "current_step",
    "errored",
    "num_participants",
    "report_error",
    "should_commit",
    "start_quorum",
)

_local_sgd = library("torchft.local_sgd", f"torchft=={FITS}")
check_names("torchft", FITS, _local_sgd, ("DiLoCo",), "local_sgd")
check_names("torchft", FITS, _local_sgd.DiLoCo, DILOCO_NAMES, "local_sgd.DiLoCo")


class OnDemandDiLoCo(_local_sgd.DiLoCo):  # type: ignore[misc,name-defined]
    """A `torchft.local_sgd.DiLoCo` whose merges are ordered by an attachment.

    A context manager around the training loop, like torchft's own. H_max takes the place of
    `sync_every`; it is the attachment's.

        with OnDemandDiLoCo(manager, [model], inner, outer, attachment=attachment) as diloco:
            for batch in batches:
                loss = train(batch)
                diloco.report(loss=loss, tokens=batch.numel())
                inner.step()  # Reports the step, and merges when it is time.

    Args:
        manager: torchft's, with `use_async_quorum=False`.
        model_fragments: the model, in one piece.
        inner_optimizer: its `step` is what counts as an inner step.
        outer_optimizer: over the model's parameters.
        attachment: gives the orders and is told what came of them; entered by the caller.
        quorum_timeout_s: how long a merge waits for the other replicas, wall time.
        speed: seconds of event time in one of wall time.
        options: torchft's own, but for `sync_every` and `fragment_sync_delay`.

    Raises `InputError` for several fragments, or another torchft whose names differ.
    """

    def __init__(
        self,
        manager: Any,
        model_fragments: Sequence[torch.nn.Module],
        inner_optimizer: torch.optim.Optimizer,
        outer_optimizer: torch.optim.Optimizer | list[torch.optim.Optimizer],
        *,
        attachment: Attachment,
        quorum_timeout_s: float = 10.0,
        speed: float = 1.0,
        **options: Any,
    ) -> None:
        warn_of_another_release("torchft", FITS)
        _check_options(model_fragments, options)
        super().__init__(
            manager,
            list(model_fragments),
            inner_optimizer,
            outer_optimizer,
            sync_every=attachment.corridor.max_gap_steps,
            **options,
        )
        check_names("torchft", FITS, self, OBJECT_NAMES, "local_sgd.DiLoCo")
        self._fragment = self._fragments[0]
        check_names("torchft", FITS, self._fragment, FRAGMENT_NAMES, "local_sgd.DiLoCo fragment")
        check_names("torchft", FITS, manager, MANAGER_NAMES, "manager.Manager")
        self._attachment = attachment
        self._quorum_timeout = timedelta(seconds=quorum_timeout_s)
        self._speed = speed
        self.steps = 0
        self.report()

    def report(self, *, loss: float | torch.Tensor | None = None, tokens: int = 0) -> None:
        """What the inner step to come is about; call it before `inner_optimizer.step()`."""
        self._loss = loss.item() if isinstance(loss, torch.Tensor) else loss
        self._tokens = tokens

    def _step_post_hook(self, _optim: Any, _args: Any, _kwargs: Any) -> None:
        self._manager.allow_state_dict_read()
        self.steps += 1
        self._local_step += 1
        order = self._attachment.on_step(self.steps, self._loss, self._tokens)
        self.report()
        if order is not None:
            refusal = self._merge(order)
            if refusal is not None:
                self._attachment.skipped(order, refusal)

    def _merge(self, order: MergeOrder) -> str | None:
        """Merge and report; returns why not, when the group did not."""
        begun_at = self._manager.current_step()
        refusal = self._start_quorum() or self._agree(order)
        if refusal is not None:
            return refusal
        healed = self._manager.current_step() != begun_at
        self._attachment.started(order)
        start = time.monotonic()
        self._fragment.prepare_sync()
        committed = self._fragment.perform_sync()
        self._local_step = 0
        if not committed:
            return f"not_committed: weights are those of the last merge again; {self._error()}"
        seconds = (time.monotonic() - start) * self._speed
        self._attachment.finished(
            order,
            seconds=seconds,
            bytes_exchanged=sum(t.nbytes for t in self._shared()),
            parameters=sum(t.numel() for t in self._shared()),
            digest=self.digest(),
            note=self._note(order, healed=healed),
        )
        return None

    def _start_quorum(self) -> str | None:
        """Meet the other replicas; returns who is missing when they do not come."""
        try:
            self._manager.start_quorum(timeout=self._quorum_timeout)
        except (RuntimeError, TimeoutError, OSError) as error:
            # The manager would raise this one again at the next quorum.
            self._manager._quorum_future = None
            return f"no_quorum: {_first_line(error)}"
        return None

    def _agree(self, order: MergeOrder) -> str | None:
        """See whether all came for this merge, with weights that are finite; the same on all.

        The largest of (x, -x) over the group shows the largest and the smallest x: they are equal
        when all have the same. After a refusal nothing has changed, but for weights that were not
        finite: those are the last shared ones again.
        """
        finite = all(bool(torch.isfinite(p).all()) for p in self._parameters())
        # Replicas that count other steps come to H_max under other names.
        name = H_MAX if order.forced else order.merge_id
        mine = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=7).digest())
        seen = torch.tensor([mine, -mine, int(not finite)], device=self._parameters()[0].device)
        self._manager.allreduce(seen, reduce_op=dist.ReduceOp.MAX).wait()
        if not finite:
            # They never become finite again by training, nor does what the optimiser has of them.
            self._restore_parameters()
            self._local_optimizer.state.clear()
        if self._manager.errored() is not None:
            reason = f"peer_lost: {self._error()}"
        elif int(seen[0]) != -int(seen[1]):
            reason = "mismatch: a peer came for another merge"
        elif int(seen[2]):
            reason = "not_finite: a learner's weights are not finite"
        else:
            return None
        self._manager.report_error(RuntimeError(reason))
        self._manager.should_commit()
        return reason

    def digest(self) -> str:
        """Of the weights that the group shares, equal on all learners that hold the same bits."""
        found = hashlib.blake2b(digest_size=16)
        for tensor in self._shared():
            found.update(tensor.contiguous().view(-1).view(torch.uint8).numpy().data)
        return found.hexdigest()

    def _shared(self) -> list[torch.Tensor]:
        return [t.cpu() for t in self._fragment.original_parameters.values()]

    def _parameters(self) -> list[torch.Tensor]:
        return list(self._fragment._model_fragment.parameters())

    def _note(self, order: MergeOrder, *, healed: bool) -> str | None:
        notes = []
        there = self._manager.num_participants()
        if there != len(order.participants):
            notes.append(f"{there} of {len(order.participants)} learners")
        if healed:
            notes.append("this learner took over a peer's state first")
        return "; ".join(notes) or None

    def _error(self) -> str:
        error = self._manager.errored()
        if error is None:
            return f"{self._manager.num_participants()} replicas were there"
        return _first_line(error.original_exception)


def _check_options(fragments: Sequence[torch.nn.Module], options: dict[str, Any]) -> None:
    if len(fragments) != 1:
        msg = f"model_fragments has {len(fragments)} parts; give the whole model as one"
        raise InputError(msg)
    for name in ("sync_every", "fragment_sync_delay"):
        if name in options:
            msg = f"{name} is not this class's to set; merges come by order, at H_max the latest"
            raise InputError(msg)


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0][:120] or type(error).__name__
