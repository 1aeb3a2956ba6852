"""Tuning: a policy's parameters, searched on training runs alone."""
