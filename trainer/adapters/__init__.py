"""Attach a trainer of another library: one module for each, which imports its library by itself."""
