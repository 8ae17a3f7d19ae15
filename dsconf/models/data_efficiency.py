"""`data_efficiency`: curriculum learning, batches by token count, random layerwise token dropping."""

from typing import Annotated, Any, Literal

from pydantic import Field

from dsconf.models.block import Block, Float, Int, Retired, key

_PARSED = "runtime/data_pipeline/config.py"
_CURRICULUM = "runtime/data_pipeline/curriculum_scheduler.py"
_SAMPLER = "runtime/data_pipeline/data_sampling/data_sampler.py"
_VARIABLE = "runtime/data_pipeline/data_sampling/variable_batch_size_and_lr.py"
_LTD = "runtime/data_pipeline/data_routing/scheduler.py"
_LTD_LAYER = "runtime/data_pipeline/data_routing/basic_layer.py"

#: A level of difficulty: whole where it is a percentile, any number where it is a value of the metric.
Difficulty = Float | Int


class FixedDiscreteConfig(Block):
    """Levels of difficulty, each held up to a step."""

    reader = "dict"

    difficulty: Annotated[list[Difficulty], Field(min_length=1)] = key(
        doc="The levels in order; the last one holds to the end.", source=f"{_CURRICULUM}:39"
    )
    max_step: Annotated[list[Int], Field(min_length=1)] = key(
        doc="Last step of each level but the last.", source=f"{_CURRICULUM}:41"
    )


class FixedLinearConfig(Block):
    """Difficulty that grows evenly with the step."""

    reader = "dict"

    total_curriculum_step: Int = key(
        gt=0, doc="Steps from the lowest to the highest difficulty.", source=f"{_CURRICULUM}:87"
    )
    difficulty_step: Int = key(
        gt=0, doc="Every difficulty is a multiple of this; 8 suits fp16 tensor cores.", source=f"{_CURRICULUM}:89"
    )


class FixedRootConfig(FixedLinearConfig):
    """Difficulty that grows with a root of the step."""

    root_degree: Float = key(
        gt=0, doc="Degree of the root: 1 is linear, 2 the square root.", source=f"{_CURRICULUM}:71"
    )


class _Metric(Block):
    """What all metrics have in common, whatever their schedule."""

    reader = "dict"
    tag = "schedule_type"

    difficulty_type: Literal["value", "percentile"] = key(
        doc="Whether difficulty means a value of the metric or a percentile of the samples.", source=f"{_SAMPLER}:90"
    )
    clustering_type: str = key(
        doc="`single_cluster`: draw from all samples, for a metric that the training loop enforces; anything else: "
        "draw from the samples within the difficulty reached.",
        source=f"{_SAMPLER}:92",
    )
    index_to_sample_path: str = key(
        None, doc="Index files that list the samples of each value of the metric.", source=f"{_SAMPLER}:97"
    )
    index_to_metric_path: str = key(
        None, doc="Index files that list the values of the metric.", source=f"{_SAMPLER}:102"
    )
    min_difficulty: Difficulty = key(doc="Difficulty to start with.", source=f"{_CURRICULUM}:16")
    max_difficulty: Difficulty = key(doc="Difficulty to end with.", source=f"{_CURRICULUM}:18")


class FixedDiscrete(_Metric):
    """A metric whose difficulty follows a list."""

    schedule_type: Literal["fixed_discrete"] = key(doc="How difficulty grows.", source=f"{_CURRICULUM}:26")
    schedule_config: FixedDiscreteConfig = key(doc="The levels.", source=f"{_CURRICULUM}:39")


class FixedLinear(_Metric):
    """A metric whose difficulty grows evenly."""

    schedule_type: Literal["fixed_linear"] = key(doc="How difficulty grows.", source=f"{_CURRICULUM}:78")
    schedule_config: FixedLinearConfig = key(doc="The pace.", source=f"{_CURRICULUM}:87")


class FixedRoot(_Metric):
    """A metric whose difficulty grows fast at first, then slower."""

    schedule_type: Literal["fixed_root"] = key(doc="How difficulty grows.", source=f"{_CURRICULUM}:48")
    schedule_config: FixedRootConfig = key(doc="The pace.", source=f"{_CURRICULUM}:67")


