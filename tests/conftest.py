"""Hypothesis judges results, not speed: a busy machine must not fail a test."""

from hypothesis import settings

settings.register_profile("quiet", deadline=None)
settings.load_profile("quiet")
