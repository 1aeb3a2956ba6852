"""Real merges beside a real server, in randomised blocks, every request and merge recorded."""
