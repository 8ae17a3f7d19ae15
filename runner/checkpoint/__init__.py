"""Checkpoints: what they hold, when one counts, which one to go on from."""
