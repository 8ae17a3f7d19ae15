"""`flops_profiler`: floating-point operations of one step."""

from dsconf.models.block import Block, Float, Int, key

_SOURCE = "profiling/config.py"


class FlopsProfiler(Block):
    """Count the floating-point operations of one training step, module by module."""

    actor = "the profiler"
    reader = "dict"

    enabled: bool = key(False, doc="Profile one step; also switches `wall_clock_breakdown` on.", source=f"{_SOURCE}:29")
    recompute_fwd_factor: Float = key(
        0.0,
        doc="Forward passes that recomputation adds to the cost of a backward pass (1.0: all of it).",
        source=f"{_SOURCE}:31",
    )
    profile_step: Int = key(1, doc="Global step to profile.", source=f"{_SOURCE}:34")
    module_depth: Int = key(-1, doc="Depth at which modules are summed up; -1: the innermost.", source=f"{_SOURCE}:37")
    top_modules: Int = key(1, doc="How many of the costliest modules to list per depth.", source=f"{_SOURCE}:40")
    detailed: bool = key(True, doc="Print the profile of every module.", source=f"{_SOURCE}:43")
    output_file: str | None = key(None, doc="File for the report; null: standard output.", source=f"{_SOURCE}:45")
