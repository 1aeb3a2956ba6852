"""A checkpoint is whole or absent."""

import errno
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

import trainer.alone
from slackwater.attach import Attachment, Corridor
from slackwater.clock import RunClock
from slackwater.errors import InputError
from slackwater.settings import RunSettings
from trainer.cards import Solo
from trainer.checkpoint import TREE as TREE_TEXT
from trainer.checkpoint import CheckpointError, read_checkpoint, write_checkpoint
from trainer.diloco import DiLoCo
from trainer.outer import OuterState
from trainer.settings import LearnerSettings
from trainer.tensorfile import read_tensors, write_tensors
from trainer.text import Shard, read_text
from trainer.training import Training


def test_a_checkpoint_of_a_merge_holds_all_that_a_learner_needs_to_go_on(tmp_path: Path) -> None:
    settings = LearnerSettings(learner="l", participants=["l"], parameters=20_000)
    training = Training(settings, Shard.cut(read_text(None), 0, 1), rank=0)
    nowhere, path = RunSettings(bootstrap="127.0.0.1:9"), tmp_path / "l.safetensors"
    attachment = Attachment(nowhere, "l", ["l"], Corridor(1, 3), RunClock.real())
    diloco = DiLoCo(
        training.model,
        training.inner.parts,
        attachment,
        Solo(),
        checkpoint=path,
        stateful={"data": training},
    )
    with diloco:
        for _ in range(3):
            training.step()
    found = read_checkpoint(path)
    # Global weights and outer momentum: 8 bytes a parameter. The local weights are the global ones.
    assert path.stat().st_size > 8 * diloco.outer.parameters
    assert found["model"] == {}
    again = OuterState(torch.zeros(diloco.outer.parameters))
    again.load_state_dict(found["outer"])
    assert again.digest() == diloco.outer.digest()
    assert again.momentum is not None
    assert bool(again.momentum.any())
    assert (found["step"], found["last_merge_step"], found["epoch"]) == (3, 3, 1)
    assert len(found["optimizers"]) == 2


def test_a_full_disk_leaves_the_checkpoint_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "l.safetensors"
    write_checkpoint(path, {"step": 1})

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match="No space left"):
        write_checkpoint(path, {"step": 2})
    assert read_checkpoint(path) == {"step": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_gone_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="change --checkpoint-dir"):
        write_checkpoint(tmp_path / "gone" / "l.safetensors", {})


TREE = {
    "none": None,
    "numbers": [True, 1, 0.1, float("inf"), (2, ("x",))],
    "state": {0: {"step": torch.tensor(3.0)}, 1: {}},
    "empty": torch.zeros(0, 3),
    "views": [torch.arange(6).view(2, 3).T, torch.arange(4, dtype=torch.bfloat16)[1:3]],
    "small": [torch.tensor([True, False]), torch.tensor([1, 2], dtype=torch.uint8)],
}


def same(one: object, other: object) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.dtype is other.dtype and torch.equal(one, other)
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return type(one) is type(other) and all(map(same, one, other)) and len(one) == len(other)
    return type(one) is type(other) and one == other


def test_a_tree_comes_back_as_it_was(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "c.safetensors", TREE)
    assert same(read_checkpoint(tmp_path / "c.safetensors"), TREE)


def test_a_tensor_that_comes_twice_is_kept_once(tmp_path: Path) -> None:
    tied = torch.randn(10_000)
    size = write_checkpoint(tmp_path / "c.safetensors", {"enter": tied, "leave": tied})
    assert size < 50_000
    found = read_checkpoint(tmp_path / "c.safetensors")
    assert torch.equal(found["enter"], tied)
    assert torch.equal(found["leave"], tied)


def test_the_safetensors_library_reads_what_is_written_and_the_reverse(tmp_path: Path) -> None:
    library = pytest.importorskip("safetensors.torch")
    tensors = {"a": torch.randn(3, 4), "b": torch.arange(5, dtype=torch.bfloat16)}
    write_checkpoint(tmp_path / "ours.safetensors", tensors)
    theirs = library.load_file(tmp_path / "ours.safetensors")
    assert same(dict(sorted(theirs.items())), tensors)
    library.save_file(tensors, tmp_path / "theirs.safetensors", {"x": "y"})
    found, text = read_tensors(tmp_path / "theirs.safetensors")
    assert same(dict(sorted(found.items())), tensors)
    assert text == {"x": "y"}


def cut(raw: bytes) -> bytes:
    return raw[:-1]


def no_header(_raw: bytes) -> bytes:
    return b"PK" * 40


def other_tree(raw: bytes) -> bytes:
    return raw.replace(b"slackwater.checkpoint", b"slackwater.checkpoinx")


def unknown_type(raw: bytes) -> bytes:
    return raw.replace(b'"F32"', b'"C64"')


def zeros_at_the_end(raw: bytes) -> bytes:
    return raw[:-8] + bytes(8)


def ones_in_the_middle(raw: bytes) -> bytes:
    return raw[:-12] + b"\xff" * 8 + raw[-4:]


def other_number(raw: bytes) -> bytes:
    return raw.replace(b"4711", b"4712")


