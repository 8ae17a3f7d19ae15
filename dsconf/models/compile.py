"""`compile`: DeepCompile."""

from typing import Literal

from dsconf.models.block import Block, Int, Retired, key

_SOURCE = "compile/config.py"


def _to_code(name: str) -> Retired:
    """A key of the block as it was from 0.13.5 to 0.14.2; its successors are arguments in the training script."""
    return Retired(
        name,
        "removed",
        "runtime/config.py:584",
        advice="Call `engine.compile(backend=..., compile_kwargs=...)` in the training script instead.",
    )


class Compile(Block):
    """What `engine.compile()` does; nothing happens unless the training script calls it."""

    retired = (_to_code("enabled"), _to_code("backend"), _to_code("kwargs"))

    deepcompile: bool = key(
        False,
        doc="Let DeepSpeed's compiler passes schedule communication and memory (ZeRO stages 1 to 3).",
        source=f"{_SOURCE}:15",
    )
    autoep_non_moe: bool = key(
        False,
        doc="Compile the model around the expert layers of `expert_parallel` and leave those as they are.",
        source=f"{_SOURCE}:18",
    )
    free_activation: bool = key(
        False,
        doc="Free activations as soon as the graph has used them (not with the inductor backend).",
        source=f"{_SOURCE}:21",
    )
    free_activation_threshold: Int = key(
        10485760, doc="Activations with more elements than this are freed early.", source=f"{_SOURCE}:24"
    )
    offload_activation: bool = key(
        False,
        doc="Keep activations saved for the backward pass in host memory when the device runs short (stage 3).",
        source=f"{_SOURCE}:27",
    )
    offload_activation_pin_memory: bool = key(
        True, doc="Pin the host memory of offloaded activations.", source=f"{_SOURCE}:34"
    )
    offload_opt_states: bool = key(
        False,
        doc="Move Adam's states to host memory during forward and backward, as far as needed (stage 3).",
        source=f"{_SOURCE}:39",
    )
    double_buffer: bool = key(True, doc="Fill one reduce bucket while the other is sent.", source=f"{_SOURCE}:46")
    symmetric_memory: bool = key(
        False, doc="Communicate through PyTorch's symmetric memory (stage 3).", source=f"{_SOURCE}:49"
    )
    debug_log: bool = key(False, doc="Log what each compiler pass does and what it measures.", source=f"{_SOURCE}:52")
    offload_parameters: bool = key(
        False,
        doc="Move parameters to host memory within the graph (stage 3).",
        source=f"{_SOURCE}:55",
    )
    sync_before_reduce: bool = key(
        False, doc="Wait for the device before each gradient reduction, for debugging.", source=f"{_SOURCE}:58"
    )
    sync_after_reduce: bool = key(
        False, doc="Wait for the device after each gradient reduction, for debugging.", source=f"{_SOURCE}:61"
    )
    sync_before_allgather: bool = key(
        False, doc="Wait for the device before each parameter gather, for debugging.", source=f"{_SOURCE}:64"
    )
    sync_after_allgather: bool = key(
        False, doc="Wait for the device after each parameter gather, for debugging.", source=f"{_SOURCE}:67"
    )
    keep_int_input_tensors: bool = key(
        True, doc="Profile graphs with their real integer inputs rather than with dummies.", source=f"{_SOURCE}:70"
    )
    keep_all_input_tensors: bool = key(
        False, doc="Profile graphs with all their real inputs, which holds those in memory.", source=f"{_SOURCE}:73"
    )
    passes: list[Literal["z1", "z3", "autosp", "autotp"]] | None = key(
        None,
        doc="Compiler passes to run in place of the one that follows from the ZeRO stage.",
        source=f"{_SOURCE}:76",
    )
