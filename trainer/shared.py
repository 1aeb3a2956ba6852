"""What all members hold alike, guarded: read by those who hand it over, changed by merges."""

import threading

from trainer.handover import SharedState
from trainer.outer import OuterState


class Shared:
    """The shared part of one learner's state, and where the learner stands.

    Hold `lock` while `outer` changes.

    Attributes:
        epoch: merges that the shared weights have been through.
        digest: of the shared weights.
        step, last_merge_step: this learner's.
    """

    def __init__(self, outer: OuterState) -> None:
        self.lock = threading.Lock()
        self._outer = outer
        self.epoch = 0
        self.digest = outer.digest()
        self.step = 0
        self.last_merge_step = 0

    def merged(self, step: int, epoch: int, digest: str) -> None:
        """A merge is done; call with `lock` held."""
        self.last_merge_step, self.epoch, self.digest = step, epoch, digest

    def stand(self, step: int, last_merge_step: int, epoch: int) -> None:
        """Go on from there, with the weights that `outer` has now."""
        with self.lock:
            self.step, self.last_merge_step, self.epoch = step, last_merge_step, epoch
            self.digest = self._outer.digest()

    def read(self) -> SharedState:
        """A copy."""
        with self.lock:
            return SharedState(
                epoch=self.epoch,
                step=self.step,
                last_merge_step=self.last_merge_step,
                digest=self.digest,
                tensors={name: one.clone() for name, one in self._outer.state_dict().items()},
            )

    def take(self, state: SharedState) -> None:
        """Go on from another member's shared state; raises `InputError` when it does not fit."""
        with self.lock:
            self._outer.load_state_dict(state.tensors)
            self._outer.restore()
            self.epoch, self.digest = state.epoch, self._outer.digest()
