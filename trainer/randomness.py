"""The state of every random generator that a training loop is likely to draw from."""

import random
import sys
from collections.abc import Mapping
from typing import Any

import torch


def random_state() -> dict[str, Any]:
    """Of torch on the CPU and each accelerator, of `random`, and of numpy where it is loaded."""
    state: dict[str, Any] = {"torch": torch.get_rng_state(), "python": random.getstate()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    if "numpy" in sys.modules:
        import numpy as np

        found: Any = np.random.get_state(legacy=True)
        kind, keys, *rest = found
        state["numpy"] = (kind, torch.from_numpy(keys.astype(np.int64)), *rest)
    return state


def restore_random_state(state: Mapping[str, Any]) -> None:
    """Go on drawing where `random_state` was taken."""
    torch.set_rng_state(state["torch"])
    random.setstate(state["python"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])
    if "numpy" in state:
        import numpy as np

        kind, keys, *rest = state["numpy"]
        np.random.set_state((kind, keys.numpy().astype(np.uint32), *rest))
