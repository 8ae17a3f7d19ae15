"""The Hydra configuration of the runner, as files."""
