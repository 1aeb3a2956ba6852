"""Calibrations made up with a known truth: what a merge does to latency is given."""

from dataclasses import dataclass, field

import numpy as np

from calibration.effect import Block, Observed, Window

SETTLE_S = 2.0


@dataclass
class Made:
    """What a made calibration is like; `effect` multiplies the latency of whoever meets a merge.

    `drift` is the standard deviation of the logarithm of each block's speed.
    """

    effect: float = 1.0
    spread: float = 0.0
    drift: float = 0.0
    rounds: int = 4
    block_s: float = 25.0
    rate: float = 6.0
    latency_s: float = 0.1
    window_s: tuple[float, float] = (0.8, 1.6)
    arms: tuple[str, ...] = ("nothing", "learners", "merges")
    blocks: list[Block] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)

    def observed(self, rng: np.random.Generator) -> Observed:
        """One calibration; each round's arrivals are the same in all its arms."""
        parts, at_s = [], 0.0
        for number in range(self.rounds):
            length_s = SETTLE_S + self.block_s
            offsets = np.sort(rng.uniform(0, length_s, rng.poisson(self.rate * length_s)))
            for arm in rng.permutation(self.arms):
                self.blocks.append(
                    Block(str(arm), number, at_s + SETTLE_S, at_s + length_s)  # type: ignore[arg-type]
                )
                speed = np.exp(rng.normal(0, self.drift)) * self.latency_s
                latency_s = speed * np.exp(rng.normal(0, 0.35, len(offsets)))
                if arm == "merges":
                    latency_s = self._merged(at_s + offsets, latency_s, rng)
                parts.append((at_s + offsets, latency_s))
                at_s += length_s + 1
        arrival_s = np.concatenate([arrival for arrival, _ in parts])
        block = np.repeat(np.arange(len(parts)), [len(arrival) for arrival, _ in parts])
        return Observed(
            self.blocks,
            self.windows,
            arrival_s,
            arrival_s + np.concatenate([latency for _, latency in parts]),
            np.zeros(len(arrival_s), np.int64),
            np.full(len(arrival_s), 80),
            block,
        )

    def _merged(self, arrival_s, latency_s, rng):
        number, block = len(self.blocks) - 1, self.blocks[-1]
        start_s = block.start_s + rng.uniform(0.5, 3)
        while start_s + self.window_s[1] < block.end_s:
            end_s = start_s + rng.uniform(*self.window_s)
            self.windows.append(Window(number, start_s, end_s))
            met = (arrival_s < end_s) & (arrival_s + latency_s > start_s)
            harm = self.effect * np.exp(rng.normal(0, self.spread))
            latency_s = np.where(met, latency_s * harm, latency_s)
            start_s = end_s + rng.uniform(2, 5)
        return latency_s
