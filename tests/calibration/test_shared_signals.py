"""Policies share their signals where, and only where, the settings that these rest on agree."""

from dataclasses import fields, replace

import msgspec
import numpy as np
import pytest
from small_runs import bursty_requests, entrants

from calibration.observed import BIN_S, observed_bins
from calibration.simulate import alike
from controller.outlook import Outlook, OutlookSettings
from controller.settings import ControllerSettings

RESTS_ON = {field.name for field in fields(OutlookSettings)}
NUMBERS = [f.name for f in msgspec.structs.fields(ControllerSettings) if f.type is not bool
           and isinstance(f.default, float | int)]  # fmt: skip


class Watched:
    """Settings that note which of them are read."""

    def __init__(self, settings: ControllerSettings) -> None:
        self._settings = settings
        self.read: set[str] = set()

    def __getattr__(self, name: str) -> object:
        self.read.add(name)
        return getattr(self._settings, name)


def test_outlook_reads_all_the_settings_it_names_and_no_other() -> None:
    watched = Watched(ControllerSettings())
    outlook = Outlook(watched, BIN_S)  # type: ignore[arg-type]
    requests = bursty_requests(np.random.default_rng(1), 60.0)
    for row in observed_bins(requests):
        outlook.observe(row)
        now_us = row.start_us + 250_000
        outlook.remember(now_us, outlook.load(now_us))
    outlook.follow_window(3.0)
    assert watched.read == RESTS_ON


@pytest.mark.parametrize("name", NUMBERS)
def test_policies_share_signals_unless_they_differ_in_what_these_rest_on(name: str) -> None:
    one = entrants(policies=("slack",))[0]
    changed = msgspec.structs.replace(one.settings, **{name: getattr(one.settings, name) * 2 or 1})
    other = replace(one, name="other", settings=changed)
    assert len(alike([one, other])) == (2 if name in RESTS_ON else 1)
    assert len(alike([one, replace(one, name="same")])) == 1
