"""The calibration protocol: matched random, oracle, gate and verdict. No I/O, no clock."""
