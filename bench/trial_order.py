"""Does the gate's step `order` keep a drifting server's gain from being claimed, and real ones in?

    make bench-trial-order ARGS="--trials 2000"

Trials are made up: blocks in the design's own random order, violations that scatter from run to
run, a gain of the policy or none, and a server that grows slower by so much a place or does not.
Printed is the share of trials whose sign-flip test claims a gain, without the step and with it.
"""

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calibration.gate import ALPHA
from calibration.paired import RunOutcome
from calibration.paired.order import drift_of, order_step
from calibration.paired.outcome import by_arm, pairs
from calibration.signflip import sign_flip
from sidecar.trial.design import TrialDesign, control_of

POLICY = "slack"
REQUESTS = 10_000
LEVEL_PP = 20.0
DESIGNS: dict[str, dict[str, tuple[str, ...]]] = {
    "two policies, fixed_h": {"policies": (POLICY, "wa_forecast"), "baselines": ("fixed_h",)},
    "one policy, fixed_h": {"policies": (POLICY,), "baselines": ("fixed_h",)},
    "one policy, none": {"policies": (POLICY,), "baselines": ("none",)},
}


@dataclass(frozen=True)
class World:
    """What is true of a made trial, percentage points.

    Attributes:
        gain_pp: of the policy over its control.
        slope_pp: that a later place in a block adds.
    """

    gain_pp: float
    slope_pp: float


WORLDS = (World(0, 0), World(0, 1), World(3, 0), World(5, 0), World(5, 1))


def main() -> None:
    """Make trials, judge them, print shares, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=2000, help="made in each world")
    parser.add_argument("--blocks", type=int, default=8, help="of a trial")
    parser.add_argument("--scatter-pp", type=float, default=2.0, help="standard deviation of a run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, default=Path("results/trial-order.json"))
    options = parser.parse_args()
    rows = [
        row(name, world, options, np.random.default_rng([options.seed, *at]))
        for at, (name, world) in zip(
            np.ndindex(len(DESIGNS), len(WORLDS)),
            ((name, world) for name in DESIGNS for world in WORLDS),
            strict=True,
        )
    ]
    given = {name: value for name, value in vars(options).items() if name != "json"}
    result = {"schema_version": 1, "options": given, "rows": rows}
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(result, indent=2) + "\n")


def row(
    name: str, world: World, options: argparse.Namespace, rng: np.random.Generator
) -> dict[str, Any]:
    """Share of claims in one world, printed as it is known."""
    claimed = np.array([claims(name, world, options, rng) for _ in range(options.trials)])
    plain, kept = claimed.mean(axis=0)
    print(
        f"{name:<22} gain {world.gain_pp:g} pp, {world.slope_pp:g} pp a place: claimed in "
        f"{plain:6.1%} without the step, {kept:6.1%} with it",
        flush=True,
    )
    return {"design": name, **asdict(world), "claimed": float(plain), "with_step": float(kept)}


def claims(
    name: str, world: World, options: argparse.Namespace, rng: np.random.Generator
) -> tuple[bool, bool]:
    """Whether one made trial claims the policy's gain, without the step and with it."""
    seed = int(rng.integers(1 << 31))
    arms = DESIGNS[name]
    design = TrialDesign(
        blocks=options.blocks, seed=seed, policies=arms["policies"], baselines=arms["baselines"]
    )
    outcomes = [
        RunOutcome(
            block=block,
            arm=arm,
            requests=REQUESTS,
            violations=REQUESTS / 100 * violations_pp(arm, place, world, options, rng),
            tokens=None,
            merges=0,
            place=place,
        )
        for block in range(options.blocks)
        for place, arm in enumerate(design.order(block))
    ]
    runs = pairs(by_arm(outcomes), POLICY, control_of(POLICY))
    test = sign_flip([c.violations_pp - p.violations_pp for p, c in runs], "two-sided", rng)
    claimed = test.mean > 0 and test.p_value <= ALPHA
    return claimed, claimed and bool(order_step(drift_of(outcomes, rng), runs, rng).passed)


def violations_pp(
    arm: str, place: int, world: World, options: argparse.Namespace, rng: np.random.Generator
) -> float:
    """Of one run."""
    gain_pp = world.gain_pp if arm == POLICY else 0.0
    return LEVEL_PP - gain_pp + world.slope_pp * place + float(rng.normal(0, options.scatter_pp))


if __name__ == "__main__":
    main()
