"""Model, inner optimiser, text and the training they make."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import InputError
from trainer.inner import RowwiseAdagrad
from trainer.model import CharModel, ModelShape
from trainer.outer import OuterState
from trainer.settings import LearnerSettings
from trainer.text import Shard, read_text, windows
from trainer.training import Training

SMALL = LearnerSettings(learner="l", participants=["l"], parameters=20_000)


@pytest.mark.parametrize("parameters", [20_000, 31_234, 1_000_000])
def test_a_model_has_as_many_parameters_as_asked_for_less_than_a_row(parameters: int) -> None:
    shape = ModelShape.for_parameters(parameters)
    count = sum(p.numel() for p in CharModel(shape).parameters())
    assert parameters - shape.width < count <= parameters


def test_too_few_parameters_are_refused_with_the_least_that_works() -> None:
    with pytest.raises(InputError, match="the smallest model has") as refused:
        ModelShape.for_parameters(100)
    least = int(str(refused.value).split()[-1])
    assert ModelShape.for_parameters(least).rows == 1


def test_the_model_sees_nothing_of_what_comes_later() -> None:
    model = CharModel(ModelShape.for_parameters(20_000))
    text = torch.randint(256, (1, 64))
    other = text.clone()
    other[0, 40:] = (other[0, 40:] + 1) % 256
    before, after = model.logits(text), model.logits(other)
    torch.testing.assert_close(before[:, :40], after[:, :40])
    assert not torch.allclose(before[:, 40:], after[:, 40:])


def test_a_sparse_step_changes_only_the_rows_it_touched() -> None:
    table = torch.nn.Embedding(10, 4, sparse=True)
    before = table.weight.detach().clone()
    table(torch.tensor([2, 7, 7])).sum().backward()
    RowwiseAdagrad([table.weight], lr=0.1).step()
    changed = (table.weight != before).any(dim=1).nonzero().flatten().tolist()
    assert changed == [2, 7]
    # The first Adagrad step has length lr whatever the gradient's size.
    torch.testing.assert_close(before[7] - table.weight[7], torch.full((4,), 0.1))


@given(size=st.integers(6_000, 9_000), learners=st.integers(1, 5))
def test_shards_do_not_overlap_and_none_holds_the_held_out_end(size: int, learners: int) -> None:
    raw = bytes(number % 251 for number in range(size))
    shards = [Shard.cut(raw, rank, learners) for rank in range(learners)]
    joined = b"".join(bytes(shard.train.tolist()) for shard in shards)
    held_out = bytes(shards[0].held_out.tolist())
    assert raw.startswith(joined)
    assert raw.endswith(held_out)
    assert len(joined) + len(held_out) <= size
    assert len({len(shard.train) for shard in shards}) == 1


def test_no_paragraph_of_the_reference_is_both_trained_on_and_held_out() -> None:
    raw = read_text(None)
    paragraphs = raw.split(b"\n\n")
    assert len(paragraphs) == len(set(paragraphs))
    shards = [Shard.cut(raw, rank, 2) for rank in range(2)]
    held_out = bytes(shards[0].held_out.tolist()).split(b"\n\n")
    trained = b"".join(bytes(shard.train.tolist()) for shard in shards).split(b"\n\n")
    # The cuts themselves go through a paragraph.
    assert not set(held_out[1:]) & set(trained)


def test_windows_are_cut_at_their_starts() -> None:
    text = torch.arange(20, dtype=torch.uint8)
    assert windows(text, torch.tensor([0, 5]), 3).tolist() == [[0, 1, 2], [5, 6, 7]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot read the text .*: No such file"),
        (b"", "is empty; give one of at least 20000 to --text"),
        (b"x", "has 1 bytes; give one of at least 20000"),
        (b"x" * 30_000 + b"\0", "is no text: byte 30000 is zero"),
        (bytes(range(1, 256)) * 100, "is no text: .*% of it is no UTF-8 or control characters"),
        (bytes(range(1, 128)) * 200, "is no text: 21% of it is no UTF-8 or control"),
    ],
)
def test_a_text_that_cannot_be_trained_on_is_refused(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    if content is not None:
        (tmp_path / "t.txt").write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_text(tmp_path / "t.txt")
    with pytest.raises(InputError, match="Is a directory"):
        read_text(tmp_path)


@pytest.mark.parametrize(
    "raw",
    [
        "Приливы, отливы и стоячая вода. ".encode() * 500 + b"\xd0",
        "Ebbe, Flut und ruhiges Wasser, für später.\n".encode("latin-1") * 500,
    ],
)
def test_text_of_any_language_is_taken_cut_or_with_a_few_odd_bytes(
    tmp_path: Path, raw: bytes
) -> None:
    (tmp_path / "t.txt").write_bytes(raw)
    assert read_text(tmp_path / "t.txt") == raw


def test_a_text_too_short_for_so_many_learners_is_refused_for_all_of_them(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_bytes(b"word " * 4_000)
    raw = read_text(tmp_path / "t.txt")
    shard = Shard.cut(raw, 18, 19)
    assert Training(SMALL, shard, 18).step() > 0
    with pytest.raises(InputError, match="has 20000 bytes, too few for 20 learners"):
        Shard.cut(raw, 0, 20)


def test_training_learns_and_the_same_seed_gives_the_same_bits() -> None:
    raw = read_text(None)
    runs = [Training(SMALL, Shard.cut(raw, 0, 2), rank=0) for _ in range(2)]
    start = runs[0].held_out_loss()
    losses = [[run.step() for _ in range(60)] for run in runs]
    assert losses[0] == losses[1]
    weights = [torch.nn.utils.parameters_to_vector(run.model.parameters()) for run in runs]
    assert torch.equal(*weights)
    assert runs[0].held_out_loss() < start - 1.0


def test_learners_start_equal_and_see_different_text() -> None:
    raw = read_text(None)
    first, second = (Training(SMALL, Shard.cut(raw, rank, 2), rank) for rank in range(2))
    digests = [OuterState(*one.model.parameters()).digest() for one in (first, second)]
    assert digests[0] == digests[1]
    assert first.step() != second.step()
