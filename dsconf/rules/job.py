"""Rules about a file and the script around it, where something is known about the script."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconf.diagnostic import Related
from dsconf.rules.rule import Context, Finding, remove, rule

if TYPE_CHECKING:
    from dsconf.facts import Bound


@rule(
    "DS981",
    "zero-init-below-stage-3",
    "error",
    "refused",
    phase="step",
    says="RuntimeError: mat2 must be a matrix, got 1-D tensor",
    reads=("zero_optimization.stage",),
    context=Context(zero_init=True),
    summary="A model built under `deepspeed.zero.Init` with a file below stage 3.",
    explanation="""zero.Init splits the parameters among the ranks whatever the stage is, and only the engine of stage 3
    gathers them again. Below it the engine is built without a word, and the first forward pass meets empty weights.""",
    source="runtime/zero/partition_parameters.py:1083",
    bad={"zero_optimization": {"stage": 2}},
    good={"zero_optimization": {"stage": 3}},
)
def zero_init_below_stage_3(bound: Bound, context: Context) -> Iterator[Finding]:
    stage = bound.config.zero_stage
    if context.zero_init and stage < 3:
        yield Finding(
            ("zero_optimization", "stage"),
            f"the model is built under zero.Init, but the stage is {stage}; the first forward pass fails",
            "set `stage` to 3, or build the model without zero.Init",
            at="value",
        )


@rule(
    "DS982",
    "batch-sizes-before-distributed",
    "warning",
    "refused",
    phase="parse",
    says="AssertionError: Check batch related parameters.",
    reads=("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"),
    context=Context(zero_init=True, world_size=2),
    summary="Batch sizes for many ranks, read by zero.Init before there are ranks.",
    explanation="""zero.Init reads the file before it sets the process group up, so it checks the three batch numbers
    for one rank. Numbers that are right for the job are refused, unless `deepspeed.init_distributed` was called
    first.""",
    source="runtime/zero/partition_parameters.py:1086",
    bad={
        "train_batch_size": 16,
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 8,
        "zero_optimization": {"stage": 3},
    },
    good={
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 8,
        "zero_optimization": {"stage": 3},
    },
)
def batch_sizes_before_distributed(bound: Bound, context: Context) -> Iterator[Finding]:
    config, world = bound.config, context.world_size
    total, micro, steps = (
        config.train_batch_size,
        config.train_micro_batch_size_per_gpu,
        config.gradient_accumulation_steps,
    )
    if not context.zero_init or world is None or world == 1 or config.zero_stage < 3 or total is None or micro is None:
        return
    if steps is not None and total == micro * steps * world:
        yield Finding(
            ("train_batch_size",),
            f"zero.Init checks {total} = {micro} x {steps} x 1 rank if it comes before `init_distributed`, and refuses",
            "call deepspeed.init_distributed() first, or leave `train_batch_size` out",
            at="value",
        )


@rule(
    "DS983",
    "scheduler-block-unused",
    "warning",
    "ignored",
    reads=("scheduler.type",),
    context=Context(scheduler="client"),
    summary="A `scheduler` block beside a schedule that the script brings.",
    explanation="""A schedule that is handed to `deepspeed.initialize` comes first; the block is never looked at.""",
    source="runtime/engine.py:1884",
    bad={"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 10}}},
    good={},
)
def scheduler_block_unused(bound: Bound, context: Context) -> Iterator[Finding]:
    if context.scheduler == "client" and context.reader == "deepspeed" and bound.given("scheduler"):
        yield Finding(
            ("scheduler",),
            "the script brings its own schedule, so this one is never used",
            "remove it, or do not pass `lr_scheduler` to deepspeed.initialize",
            fix=remove(("scheduler",), "remove it"),
        )


@rule(
    "DS984",
    "autocast-switched-off",
    "warning",
    "ignored",
    reads=("torch_autocast.enabled",),
    context=Context(autocast=True),
    shown=False,
    summary="torch.autocast around an engine that does not know of it.",
    explanation="""Inside its forward pass the engine switches autocast to what `torch_autocast` says; without that
    block it switches the script's own autocast off. The model then runs in the type of its parameters.""",
    source="runtime/torch_autocast.py:119",
    bad={},
    good={"torch_autocast": {"enabled": True, "dtype": "bfloat16"}},
)
def autocast_switched_off(bound: Bound, context: Context) -> Iterator[Finding]:
    block = bound.config.torch_autocast
    if context.autocast and not (block is not None and block.enabled):
        yield Finding(
            ("torch_autocast",),
            "the script's own torch.autocast is switched off inside the engine",
            'add "torch_autocast": {"enabled": true, "dtype": "bfloat16"}, or set `bf16`',
        )


