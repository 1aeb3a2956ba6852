"""One decorator: a typed function, compiled by numba and kept on disk for the next process."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

P = ParamSpec("P")
R = TypeVar("R")
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile on first call; the machine code is cached beside the module or in the user's cache.

    Where neither folder can be written (a read-only container), each process compiles anew.
    """
    try:
        return cast(Callable[P, R], numba.njit(cache=True)(function))
    except RuntimeError:
        return cast(Callable[P, R], numba.njit(function))
