"""Reads or makes request traces and replays them onto the topics in time."""
