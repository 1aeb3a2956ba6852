"""A calibration's figures as a profile that `evaluate`, `testbed` and `stream` read."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calibration.effect import Contrast, Interval, Measured
    from calibration.measurement import Measurement, Ratio, Ratios
    from calibration.profile import ClosedLoopFigures, Effect, Profile
    from sidecar.experiment.record import Record

# Of these models nothing but what is written was measured.
UNMEASURED = {"queue": ("slots",), "closed_loop": ("schedule",)}


def profile_of(name: str, record: "Record", measured: "Measured") -> "Profile":
    """The profile: what merges did, and the serving models' figures that follow from it."""
    from calibration.profile import OverlapFigures, Profile, QueueFigures, check_profile

    merges = measured.effect.merges
    slower = max(1.0, merges.p50_ratio.value if merges.p50_ratio else 1.0)
    usual_s = merges.base_quantiles_s[0] or measured.slo_s
    spill_over_s = measured.effect.after.lasts_s
    return check_profile(
        Profile(
            name=name,
            slo_s=measured.slo_s,
            window_s=measured.window_s.value,
            overlap=OverlapFigures(slowdown=slower),
            queue=QueueFigures(service_s=usual_s, slowdown=slower),
            closed_loop=_closed_loop(measured),
            effect=_effect(merges),
            spill_over_s=spill_over_s or 0.0,
            measurement=_measurement(record, measured),
        ),
        "the measured profile",
    )


def _closed_loop(measured: "Measured") -> "ClosedLoopFigures":
    """Times without merges and in windows; the defaults where they cannot be told."""
    from calibration.profile import ClosedLoopFigures

    base, window = measured.base_spread, measured.window_spread
    if base is None or window is None:
        return ClosedLoopFigures()
    return ClosedLoopFigures(
        batch_s=base.mean_s,
        slowed_batch_s=max(base.mean_s, window.mean_s),
        scatter=base.scatter,
        slowed_scatter=window.scatter,
    )


def encoded(profile: "Profile") -> bytes:
    """The profile as JSON; figures of the serving models that were not measured are left out."""
    import msgspec

    from calibration.profile import ClosedLoopFigures

    held: dict[str, Any] = msgspec.to_builtins(profile)
    for part, names in UNMEASURED.items():
        held[part] = {key: value for key, value in held[part].items() if key not in names}
    if profile.closed_loop == ClosedLoopFigures():
        del held["closed_loop"]
    return msgspec.json.format(msgspec.json.encode(held), indent=2) + b"\n"


def written(path: Path, profile: "Profile") -> None:
    """Write a profile, whole or not at all; raises `SlackwaterError`."""
    from slackwater.cli.outputs import write_output

    write_output("--output", path, encoded(profile))


def ratios(found: "Contrast") -> "Ratios":
    """A contrast as the profile keeps it."""
    from calibration.measurement import Ratios

    return Ratios(
        requests=found.requests,
        base_requests=found.base_requests,
        p50_ratio=_ratio(found.p50_ratio),
        p95_ratio=_ratio(found.p95_ratio),
        p99_ratio=_ratio(found.p99_ratio),
        violating=found.violating,
        base_violating=found.base_violating,
        odds_ratio=_ratio(found.odds_ratio),
        excess_pp=_ratio(found.excess_pp),
    )


def _ratio(found: "Interval | None") -> "Ratio | None":
    from calibration.measurement import Ratio

    return None if found is None else Ratio(value=found.value, low=found.low, high=found.high)


def _effect(merges: "Contrast") -> "Effect | None":
    """None without intervals: of few merges or rounds the gate has nothing to go by."""
    from calibration.profile import Effect

    p95, odds = merges.p95_ratio, merges.odds_ratio
    if p95 is None or p95.low is None or p95.high is None or p95.low <= 0:
        return None
    known = odds is not None and odds.low is not None
    return Effect(
        merges=merges.merges,
        p95_ratio=p95.value,
        p95_ratio_low=p95.low,
        p95_ratio_high=p95.high,
        odds_ratio=odds.value if odds and known else None,
        odds_ratio_low=odds.low if odds and known else None,
        odds_ratio_high=odds.high if odds and known else None,
    )


def _measurement(record: "Record", measured: "Measured") -> "Measurement":
    from calibration.measurement import LoadEffect, Measurement, Ratio
    from sidecar.experiment.observing import accounts, discarded

    set_up, effect, window = record.set_up, measured.effect, measured.window_s
    p50, p95, p99 = (_ratio(one) for one in measured.base_s)
    return Measurement(
        started_us=set_up.started_us,
        measured_s=measured.measured_s,
        seed=set_up.design.seed,
        server=set_up.server,
        merging=set_up.merging,
        rate_per_s=set_up.design.rate_per_s,
        prompt_tokens=set_up.design.prompt_tokens,
        output_tokens=set_up.design.output_tokens,
        slo_given=measured.slo_given,
        merges=effect.merges.merges,
        merges_discarded=len(discarded(record)),
        window_s=Ratio(value=window.value, low=window.low, high=window.high),
        longest_window_s=measured.longest_window_s,
        p50_s=p50,
        p95_s=p95,
        p99_s=p99,
        merging_effect=ratios(effect.merges),
        learners_effect=ratios(effect.learners) if effect.learners else None,
        by_load=tuple(
            LoadEffect(
                level=one.level,
                least=one.least,
                most=one.most,
                merges=one.merges,
                ratios=ratios(one.contrast) if one.contrast else None,
            )
            for one in effect.by_load
        ),
        spill_over_s=effect.after.lasts_s,
        load_matched=measured.load.matched,
        load_reason=measured.load.reason,
        accounts={arm: asdict(account) for arm, account in accounts(record).items()},
        hardware=set_up.hardware,
        versions=set_up.versions,
        record=record.path.name,
        alone_per_s=set_up.options.get("alone_per_s"),
    )
