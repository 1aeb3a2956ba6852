"""What may be tuned of each policy, and the ranges that are searched."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from controller.settings import ControllerSettings
from slackwater.errors import InputError

DIGITS = 4
SHARING = 4
Values = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: a field of the settings, `weights.` before one of the score's.

    Attributes:
        name: dotted path in `ControllerSettings`.
        low: least value searched.
        high: largest.
        log: whether its logarithm is searched evenly.
        steps: the only values searched, ascending; each costs a pass of its own over the signals.
    """

    name: str
    low: float
    high: float
    log: bool = False
    steps: tuple[float, ...] = ()

    def at(self, unit: float) -> float:
        """The value at a place of the range from 0 to 1, in 4 significant digits."""
        unit = min(1.0, max(0.0, unit))
        if self.steps:
            return self.steps[min(len(self.steps) - 1, int(unit * len(self.steps)))]
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        value = low + unit * (high - low)
        return _rounded(math.exp(value) if self.log else value)

    def moved(self, value: float, by: float) -> float:
        """The value `by` of the range away; of `steps`, the next one in that direction."""
        if self.steps:
            nearest = min(range(len(self.steps)), key=lambda i: abs(self.steps[i] - value))
            to = nearest + (1 if by > 0 else -1)
            return self.steps[min(len(self.steps) - 1, max(0, to))]
        return self.at(self._unit(value) + by)

    def _unit(self, value: float) -> float:
        if self.log:
            value = min(self.high, max(self.low, value))
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


HALF_LIFE = Parameter("half_life_s", 1.0, 16.0, steps=(1.0, 2.0, 4.0, 8.0, 16.0))
HISTORY = Parameter("history_s", 300.0, 1800.0, steps=(300.0, 600.0, 1200.0, 1800.0))
SCORE = (
    Parameter("weights.threshold", -1.0, 1.0),
    Parameter("weights.tokens", 0.0, 2.0),
    Parameter("weights.staleness", 0.0, 2.0),
)
SPACES: dict[str, tuple[Parameter, ...]] = {
    "pressure_gate": (Parameter("pressure_threshold", 0.0, 1.0),),
    "wa_diloco": (*SCORE, Parameter("weights.serving", 0.05, 4.0, log=True)),
    "wa_forecast": (*SCORE, Parameter("weights.serving_sync", 0.05, 4.0, log=True)),
    "slack": (Parameter("stopping_tau_s", 0.5, 60.0, log=True), HALF_LIFE, HISTORY),
}
SIGNALS = {HALF_LIFE.name, HISTORY.name}
"""Parameters that change what every policy sees, not only what this one makes of it."""


def space_of(policy: str) -> tuple[Parameter, ...]:
    """The parameters of a policy; raises `InputError` for one that has none to tune."""
    if policy not in SPACES:
        msg = f"policy {policy!r} cannot be tuned; choose one of {', '.join(SPACES)}"
        raise InputError(msg)
    return SPACES[policy]


def values_of(settings: ControllerSettings, space: Sequence[Parameter]) -> Values:
    """The values that the settings have now."""
    tree = msgspec.to_builtins(settings)
    return tuple(float(_at(tree, p.name)) for p in space)


def with_values(
    settings: ControllerSettings, found: Mapping[str, float], where: str = "settings"
) -> ControllerSettings:
    """The settings with these values by dotted name; raises `InputError` for impossible ones."""
    tree = msgspec.to_builtins(settings)
    for name, value in found.items():
        *parents, last = name.split(".")
        place = tree
        for parent in parents:
            place = place[parent]
        place[last] = value
    try:
        return msgspec.convert(tree, ControllerSettings)
    except msgspec.ValidationError as error:
        msg = f"{where}: a setting cannot be used: {error}"
        raise InputError(msg) from None


def drawn(
    space: Sequence[Parameter], number: int, start: Values, rng: np.random.Generator
) -> list[Values]:
    """Random candidates, evenly over the space; every four share their signals.

    A pass over the signals costs as much as ten candidates, so its parameters are drawn seldom;
    the first four share those of `start`.
    """
    candidates, shared = [], dict(zip((p.name for p in space), start, strict=True))
    for index in range(number):
        if index and index % SHARING == 0:
            shared = {p.name: p.at(rng.random()) for p in space if p.name in SIGNALS}
        own = [shared[p.name] if p.name in SIGNALS else p.at(rng.random()) for p in space]
        candidates.append(tuple(own))
    return candidates


def neighbours(space: Sequence[Parameter], at: Values, step: float) -> list[Values]:
    """The candidates one step away along each parameter, in both directions."""
    found = []
    for index, parameter in enumerate(space):
        for by in (-step, step):
            value = parameter.moved(at[index], by)
            if value != at[index]:
                found.append((*at[:index], value, *at[index + 1 :]))
    return found


def _at(tree: dict[str, Any], path: str) -> Any:
    value: Any = tree
    for name in path.split("."):
        value = value[name]
    return value