@rule(
    "DS985",
    "experts-without-leaf-modules",
    "warning",
    "advice",
    reads=("zero_optimization.stage",),
    context=Context(moe=True),
    summary="Mixture-of-experts layers under stage 3 without leaf modules.",
    explanation="""Stage 3 gathers a layer's parameters when the layer runs, on all ranks together. Tokens take other
    experts on other ranks, so the ranks wait for each other for ever, unless the whole block of experts is a leaf that
    is gathered at once.""",
    source="runtime/zero/config.py:364",
    bad={"zero_optimization": {"stage": 3}},
    good={"zero_optimization": {"stage": 3, "leaf_module": {"classes": ["MixtralSparseMoeBlock"]}}},
)
def experts_without_leaf_modules(bound: Bound, context: Context) -> Iterator[Finding]:
    if context.moe and bound.config.zero_stage == 3 and not bound.given("zero_optimization", "leaf_module"):
        yield Finding(
            ("zero_optimization", "leaf_module"),
            "the model has experts, and no module is a leaf; ranks that route tokens differently wait for each other",
            'add "leaf_module": {"classes": [...]} with the class of the block that holds the experts, or call '
            "deepspeed.utils.set_z3_leaf_modules",
        )


@rule(
    "DS986",
    "bf16-weights-in-fp16",
    "info",
    "advice",
    reads=("fp16.enabled",),
    context=Context(model_dtype="bfloat16"),
    summary="fp16 for a model that was trained in bf16.",
    explanation="""bf16 has the range of fp32, fp16 ends at 65504. Activations of models that were trained in bf16 often
    go beyond, and the loss scale falls until training stops.""",
    source="runtime/fp16/loss_scaler.py:167",
    bad={"fp16": {"enabled": True}, "zero_optimization": {"stage": 1}},
    good={"bf16": {"enabled": True}, "zero_optimization": {"stage": 1}},
)
def bf16_weights_in_fp16(bound: Bound, context: Context) -> Iterator[Finding]:
    fp16 = bound.config.fp16
    if context.model_dtype == "bfloat16" and fp16 is not None and fp16.enabled:
        yield Finding(
            ("fp16", "enabled"),
            "the model was trained in bf16, whose values fp16 may not hold",
            "use `bf16` if the accelerator has it",
            at="value",
        )


@rule(
    "DS987",
    "loader-of-another-batch-size",
    "info",
    "advice",
    reads=("train_micro_batch_size_per_gpu",),
    context=Context(loader_batch_size=8),
    summary="A data loader with another batch size than the file.",
    explanation="""DeepSpeed does not look at the loader of a script. It counts samples, throughput and the total batch
    size by `train_micro_batch_size_per_gpu`, so all of them are wrong when the loader gives more or less.""",
    source="runtime/engine.py:3623",
    bad={"train_micro_batch_size_per_gpu": 4},
    good={"train_micro_batch_size_per_gpu": 8},
)
def loader_of_another_batch_size(bound: Bound, context: Context) -> Iterator[Finding]:
    micro, given = bound.config.train_micro_batch_size_per_gpu, context.loader_batch_size
    if micro is not None and given is not None and micro != given:
        path = ("train_micro_batch_size_per_gpu",)
        yield Finding(path, f"the script's loader gives {given} samples, not {micro}", f"write {given}", at="value")


@rule(
    "DS988",
    "secondary-partition-of-whole-world",
    "info",
    "advice",
    reads=("zero_optimization.stage", "zero_optimization.zero_hpz_partition_size"),
    context=Context(world_size=2),
    summary="`zero_hpz_partition_size` that is not smaller than the world.",
    explanation="""hpZ keeps a second copy of the parameters split among a few near ranks, so that gathering does not
    cross nodes. Split among all ranks it saves no traffic and costs its memory; a larger size is cut to the world.""",
    source="utils/groups.py:944",
    bad={"zero_optimization": {"stage": 3, "zero_hpz_partition_size": 2}},
    good={"zero_optimization": {"stage": 3, "zero_hpz_partition_size": 1}},
)
def secondary_partition_of_whole_world(bound: Bound, context: Context) -> Iterator[Finding]:
    zero, world = bound.config.zero_optimization, context.world_size
    if zero is None or zero.stage != 3 or world is None or zero.zero_hpz_partition_size <= 1:
        return
    size = zero.zero_hpz_partition_size
    if size >= world:
        yield Finding(
            ("zero_optimization", "zero_hpz_partition_size"),
            f"the second copy of the parameters is split among {size} ranks, and there are {world}: no traffic saved",
            "set it to the ranks of one node, or remove it",
            at="value",
            related=(Related(("zero_optimization", "stage"), "stage 3 splits them among all ranks already"),),
            severity="warning" if size > world else None,
        )


