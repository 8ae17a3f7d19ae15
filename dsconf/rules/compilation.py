"""Rules about `compile`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dsconf.diagnostic import Edit, Fix, Phase, Related
from dsconf.rules.rule import Context, Finding, remove, rule

if TYPE_CHECKING:
    from dsconf.facts import Bound
    from dsconf.models.compile import Compile

#: Settings that only the passes of stage 3 read.
_STAGE_3 = ("offload_activation", "offload_opt_states", "offload_parameters", "symmetric_memory")


def _passes(block: Compile) -> set[str]:
    return set(block.passes or ())


@rule(
    "DS931",
    "compile-option-without-deepcompile",
    "error",
    "ignored",
    reads=("compile",),
    summary="A setting of DeepCompile, with DeepCompile off.",
    explanation="""Every setting of the block but `autoep_non_moe` belongs to DeepCompile. Without `deepcompile: true`
    the engine compiles with `torch.compile` alone and reads none of them.""",
    source="compile/config.py:15",
    bad={"zero_optimization": {"stage": 3}, "compile": {"offload_activation": True}},
    good={"zero_optimization": {"stage": 3}, "compile": {"deepcompile": True, "offload_activation": True}},
)
def compile_option_without_deepcompile(bound: Bound, context: Context) -> Iterator[Finding]:
    block = bound.config.compile
    if block is None or block.deepcompile:
        return
    from dsconf.facts import type_of

    for name, key in type_of(block).keys.items():
        if name not in block.model_fields_set or name in ("deepcompile", "autoep_non_moe"):
            continue
        value: Any = getattr(block, name)
        if value != key.default:
            yield Finding(
                ("compile", name),
                f"`{name}` has no effect without `deepcompile`",
                'add "deepcompile": true, or remove it',
                fix=Fix('add "deepcompile": true', (Edit("add", ("compile", "deepcompile"), True),), safe=False),
            )


@rule(
    "DS932",
    "compile-option-of-another-pass",
    "error",
    "ignored",
    reads=("compile", "zero_optimization.stage", "tensor_parallel.autotp_size"),
    summary="A setting of DeepCompile that this ZeRO stage does not have.",
    explanation="""Offloading and symmetric memory are parts of the passes for stage 3; those for stages 1 and 2 do not
    look at them. The pass `autosp` works at stages 0 and 1 and the pass `autotp` with tensor parallelism; elsewhere the
    engine falls back to `torch.compile` alone and says so in its log.""",
    source="runtime/engine.py:5823",
    bad={"zero_optimization": {"stage": 2}, "compile": {"deepcompile": True, "offload_activation": True}},
    good={"zero_optimization": {"stage": 3}, "compile": {"deepcompile": True, "offload_activation": True}},
)
def compile_option_of_another_pass(bound: Bound, context: Context) -> Iterator[Finding]:
    config = bound.config
    block = config.compile
    if block is None or not block.deepcompile:
        return
    passes = _passes(block)
    stage = config.zero_stage
    for name in _STAGE_3:
        if getattr(block, name) and stage in (1, 2):
            yield Finding(
                ("compile", name),
                f"`{name}` works at stage 3, and this is stage {stage}",
                "raise the stage to 3, or remove it",
                related=_stage(bound),
            )
    path = ("compile", "passes")
    if "autosp" in passes and stage >= 2:
        yield Finding(
            path,
            f"the pass `autosp` does not work under stage {stage}; the model is compiled without it",
            "use stage 0 or 1",
            related=_stage(bound),
        )
    if "autotp" in passes and not (config.tensor_parallel and config.tensor_parallel.autotp_size > 1):
        yield Finding(
            path,
            "the pass `autotp` needs tensor parallelism; the model is compiled without it",
            "set `tensor_parallel.autotp_size` above 1",
        )


def _stage(bound: Bound) -> tuple[Related, ...]:
    path = ("zero_optimization", "stage")
    return (Related(path, "the stage"),) if bound.given(*path) else ()


@rule(
    "DS933",
    "deepcompile-without-zero",
    "error",
    "ignored",
    reads=("compile", "zero_optimization.stage"),
    summary="`deepcompile` without ZeRO.",
    explanation="""DeepCompile schedules the communication of ZeRO stages 1 to 3. At stage 0 the engine falls back to
    `torch.compile` alone and says so in its log.""",
    source="runtime/engine.py:5803",
    bad={"compile": {"deepcompile": True}},
    good={"zero_optimization": {"stage": 1}, "compile": {"deepcompile": True}},
)
def deepcompile_without_zero(bound: Bound, context: Context) -> Iterator[Finding]:
    block = bound.config.compile
    own = block and _passes(block) & {"autosp", "autotp"}
    if block and block.deepcompile and not own and bound.config.zero_stage == 0:
        yield Finding(
            ("compile", "deepcompile"),
            "DeepCompile has no effect without ZeRO: the engine falls back to `torch.compile`",
            "set `zero_optimization.stage` to 1, 2 or 3, or remove it",
            related=_stage(bound),
        )


@rule(
    "DS934",
    "deepcompile-refused",
    "error",
    "refused",
    phase="initialize",
    says="AssertionError: managed_gradient_accumulation=False is not supported with DeepCompile",
    reads=("compile", "gradient_allreduce_op", "managed_gradient_accumulation"),
    summary="`deepcompile` beside a setting that it cannot be combined with.",
    explanation="""DeepCompile averages gradients and decides itself when an optimizer step is due, so it takes
    neither `gradient_allreduce_op: "sum"` nor `managed_gradient_accumulation: false`.""",
    source="runtime/engine.py:2035",
    bad={
        "zero_optimization": {"stage": 2},
        "managed_gradient_accumulation": False,
        "compile": {"deepcompile": True},
    },
    good={"zero_optimization": {"stage": 2}, "compile": {"deepcompile": True}},
)
def deepcompile_refused(bound: Bound, context: Context) -> Iterator[Finding]:
    config = bound.config
    if config.compile is None or not config.compile.deepcompile:
        return
    clashes: list[tuple[str, str, Phase]] = []
    if config.gradient_allreduce_op == "sum" and config.zero_stage < 3:
        clashes.append(("gradient_allreduce_op", "DeepCompile cannot sum gradients", "parse"))
    if not config.managed_gradient_accumulation:
        clashes.append(
            ("managed_gradient_accumulation", "DeepCompile needs `managed_gradient_accumulation`", "initialize")
        )
    for name, message, phase in clashes:
        yield Finding(
            (name,),
            message,
            f"remove `{name}`, or switch `compile.deepcompile` off",
            at="value",
            related=(Related(("compile", "deepcompile"), "DeepCompile"),),
            fix=remove((name,), f"remove `{name}`", safe=False),
            phase=phase,
        )


@rule(
    "DS935",
    "compile-conflict",
    "error",
    "refused",
    phase="step",
    shown=False,
    reads=("compile", "zero_optimization", "tensor_parallel.autotp_size", "expert_parallel"),
    summary="Settings of `compile` that exclude each other.",
    explanation="""`engine.compile()` refuses two plans for the same memory: more than one kind of offloading at a
    time, or optimizer states that ZeRO offloads already. It refuses the pass `autotp` beside any other pass, and
    `autoep_non_moe` beside DeepCompile, the DeepEP backend, tensor or sequence parallelism, stage 3, offloading.""",
    source="compile/init_z3.py:93",
    bad={
        "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}},
        "compile": {"deepcompile": True, "offload_opt_states": True},
    },
    good={"zero_optimization": {"stage": 3}, "compile": {"deepcompile": True, "offload_opt_states": True}},
)
def compile_conflict(bound: Bound, context: Context) -> Iterator[Finding]:
    block = bound.config.compile
    if block is None:
        return
    passes = _passes(block)
    if block.deepcompile and "autotp" in passes and len(passes) > 1:
        yield Finding(
            ("compile", "passes"),
            "`engine.compile()` refuses the pass `autotp` beside another one",
            "keep one pass",
            at="value",
        )
    for name, other in _conflicts(bound, block):
        yield Finding(
            ("compile", name),
            f"`engine.compile()` refuses `{name}` together with {other}",
            "keep one of the two",
        )


def _conflicts(bound: Bound, block: Compile) -> Iterator[tuple[str, str]]:
    """What excludes what: a key of the block, and words for the other side."""
    config = bound.config
    zero = config.zero_optimization
    optimizer = getattr(zero, "offload_optimizer", None)
    parameters = getattr(zero, "offload_param", None)
    elsewhere = optimizer is not None and optimizer.device != "none"
    moved = parameters is not None and parameters.device != "none"
    if block.autoep_non_moe:
        experts, tensors = config.expert_parallel, config.tensor_parallel
        for clashes, other in (
            (block.deepcompile, "`deepcompile`"),
            (experts is not None and experts.comm_backend != "comm", "`expert_parallel.comm_backend`"),
            (tensors is not None and tensors.autotp_size > 1, "`tensor_parallel.autotp_size`"),
            ((config.sequence_parallel_size or 1) > 1, "`sequence_parallel_size`"),
            (config.zero_stage == 3, "ZeRO stage 3"),
            (elsewhere or moved, "offloading by ZeRO"),
        ):
            if clashes:
                yield "autoep_non_moe", other
    if not block.deepcompile or config.zero_stage != 3:
        return
    if block.offload_opt_states and elsewhere:
        yield "offload_opt_states", "`zero_optimization.offload_optimizer`"
    both = getattr(optimizer, "device", None) == "cpu" == getattr(parameters, "device", None)
    planned = "`offload_parameters`, which offloading both parameters and optimizer to the CPU switches on"
    if block.offload_activation and (block.offload_parameters or both):
        yield "offload_activation", "`offload_parameters`" if block.offload_parameters else planned
    if block.offload_activation and block.offload_opt_states:
        yield "offload_activation", "`offload_opt_states`"
    if block.offload_parameters and block.offload_opt_states:
        yield "offload_parameters", "`offload_opt_states`"


@rule(
    "DS936",
    "compile-by-script",
    "info",
    "advice",
    reads=("compile",),
    summary="`compile` waits for the script.",
    explanation="""The block says how to compile, not that. Nothing is compiled unless the script calls
    `engine.compile()` after `deepspeed.initialize`.""",
    source="runtime/engine.py:5854",
    bad={"zero_optimization": {"stage": 1}, "compile": {"deepcompile": True}},
    good={"zero_optimization": {"stage": 1}, "compile": {"deepcompile": False}},
)
def compile_by_script(bound: Bound, context: Context) -> Iterator[Finding]:
    block = bound.config.compile
    if block and (block.deepcompile or block.autoep_non_moe):
        yield Finding(
            ("compile",),
            "`compile` has no effect unless the script calls `engine.compile()`",
            "call it after `deepspeed.initialize`",
        )
