"""The DiLoCo learner in torch, and adapters for trainers that exist."""
