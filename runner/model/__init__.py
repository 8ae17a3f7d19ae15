"""The models that a run can train."""
