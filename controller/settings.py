"""Everything a decision depends on besides the observations, in one frozen struct."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from controller.switchback import Control

Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]


class ScoreWeights(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Weights and scales of the linear score; the defaults are the paper's.

    Each term is divided by its scale and capped to [0, 1] before it is weighted.
    `staleness_sign` is +1 where a stale learner should merge (the paper's text) and -1 as in its
    released controller.
    """

    loss: NotNegative = 0.5
    loss_scale: Positive = 0.05
    tokens: NotNegative = 0.5
    tokens_scale: Positive = 1e6
    network: NotNegative = 0.5
    serving: NotNegative = 0.75
    checkpoint: NotNegative = 0.25
    staleness: NotNegative = 0.25
    staleness_scale_s: Positive = 1800.0
    staleness_sign: Literal[-1, 1] = 1
    serving_sync: NotNegative = 1.0
    threshold: float = 0.0


class ControllerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of one merge group's decisions.

    Attributes:
        group: the merge group.
        min_gap_steps, max_gap_steps: the corridor, in inner steps.
        window_s: how long a merge occupies the hosts, until merges have been measured.
        spill_over_s: how much longer a merge is felt than it lasts; a part of every window's cost.
        measure_window: replace `window_s` by the smoothed duration of the merges reported.
        tick_s: event time between decisions.
        half_life_s: of the request-rate forecast (EWMA).
        command_lead_s: event time a command needs to reach every learner, at the least; where their
            answers were slower, more is allowed, up to half of the way to H_max.
        stale_after_s: a sidecar unheard for longer is stale, and its load unknown.
        sidecar_gone_s: a sidecar unheard for longer is no part of the group any more.
        learner_stale_s: a learner unheard for longer takes no part in new merges.
        step_time_spread: learners whose step times differ by more than this share of the shortest,
            or that stand as far apart as if they did, are commanded to a moment, each to merge at
            its own step; others to one step.
        expect_learners: no merge is commanded before so many have reported.
        quorum: once they have, merges go on with those who are there, as long as there are so many;
            None: more than half of `expect_learners`.
        history_s: how far back the distribution of forecast costs reaches.
        fixed_steps: the period of `fixed_h`.
        scheduled_steps: of the control `scheduled`: when it merges, in steps from the start.
        tokens_target: `adaptive_tokens` merges after so many tokens a learner; None: after what the
            middle of the corridor would bring at the learners' usual tokens a step.
        pressure_threshold: `pressure_gate` merges at or below it.
        deferral_probability: chance per tick in `random_deferral`; None spreads the coin evenly
            over the corridor.
        stopping_tau_s: how fast `slack` grows less choosy as H_max nears; from one look of
            `slack_markov` to the next, rounded to whole ticks.
        max_burden: no window is chosen that is expected to raise a sidecar's share of the harm
            above so many times its share of the requests, unless the worst-off gains by it; None
            for no bound. H_max forces and people order all the same.
        burden_half_life_s: a window and a request count half for that after so long.
        fallback: what decides while a sidecar's load is unknown, for a policy that needs it.
        weights: of the linear score.
        switchback: give each corridor interval by coin to the policy or to a random moment,
            `matched` to the policy's own gaps or `uniform` over the corridor (docs/switchback.md);
            None for the policy alone.
        switchback_share: probability that an interval is the policy's.
        seed: of the coins of `random_deferral` and of the switchback.
    """

    group: str = "default"
    min_gap_steps: Annotated[int, Meta(ge=1)] = 128
    max_gap_steps: Annotated[int, Meta(ge=1)] = 512
    window_s: Positive = 8.0
    spill_over_s: NotNegative = 0.0
    measure_window: bool = True
    tick_s: Annotated[float, Meta(ge=0.01)] = 0.25
    half_life_s: Positive = 4.0
    command_lead_s: NotNegative = 1.0
    stale_after_s: Positive = 2.0
    sidecar_gone_s: Positive = 600.0
    learner_stale_s: Positive = 10.0
    step_time_spread: NotNegative = 0.25
    expect_learners: Annotated[int, Meta(ge=0)] = 1
    quorum: Annotated[int, Meta(ge=1)] | None = None
    history_s: Positive = 1800.0
    fixed_steps: Annotated[int, Meta(ge=1)] = 256
    scheduled_steps: tuple[Annotated[int, Meta(ge=1)], ...] = ()
    tokens_target: Positive | None = None
    pressure_threshold: NotNegative = 0.5
    deferral_probability: Annotated[float, Meta(gt=0, le=1)] | None = None
    stopping_tau_s: Positive = 6.0
    max_burden: Annotated[float, Meta(gt=1)] | None = None
    burden_half_life_s: Positive = 1800.0
    fallback: Literal["h_max", "fixed_h", "adaptive_tokens", "random_deferral"] = "h_max"
    weights: ScoreWeights = ScoreWeights()
    switchback: Control | None = None
    switchback_share: Annotated[float, Meta(ge=0.1, le=0.9)] = 0.5
    seed: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)] = 0

    def __post_init__(self) -> None:
        if self.min_gap_steps > self.max_gap_steps:
            msg = (
                f"min_gap_steps {self.min_gap_steps} is above max_gap_steps "
                f"{self.max_gap_steps}; the corridor needs min <= max"
            )
            raise ValueError(msg)

    @classmethod
    def for_windows_of(cls, window_s: float) -> "ControllerSettings":
        """The defaults for windows of another length: what looks ahead or back goes with them."""
        usual = cls()
        scale = window_s / usual.window_s
        return cls(
            window_s=window_s,
            half_life_s=usual.half_life_s * scale,
            stopping_tau_s=usual.stopping_tau_s * scale,
        )

    @property
    def needed_learners(self) -> int:
        """How many learners a merge takes once all that are expected have been there."""
        return self.expect_learners // 2 + 1 if self.quorum is None else self.quorum
