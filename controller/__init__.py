"""Pure decision logic: forecasts, pressure, scores, policies. No I/O, no clock."""