class Custom(_Metric):
    """A metric whose difficulty a function of the training script decides."""

    schedule_type: Literal["custom"] = key(doc="How difficulty grows.", source=f"{_CURRICULUM}:96")
    schedule_config: dict[str, Any] = key(
        None, dead=True, doc="Unread; the function decides.", source=f"{_CURRICULUM}:102"
    )


#: A difficulty metric, told apart by `schedule_type`.
CurriculumMetric = Annotated[FixedDiscrete | FixedLinear | FixedRoot | Custom, Field(discriminator="schedule_type")]


class CurriculumLearning(Block):
    """Train on easy samples first."""

    reader = "dict"

    enabled: bool = key(
        False,
        doc="Draw samples by difficulty; needs `training_data` in `deepspeed.initialize`.",
        source=f"{_PARSED}:117",
    )
    data_cluster_path: str = key(
        None, doc="Directory, seen by all ranks, for the lists of samples drawn from.", source=f"{_SAMPLER}:82"
    )
    curriculum_metrics: dict[str, CurriculumMetric] = key(
        None, doc="The difficulty metrics by name, such as `seqlen` or `vocabularyrarity`.", source=f"{_PARSED}:88"
    )


class DynamicBatching(Block):
    """Batches of about equal token count instead of equal sample count.

    Only the data loader that the training script gets from
    `get_dataloader_and_lr_scheduler_for_variable_batch_size_deepspeed` reads it.
    """

    reader = "dict"

    enabled: bool = key(False, doc="Allow that function to be called.", source=f"{_PARSED}:97")
    metrics_path: str = key(
        None,
        doc="Directory of the analysed sequence lengths, unless the script passes them.",
        source=f"{_VARIABLE}:374",
    )
    lr_scaling_method: Literal["linear", "sqrt", "none"] = key(
        "linear", doc="How the learning rate follows the size of the batch.", source=f"{_PARSED}:98"
    )
    min_batch_size: Int = key(1, doc="Fewest samples in a micro batch.", source=f"{_PARSED}:100")
    max_batch_size: Int = key(None, doc="Most samples in a micro batch; absent: no limit.", source=f"{_PARSED}:102")
    sequence_picking_order: Literal["dataloader", "random", "seqlen"] = key(
        "dataloader", doc="Order in which samples are packed.", source=f"{_PARSED}:105"
    )
    max_tokens: Int = key(
        None, doc="Most tokens in a micro batch; longer samples are left out.", source=f"{_PARSED}:108"
    )
    verbose: bool = key(False, doc="Log every batch.", source=f"{_PARSED}:111")


class DataSampling(Block):
    """Which samples are drawn and how they are batched."""

    reader = "dict"

    enabled: bool = key(
        False, dead=True, doc="Unread; the blocks below have switches of their own.", source=f"{_PARSED}:54"
    )
    num_epochs: Int = key(
        1000, gt=0, doc="Epochs for which the curriculum sampler draws samples.", source=f"{_PARSED}:61"
    )
    num_workers: Int = key(
        0, ge=0, doc="Loader processes under curriculum learning and dynamic batching.", source=f"{_PARSED}:68"
    )
    pin_memory: bool = key(False, doc="Pin the batches of the dynamic batching loader.", source=f"{_PARSED}:76")
    curriculum_learning: CurriculumLearning | None = key(None, doc="Easy samples first.", source=f"{_PARSED}:84")
    dynamic_batching: DynamicBatching | None = key(None, doc="Batches by token count.", source=f"{_PARSED}:96")


class LayerTokenLrSchedule(Block):
    """A learning-rate schedule by tokens and layers; DeepSpeed never finished it."""

    reader = "dict"

    enabled: Literal[False] = key(
        False, doc="Only `false` exists; the key must stand wherever the block does.", source=f"{_LTD}:48"
    )
    total_layer_tokens: Int = key(None, dead=True, doc="Unread.", source="runtime/data_pipeline/constants.py:126")
    warmup_type: str = key(None, dead=True, doc="Unread.", source="runtime/data_pipeline/constants.py:127")
    warmup_layer_tokens: Int = key(None, dead=True, doc="Unread.", source="runtime/data_pipeline/constants.py:128")


