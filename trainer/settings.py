"""What one learner is told on its command line, checked before anything starts."""

from pathlib import Path

import msgspec

from slackwater.errors import InputError


class LearnerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the reference learner; all seconds are wall time.

    Attributes:
        learner: its name.
        participants: the learners that are expected, by rank.
        quorum: fewer learners do not merge; None for more than half of those expected.
        parameters: at most so many.
        step_s: an inner step takes at least this long; the rest of it is slept, standing for the
            learner's own accelerator.
        min_gap_steps: H_min.
        max_gap_steps: H_max.
        max_steps: ends after so many steps; None for no limit.
        duration_s: ends after so long; None for no limit.
        checkpoint_dir: where the checkpoint is kept; None for a folder that goes with the process.
        checkpoint_every_steps: the checkpoint is written after so many inner steps without one, and
            at the end; None for merges alone.
        resume: go on from the checkpoint in `checkpoint_dir`; from the start when there is none.
        text: file to train on; None for Python's language reference.
        seed: of the first weights, and with the rank of the order of the data.
        peer_timeout_s: how long a merge may take, waiting for others included.
        network_bytes_per_s: what the network can carry in one direction; None: the network's
            pressure is unknown.
        join_timeout_s: how long to wait for the others at the start; then a quorum begins.
    """

    learner: str
    participants: list[str]
    quorum: int | None = None
    parameters: int = 8_000_000
    step_s: float = 0.03
    min_gap_steps: int = 128
    max_gap_steps: int = 512
    max_steps: int | None = None
    duration_s: float | None = None
    checkpoint_dir: Path | None = None
    checkpoint_every_steps: int | None = None
    resume: bool = False
    text: Path | None = None
    seed: int = 0
    peer_timeout_s: float = 10.0
    join_timeout_s: float = 60.0
    network_bytes_per_s: float | None = None

    @property
    def needed(self) -> int:
        """How many it takes to merge.

        More than half by default. A single learner's "merge" would be its own drift with the
        outer optimiser on top, and a merge of few out of many moves the shared weights by what
        few have seen; so without a majority the learners train on, and say at each H_max that they
        did not merge and why.
        """
        return len(self.participants) // 2 + 1 if self.quorum is None else self.quorum

    def check(self) -> None:
        """Raise `InputError` for a value that cannot be."""
        above_zero = {
            "--peer-timeout": self.peer_timeout_s,
            "--join-timeout": self.join_timeout_s,
            "--max-steps": self.max_steps,
            "--duration": self.duration_s,
            "--checkpoint-every-steps": self.checkpoint_every_steps,
        }
        for option, value in above_zero.items():
            if value is not None and not value > 0:
                msg = f"{option} is {value:g}; it must be above 0"
                raise InputError(msg)
        if not 1 <= self.needed <= len(self.participants):
            msg = (
                f"--quorum is {self.quorum}; it must be from 1 to the number of --participants, "
                f"{len(self.participants)}"
            )
            raise InputError(msg)
        if not self.step_s >= 0:
            msg = f"--step-s is {self.step_s:g}; it must be 0 or more seconds"
            raise InputError(msg)
        if self.resume and self.checkpoint_dir is None:
            msg = "--resume needs the --checkpoint-dir that holds the checkpoint"
            raise InputError(msg)
        if self.checkpoint_every_steps is not None and self.checkpoint_dir is None:
            msg = "--checkpoint-every-steps needs a --checkpoint-dir that outlives the process"
            raise InputError(msg)

    def check_place(self, rank: int, world_size: int) -> None:
        """Raise `InputError` when participants and torchrun's variables tell different stories."""
        names = self.participants
        if len(set(names)) != len(names):
            msg = f"--participants {','.join(names)} names a learner twice"
            raise InputError(msg)
        if len(names) != world_size:
            msg = (
                f"--participants names {len(names)} learners but WORLD_SIZE is {world_size}; "
                "start each learner with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set"
            )
            raise InputError(msg)
        if names[rank] != self.learner:
            msg = (
                f"RANK {rank} is {names[rank]} in --participants, but --learner is {self.learner}; "
                "order the participants by rank"
            )
            raise InputError(msg)
