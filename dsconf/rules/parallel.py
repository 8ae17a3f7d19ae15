"""Rules about tensor, pipeline and sequence parallelism, and about engines for generation and inference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dsconf.diagnostic import Edit, Fix, Path, Related, dotted
from dsconf.rules.rule import Context, Finding, remove, rule, show

if TYPE_CHECKING:
    from dsconf.facts import Bound

_TP = "tensor_parallel"
_SIZE = (_TP, "autotp_size")


@rule(
    "DS941",
    "tensor-parallel-off",
    "error",
    "ignored",
    reads=(".".join(_SIZE),),
    summary="Tensor-parallel settings without `autotp_size`.",
    explanation="""The switch of automatic tensor parallelism is `autotp_size`, from 2 up. Below, nothing in the block
    has an effect, `tp_size` included, and every rank trains the whole model. `use_default_specs` in turn adds the
    specifications of `preset_model` and needs one.""",
    source="runtime/tensor_parallel/config.py:45",
    bad={"tensor_parallel": {"tp": {"tp_size": 2}}},
    good={"tensor_parallel": {"autotp_size": 1}},
)
def tensor_parallel_off(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.facts import type_of

    block = bound.config.tensor_parallel
    if block is None:
        return
    if block.autotp_size > 1:
        path = (_TP, "partition_config", "use_default_specs")
        if block.preset_model is None and bound.given(*path) and not bound.is_broken(path):
            yield Finding(
                path,
                "`use_default_specs` has no effect without `preset_model`",
                "remove it, or name a model family in `preset_model`",
                severity="warning",
            )
        return
    inner = "tensor_parallel" if bound.given(_TP, "tensor_parallel") else "tp"
    size = block.tp.tp_size if block.tp else 1
    if size > 1:
        safe = not bound.given(*_SIZE)
        yield Finding(
            (_TP, inner, "tp_size"),
            f"`tp_size` alone does not switch tensor parallelism on; `autotp_size` does, and it is "
            f"{block.autotp_size if bound.given(*_SIZE) else 'absent'}",
            f'write "autotp_size": {size} in `tensor_parallel`',
            fix=Fix(f"add `autotp_size`: {size}", (Edit("add", _SIZE, size),), safe=False) if safe else None,
            covers=((_TP, inner),),
        )
    for name, key in type_of(block).keys.items():
        value: Any = getattr(block, name)
        chosen = name in block.model_fields_set and name not in ("autotp_size", "tp") and value != key.default
        if chosen and not key.dead:
            yield Finding(
                (_TP, name),
                f"`{name}` has no effect: without `autotp_size` tensor parallelism is off",
                'add "autotp_size" with the number of ranks that share a layer, or remove it',
                # Only this key is left unread altogether; DeepSpeed checks the others even so.
                covers=tuple(_faults_in(bound, (_TP, name))) if name == "partition_config" else (),
            )


def _faults_in(bound: Bound, path: Path) -> Iterator[Path]:
    from dsconf.facts import Mismatch, Missing, Unknown

    for fact in (*bound.of(Mismatch), *bound.of(Missing), *bound.of(Unknown)):
        if fact.path[: len(path)] == path:
            yield fact.path


@rule(
    "DS942",
    "tensor-parallel-size",
    "error",
    "refused",
    phase="initialize",
    says="ValueError: tensor_parallel.tp.tp_size (4) does not match tensor_parallel.autotp_size (2).",
    reads=(_TP,),
    context=Context(world_size=2),
    summary="An `autotp_size` that does not fit the ranks, or a `tp_size` that does not fit it.",
    explanation="""Ranks form groups of `autotp_size`, so it has to divide their number. `tp.tp_size` may repeat it or
    be left out.""",
    source="runtime/engine.py:1020",
    bad={"tensor_parallel": {"autotp_size": 2, "tp": {"tp_size": 4}}},
    good={"tensor_parallel": {"autotp_size": 1}},
)
def tensor_parallel_size(bound: Bound, context: Context) -> Iterator[Finding]:
    block = bound.config.tensor_parallel
    if block is None or block.autotp_size <= 1:
        return
    world = context.world_size
    if world is not None and world % block.autotp_size:
        yield Finding(
            _SIZE,
            f"`autotp_size` is {block.autotp_size}, which does not divide the {world} rank{'s' * (world > 1)}",
            f"write a divisor of {world}",
            at="value",
        )
    inner = "tensor_parallel" if bound.given(_TP, "tensor_parallel") else "tp"
    if block.tp and block.tp.tp_size not in (1, block.autotp_size):
        path = (_TP, inner, "tp_size")
        yield Finding(
            path,
            f"`tp_size` is {block.tp.tp_size} and `autotp_size` {block.autotp_size}; they must agree",
            "remove `tp_size`",
            at="value",
            related=(Related(_SIZE, "the size of the groups"),),
            fix=remove(path, "remove `tp_size`", safe=False),
        )


@rule(
    "DS945",
    "pipeline-refused",
    "error",
    "refused",
    phase="initialize",
    shown=False,
    reads=("zero_optimization.stage", "managed_gradient_accumulation", "wall_clock_breakdown", "steps_per_print"),
    summary="Pipeline parallelism beside a setting that it cannot be combined with.",
    explanation="""The engine of a `PipelineModule` takes ZeRO stages 0 and 1, counts gradient accumulation itself, and
    prints its times every `steps_per_print` steps without asking whether there is a number. Looked at when there is a
    `pipeline` block; any other model does not read that block.""",
    source="runtime/pipe/engine.py:75",
    bad={"pipeline": {"activation_checkpoint_interval": 1}, "zero_optimization": {"stage": 2}},
    good={"pipeline": {"activation_checkpoint_interval": 1}, "zero_optimization": {"stage": 1}},
)
def pipeline_refused(bound: Bound, context: Context) -> Iterator[Finding]:
    config = bound.config
    if not bound.given("pipeline"):
        return
    if config.zero_stage > 1:
        yield Finding(
            ("zero_optimization", "stage"),
            f"pipeline parallelism works with ZeRO stages 0 and 1, and this is stage {config.zero_stage}",
            "lower the stage to 1, or remove `pipeline` if the model is no `PipelineModule`",
            at="value",
            related=(Related(("pipeline",), "pipeline parallelism"),),
        )
    if not config.managed_gradient_accumulation:
        yield Finding(
            ("managed_gradient_accumulation",),
            "pipeline parallelism needs `managed_gradient_accumulation`",
            "remove it, or remove `pipeline` if the model is no `PipelineModule`",
            at="value",
        )
    if config.wall_clock_breakdown and config.steps_per_print is None:
        yield Finding(
            ("wall_clock_breakdown",),
            "under pipeline parallelism `wall_clock_breakdown` needs `steps_per_print`",
            'add "steps_per_print": 10',
            phase="step",
        )


@rule(
    "DS946",
    "pipeline-needs-module",
    "info",
    "ignored",
    summary="`pipeline` acts on a `PipelineModule` only.",
    explanation="""The block does not split a model. The script does, by making it a `PipelineModule` with a number of
    stages; the engine of any other model does not read the block.""",
    source="runtime/pipe/engine.py:135",
    bad={"pipeline": {"activation_checkpoint_interval": 1}},
    good={},
)
def pipeline_needs_module(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.source import Object

    if isinstance(bound.node(("pipeline",)), Object):
        yield Finding(
            ("pipeline",),
            "`pipeline` has no effect unless the model is a `PipelineModule`",
            "remove it if the model is none",
        )


@rule(
    "DS947",
    "mesh-size",
    "error",
    "refused",
    phase="initialize",
    says="RuntimeError: Mesh should not be bigger than default world size 2, but found 4 ranks!",
    reads=("data_parallel_size", "sequence_parallel_size"),
    context=Context(world_size=2),
    summary="Sequence- and data-parallel sizes that do not fit the ranks.",
    explanation="""Given both, ranks form a mesh, `data_parallel_size` by `sequence_parallel_size`, which has to use
    up all of them. `sequence_parallel_size` alone divides the number of ranks in the batch sizes, evenly or not;
    `data_parallel_size` alone is not read.""",
    source="__init__.py:544",
    bad={"data_parallel_size": 4, "sequence_parallel_size": 1},
    good={"data_parallel_size": 2, "sequence_parallel_size": 1},
)
def mesh_size(bound: Bound, context: Context) -> Iterator[Finding]:
    data, sequence = bound.config.data_parallel_size, bound.config.sequence_parallel_size
    world = context.world_size
    path = ("data_parallel_size",)
    if data is not None and sequence is None:
        yield Finding(
            path,
            "`data_parallel_size` has no effect without `sequence_parallel_size`",
            "remove it",
            severity="warning",
            effect="ignored",
            fix=remove(path, "remove it"),
        )
    if sequence is None or world is None:
        return
    if data is not None and data * sequence != world:
        yield Finding(
            path,
            f"{data} times {sequence} ranks are {data * sequence}, and there are {world}",
            f"write {world // sequence}" if world % sequence == 0 else "choose two numbers whose product that is",
            at="value",
            related=(Related(("sequence_parallel_size",), "the other side of the mesh"),),
        )
    if data is None and world % sequence:
        yield Finding(
            ("sequence_parallel_size",),
            f"`sequence_parallel_size` is {sequence}, which does not divide the {world} rank{'s' * (world > 1)}; "
            "batch sizes come out fractional",
            f"write a divisor of {world}",
            at="value",
            effect="coerced",
        )


@rule(
    "DS948",
    "hybrid-engine-option-unread",
    "warning",
    "ignored",
    reads=("hybrid_engine", "zero_optimization.stage"),
    summary="A setting of the hybrid engine that has no effect here.",
    explanation="""Gathering layers is for stage 3, in parts only with an `inference_tp_size` above 1. CUDA graphs are
    left out under stage 3, with `release_inference_cache` and with an `inference_tp_size` above 1.""",
    source="runtime/hybrid_engine.py:248",
    bad={"zero_optimization": {"stage": 1}, "hybrid_engine": {"enabled": True, "pin_parameters": False}},
    good={"zero_optimization": {"stage": 3}, "hybrid_engine": {"enabled": True, "pin_parameters": False}},
)
def hybrid_engine_option_unread(bound: Bound, context: Context) -> Iterator[Finding]:
    block = bound.config.hybrid_engine
    if block is None or not block.enabled:
        return
    third = bound.config.zero_stage == 3
    shared = block.inference_tp_size > 1
    graphs = not (third or shared or block.release_inference_cache)
    needs = "stage 3, `pin_parameters` and an `inference_tp_size` above 1"
    apart = "works below stage 3, without `release_inference_cache` and with an `inference_tp_size` of 1"
    for name, unread, why in (
        ("pin_parameters", not third, "has an effect under ZeRO stage 3 only"),
        ("tp_gather_partition_size", not (third and shared and block.pin_parameters), f"needs {needs}"),
        ("enable_cuda_graph", block.enable_cuda_graph and not graphs, apart),
    ):
        path = ("hybrid_engine", name)
        if unread and bound.given(*path):
            yield Finding(path, f"`{name}` has no effect here: it {why}", "remove it", fix=remove(path, "remove it"))


@rule(
    "DS949",
    "quantized-initialization-below-stage-3",
    "error",
    "ignored",
    reads=("zero_optimization.stage",),
    summary="`quantized_initialization` below ZeRO stage 3.",
    explanation="""Weights are quantized by `zero.Init` while it builds the model, which happens under stage 3. It is
    meant for inference: a model quantized in this way cannot be trained.""",
    source="inference/config.py:92",
    bad={
        "zero_optimization": {"stage": 1},
        "weight_quantization": {
            "quantized_initialization": {"num_bits": 8, "group_size": 64, "group_dim": 1, "symmetric": False}
        },
    },
    good={"zero_optimization": {"stage": 3}},
)
def quantized_initialization_below_stage_3(bound: Bound, context: Context) -> Iterator[Finding]:
    from dsconf.source import Object

    stage = bound.config.zero_stage
    path = ("weight_quantization", "quantized_initialization")
    if stage < 3 and isinstance(bound.node(path), Object):
        yield Finding(
            path,
            f"nothing is quantized: `{dotted(path[1:])}` needs ZeRO stage 3, and this is stage {show(stage)}",
            "raise the stage to 3 and build the model under `zero.Init`, or remove it",
            covers=tuple(_faults_in(bound, path)),
        )