class RandomLtdScheduleConfig(Block):
    """The pace at which token dropping ends."""

    reader = "dict"

    require_steps: Int = key(gt=0, doc="Steps until no token is dropped any more.", source=f"{_LTD}:24")
    seq_per_step: Int = key(gt=0, doc="Tokens by which the kept length grows at a time.", source=f"{_LTD}:27")


class RandomLtdSchedule(Block):
    """How many tokens of a sequence the dropping layers see."""

    reader = "dict"

    min_value: Int = key(doc="Tokens kept at the first step.", source=f"{_LTD}:62")
    max_value: Int = key(doc="Tokens kept at the end: the length of a sequence.", source=f"{_LTD}:63")
    schedule_config: RandomLtdScheduleConfig = key(doc="The pace.", source=f"{_LTD}:65")
    schedule_type: Literal["fixed_linear"] = key(doc="How the kept length grows.", source=f"{_LTD}:66")


class RandomLtd(Block):
    """Skip random tokens in the middle layers, fewer and fewer as training goes on."""

    reader = "dict"
    retired = (
        Retired("global_batch_size", "dead", "runtime/engine.py:700", advice="DeepSpeed fills it in itself."),
        Retired("micro_batch_size", "dead", "runtime/engine.py:701", advice="DeepSpeed fills it in itself."),
    )

    enabled: bool = key(
        False,
        doc="Drop tokens; the script must convert the model with `convert_to_random_ltd`.",
        source=f"{_PARSED}:165",
    )
    total_layer_num: Int = key(None, doc="Number of layers of the model.", source=f"{_LTD}:42")
    random_ltd_layer_num: Int = key(None, doc="Number of layers that drop tokens.", source=f"{_LTD}:43")
    random_ltd_layer_id: list[Int] = key(
        None,
        doc="Numbers of the layers that drop tokens, as they occur in module names.",
        source="runtime/engine.py:1429",
    )
    model_mask_name: str | None = key(
        None, doc="The layers' keyword argument for the attention mask; null: none.", source=f"{_LTD_LAYER}:34"
    )
    model_type: Literal["encoder", "decoder"] = key(
        None, doc="Kind of model, which decides how tokens are drawn.", source=f"{_LTD_LAYER}:38"
    )
    hidden_state_order: Literal["batch_seq_dim", "seq_batch_dim"] = key(
        None, doc="Order of the axes of hidden states.", source=f"{_LTD_LAYER}:37"
    )
    random_ltd_schedule: RandomLtdSchedule | None = key(None, doc="How many tokens are kept.", source=f"{_LTD}:44")
    layer_token_lr_schedule: LayerTokenLrSchedule | None = key(
        None, doc="Unfinished in DeepSpeed; leave it out.", source=f"{_LTD}:48"
    )


class DataRouting(Block):
    """Which tokens pass through which layers."""

    reader = "dict"

    enabled: bool = key(False, dead=True, doc="Unread; `random_ltd` has a switch of its own.", source=f"{_PARSED}:145")
    random_ltd: RandomLtd | None = key(None, doc="Skip random tokens in some layers.", source=f"{_PARSED}:164")


class DataEfficiency(Block):
    """Get more training out of the same data."""

    actor = "DeepSpeed's data sampler"
    reader = "dict"

    enabled: bool = key(False, dead=True, doc="Unread; only the innermost switches count.", source=f"{_PARSED}:28")
    seed: Int = key(1234, ge=0, doc="Seed for drawing samples.", source=f"{_PARSED}:35")
    data_sampling: DataSampling | None = key(None, doc="Drawing and batching of samples.", source=f"{_PARSED}:41")
    data_routing: DataRouting | None = key(None, doc="Token dropping.", source=f"{_PARSED}:135")
