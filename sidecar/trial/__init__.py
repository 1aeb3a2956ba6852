"""Policies and matched random schedules in turn beside a real server, over many short runs."""