def other_checksum(raw: bytes) -> bytes:
    at = raw.index(b"slackwater.crc32") + 20
    return raw[:at] + b"x" + raw[at + 1 :]


def no_checksum(raw: bytes) -> bytes:
    return raw.replace(b"slackwater.crc32", b"slackwater.crc64")


def list_for_a_header(_raw: bytes) -> bytes:
    return struct.pack("<Q", 8) + b"[]      "


def number_for_a_tensor(_raw: bytes) -> bytes:
    return struct.pack("<Q", 8) + b'{"a": 1}'


def no_offsets(_raw: bytes) -> bytes:
    return struct.pack("<Q", 16) + b'{"a": {}}       '


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (cut, "ends 1 bytes too early"),
        (no_header, "longer than the file"),
        (other_tree, "c.safetensors is damaged: its content has the checksum"),
        (zeros_at_the_end, "c.safetensors is damaged: .*; take another copy of it, or move it"),
        (ones_in_the_middle, "is damaged"),
        (other_number, "is damaged"),
        (other_checksum, "is damaged"),
        (no_checksum, "it has no slackwater.crc32"),
        (list_for_a_header, "its header is no JSON object"),
        (number_for_a_tensor, "parts that are no JSON objects"),
        (no_offsets, "lacks 'data_offsets'"),
        (unknown_type, "type C64 are unknown"),
    ],
)
def test_a_spoilt_checkpoint_is_refused_in_one_line(
    tmp_path: Path, spoil: Callable[[bytes], bytes], message: str
) -> None:
    path = tmp_path / "c.safetensors"
    write_checkpoint(path, {"step": 4711, "weights": torch.ones(3)})
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(InputError, match=message):
        read_checkpoint(path)
    with pytest.raises(InputError, match="No such file"):
        read_checkpoint(tmp_path / "other")


@pytest.mark.parametrize(
    ("tree", "message"),
    [('{"dict": [["w", {"tensor": "v"}]]}', "it has no tensor v"), (None, "no slackwater.check")],
)
def test_a_tree_that_hangs_in_the_air_is_refused(
    tmp_path: Path, tree: str | None, message: str
) -> None:
    path = tmp_path / "c.safetensors"
    with path.open("wb") as file:
        write_tensors(file, {"w": torch.ones(3)}, {} if tree is None else {TREE_TEXT: tree})
    with pytest.raises(InputError, match=f"is no checkpoint of a learner: .*{message}"):
        read_checkpoint(path)


def test_what_is_no_regular_file_is_neither_written_nor_read(tmp_path: Path) -> None:
    pipe, link, folder = tmp_path / "pipe", tmp_path / "link", tmp_path / "folder"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    folder.mkdir()
    for path in (pipe, link, folder):
        with pytest.raises(InputError, match="is no regular file; give the checkpoint another"):
            write_checkpoint(path, {"step": 1})
        with pytest.raises(InputError, match="is no regular file"):
            read_checkpoint(path)
    assert pipe.is_fifo()
    assert sorted(tmp_path.iterdir()) == [folder, link, pipe]


def test_many_who_write_one_checkpoint_all_do_and_leave_one_whole(tmp_path: Path) -> None:
    path = tmp_path / "c.safetensors"
    # What one that was killed has left, longer than what comes.
    (tmp_path / "c.safetensors.tmp").write_bytes(b"x" * 100_000)

    def write(number: int) -> None:
        for _ in range(5):
            write_checkpoint(path, {"own": number, "weights": torch.full((1_000,), number)})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    found = read_checkpoint(path)
    assert torch.equal(found["weights"], torch.full((1_000,), found["own"]))
    assert list(tmp_path.iterdir()) == [path]


HOLDER = """
import fcntl, sys, time
file = open(sys.argv[1], "wb")
fcntl.flock(file, fcntl.LOCK_EX)
file.write(b"half a checkpoint")
file.flush()
print("held", flush=True)
sys.stdin.read()
"""


def test_a_writer_that_stands_still_is_named_and_once_killed_blocks_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "trainer")
    monkeypatch.setattr(trainer.alone, "PATIENCE_S", 0.05)
    monkeypatch.setattr(trainer.alone, "SAY_AFTER_S", 0.0)
    path = tmp_path / "c.safetensors"
    command = [sys.executable, "-c", HOLDER, f"{path}.tmp"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as holder:  # type: ignore[call-overload]
        try:
            assert holder.stdout.readline() == b"held\n"
            holder.send_signal(signal.SIGSTOP)
            with pytest.raises(CheckpointError, match=f"process {holder.pid} has had .*; end it"):
                write_checkpoint(path, TREE)
            assert f"process {holder.pid} writes" in caplog.text
        finally:
            holder.kill()
    write_checkpoint(path, TREE)
    assert same(read_checkpoint(path), TREE)
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_checkpoint_cannot_hold_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"data\.clock is a object"):
        write_checkpoint(tmp_path / "c.safetensors", {"data": {"clock": object()}})
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_named_tmp_is_written_aside_as_well(tmp_path: Path) -> None:
    path = tmp_path / "a.tmp"
    write_checkpoint(path, {"step": 1})
    with pytest.raises(CheckpointError):
        write_checkpoint(path, {"step": object()})
    assert read_checkpoint(path) == {"step": 1}
