"""The adapters without the libraries that they adapt: what is missing is said."""

import importlib
import logging
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from slackwater.attach import Attachment, Corridor
from slackwater.clock import RunClock
from slackwater.errors import InputError
from slackwater.settings import RunSettings
from trainer.adapters import needs
from trainer.adapters.membership import Membership
from trainer.cards import Solo

NOBODY = RunSettings(bootstrap="127.0.0.1:1")


@pytest.mark.parametrize(
    ("adapter", "library", "requirement"),
    [
        ("torchft", "torchft", "torchft==0.2.0"),
        ("huggingface", "transformers", "transformers[torch]>=5"),
        ("lightning", "lightning", "lightning>=2.6"),
    ],
)
def test_a_library_that_is_not_installed_is_named_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, adapter: str, library: str, requirement: str
) -> None:
    for name in [n for n in sys.modules if n.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, f"trainer.adapters.{adapter}", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Hidden(library), *sys.meta_path])
    with pytest.raises(InputError, match=f"^{library} is not installed; pip install"):
        importlib.import_module(f"trainer.adapters.{adapter}")
    with pytest.raises(InputError) as found:
        importlib.import_module(f"trainer.adapters.{adapter}")
    assert requirement in str(found.value)


class Hidden:
    """An import hook behind which one library is not installed."""

    def __init__(self, library: str) -> None:
        self._library = library

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] == self._library:
            raise ModuleNotFoundError(name=name)


def test_a_library_that_lacks_something_of_its_own_says_so_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [n for n in sys.modules if n.partition(".")[0] == "csv"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Hidden("_csv"), *sys.meta_path])
    monkeypatch.delitem(sys.modules, "_csv", raising=False)
    with pytest.raises(ModuleNotFoundError):
        needs.library("csv", "csv>=1")


def test_a_private_name_that_is_gone_names_the_release_that_has_it() -> None:
    owner = SimpleNamespace(prepare_sync=1)
    needs.check_names("torch", "0.2.0", owner, ("prepare_sync",), "Fragment")
    with pytest.raises(InputError) as found:
        needs.check_names("torch", "0.2.0", owner, ("prepare_sync", "perform_sync"), "Fragment")
    message = str(found.value)
    assert message.startswith("this adapter fits torch 0.2.0, and torch 2.")
    assert message.endswith("has no Fragment.perform_sync; pip install --no-deps torch==0.2.0")


def test_another_release_with_the_same_names_is_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "trainer.adapters"):
        needs.warn_of_another_release("torch", needs.release("torch"))
        assert caplog.messages == []
        needs.warn_of_another_release("no-such-thing", "0.2.0")
    assert caplog.messages == [
        "no-such-thing of unknown release is installed; this adapter was tried with 0.2.0 alone"
    ]


def alone(max_gap_steps: int) -> Attachment:
    return Attachment(NOBODY, "a", ["a"], Corridor(1, max_gap_steps), RunClock.real())


def test_a_member_merges_while_its_training_loop_runs_and_no_longer() -> None:
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with alone(3) as attachment, Membership(attachment, Solo()) as member:
        member.begin(model, [optimizer], 1, lambda: {"loss": 1.0, "tokens": 2})
        assert member.diloco is not None
        for _ in range(6):
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
        member.end()
        for _ in range(6):
            optimizer.step()
    assert member.diloco.epoch == 2
    assert member.diloco.steps == 6


def test_a_learner_of_several_processes_is_refused() -> None:
    member = Membership(alone(3), Solo())
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters())
    with pytest.raises(InputError, match="this learner has 4 processes"):
        member.begin(model, [optimizer], 4, dict)


def test_one_callback_is_for_one_training_loop() -> None:
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters())
    with alone(3) as attachment, Membership(attachment, Solo()) as member:
        member.begin(model, [optimizer], 1, dict)
        member.end()
        with pytest.raises(InputError, match="make a new one"):
            member.begin(model, [optimizer], 1, dict)


@pytest.mark.parametrize(("tokens_of", "tokens"), [(None, None), (len, 5)])
def test_lightnings_tokens_are_unknown_unless_it_is_told_how_to_count_them(
    monkeypatch: pytest.MonkeyPatch, tokens_of: Any, tokens: int | None
) -> None:
    # Of Lightning only the base of the callback is needed for this, which does nothing.
    base = ModuleType("lightning.pytorch")
    base.Callback = object  # type: ignore[attr-defined]
    for name in ("lightning", "lightning.pytorch"):
        monkeypatch.setitem(sys.modules, name, base)
    monkeypatch.delitem(sys.modules, "trainer.adapters.lightning", raising=False)
    adapter = importlib.import_module("trainer.adapters.lightning")
    del sys.modules["trainer.adapters.lightning"]
    callback = adapter.MergeCallback(alone(3), Solo(), tokens=tokens_of)
    for batch in ("ab", "cde"):
        callback.on_train_batch_start(None, None, batch, 0)
    assert callback._measure() == {"loss": None, "tokens": tokens}
