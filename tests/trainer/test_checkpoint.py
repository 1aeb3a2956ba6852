"""A checkpoint is whole or absent."""

import errno
import os
from pathlib import Path

import pytest
import torch

from slackwater.attach import MergeOrder
from trainer.checkpoint import CheckpointError, write_checkpoint
from trainer.outer import OuterState
from trainer.settings import LearnerSettings
from trainer.text import Shard, read_text
from trainer.training import Training

ORDER = MergeOrder("m1", 20, 20, 0, "score", ("l",))


def test_a_checkpoint_holds_all_that_a_learner_needs_to_go_on(tmp_path: Path) -> None:
    settings = LearnerSettings(learner="l", participants=["l"], parameters=20_000)
    training = Training(settings, Shard.cut(read_text(None), 0, 1), rank=0)
    for _ in range(3):
        training.step()
    training.outer.apply(training.outer.pseudo_gradient())
    size = training.save(tmp_path / "l.pt", ORDER)
    assert size == (tmp_path / "l.pt").stat().st_size
    # Global weights and outer momentum: 8 bytes a parameter, and the small inner state.
    assert size > 8 * training.outer.parameters
    found = torch.load(tmp_path / "l.pt", weights_only=True)
    again = OuterState(torch.zeros(training.outer.parameters))
    again.load_state_dict(found["outer"])
    assert again.digest() == training.outer.digest()
    assert training.outer.momentum is not None
    assert torch.equal(again.momentum, training.outer.momentum)
    assert (found["merge_id"], found["step"], found["epoch"]) == ("m1", 20, 1)
    assert len(found["inner"]) == 2


def test_a_full_disk_leaves_the_checkpoint_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "l.pt"
    write_checkpoint(path, {"step": 1})

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match="No space left"):
        write_checkpoint(path, {"step": 2})
    assert torch.load(path, weights_only=True) == {"step": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_gone_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="change --checkpoint-dir"):
        write_checkpoint(tmp_path / "gone" / "l.pt", {})