@rule(
    "DS989",
    "secondary-partition-offloaded",
    "warning",
    "advice",
    reads=("zero_optimization.stage", "zero_optimization.zero_hpz_partition_size", "zero_optimization.offload_param"),
    summary="hpZ together with parameter offload.",
    explanation="""The second copy of the parameters lives where the first one does. With `offload_param` that is host
    memory: the copy that is meant to be near costs as much again of it, and each gather goes through the host.""",
    source="runtime/zero/partition_parameters.py:1916",
    bad={"zero_optimization": {"stage": 3, "zero_hpz_partition_size": 2, "offload_param": {"device": "cpu"}}},
    good={"zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}},
)
def secondary_partition_offloaded(bound: Bound, context: Context) -> Iterator[Finding]:
    zero = bound.config.zero_optimization
    if zero is None or zero.stage != 3 or zero.zero_hpz_partition_size <= 1:
        return
    offload = zero.offload_param
    if offload is not None and offload.device != "none":
        yield Finding(
            ("zero_optimization", "zero_hpz_partition_size"),
            f"the second copy of the parameters goes to {offload.device} with the first, which takes its point away",
            "keep one of the two: hpZ where parameters fit the accelerators, `offload_param` where they do not",
            related=(Related(("zero_optimization", "offload_param"), "parameters are offloaded here"),),
        )


@rule(
    "DS990",
    "model-built-too-early",
    "error",
    "advice",
    reads=("zero_optimization.stage",),
    context=Context(reader="transformers", zero_init=False),
    judge="reader",
    summary="A model that is loaded before Transformers knows of stage 3.",
    explanation="""`from_pretrained` splits a model while it loads it only if the training arguments, or an
    `HfDeepSpeedConfig` that is still alive, were made before. Otherwise each rank first loads the whole of it.""",
    source="transformers/integrations/deepspeed.py:53",
    bad={"zero_optimization": {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True}},
    good={"zero_optimization": {"stage": 2}},
)
def model_built_too_early(bound: Bound, context: Context) -> Iterator[Finding]:
    if context.reader == "transformers" and context.zero_init is False and bound.config.zero_stage == 3:
        yield Finding(
            ("zero_optimization", "stage"),
            "the model is loaded before the training arguments exist, so each rank loads the whole of it",
            "make TrainingArguments, or an HfDeepSpeedConfig that you keep, before `from_pretrained`",
            at="value",
        )


@rule(
    "DS991",
    "quantized-weights-odd-world",
    "warning",
    "advice",
    reads=("zero_optimization.stage", "zero_optimization.zero_quantized_weights"),
    context=Context(world_size=24),
    shown=False,
    summary="8-bit parameters of ZeRO++ on a number of ranks that does not divide weights evenly.",
    explanation="""Each rank quantizes its share of a weight in groups, and the share must be a multiple of 8 elements.
    Sizes of weights are as a rule multiples of large powers of two; shared among ranks with another factor, such as 3,
    they are not, and the first step stops.""",
    source="runtime/zero/partition_parameters.py:883",
    bad={"zero_optimization": {"stage": 3, "zero_quantized_weights": True}},
    good={"zero_optimization": {"stage": 3}},
)
def quantized_weights_odd_world(bound: Bound, context: Context) -> Iterator[Finding]:
    zero, world = bound.config.zero_optimization, context.world_size
    if zero is None or zero.stage != 3 or not zero.zero_quantized_weights or world is None:
        return
    if world & (world - 1):
        yield Finding(
            ("zero_optimization", "zero_quantized_weights"),
            f"weights shared among {world} ranks may not be a multiple of 8 elements, which quantizing needs",
            "run on a power of two of ranks, or remove it",
        )


@rule(
    "DS994",
    "not-a-dict",
    "error",
    "refused",
    phase="parse",
    says="TypeError: stat: path should be string, bytes, os.PathLike or integer, not UserDict",
    context=Context(container="UserDict"),
    summary="A configuration that is neither a dict nor a path.",
    explanation="""`deepspeed.initialize` takes a dict or the path of a file. A mapping of another class, such as the
    DictConfig of OmegaConf and Hydra, is taken for a path.""",
    source="runtime/config.py:441",
    bad={},
    good={},
    good_context=Context(container="dict"),
)
def not_a_dict(bound: Bound, context: Context) -> Iterator[Finding]:
    if context.container not in (None, "dict"):
        remedy = "dict(...)" if context.container != "DictConfig" else "OmegaConf.to_container(config, resolve=True)"
        yield Finding(
            (),
            f"DeepSpeed takes a dict or a path, and this is a {context.container}",
            f"hand {remedy} over",
        )
