"""`autotuning`: the search that `deepspeed --autotuning` runs."""

from typing import Annotated, Literal

from pydantic import Field

from dsconf.models.block import Block, Int, Retired, key

_SOURCE = "autotuning/config.py"

#: A path that DeepSpeed refuses when it is empty.
Path = Annotated[str, Field(min_length=1)]


class ModelInfo(Block):
    """Facts about the model, in place of the autotuner's profiling run.

    The search also needs a figure that only that run brings (activation memory), so it fails under this block.
    """

    reader = "dict"
    retired = (
        Retired(
            "hideen_size",
            "dead",
            "autotuning/config.py:92",
            becomes="hidden_size",
            advice="A misspelling that DeepSpeed itself used up to 0.8.3.",
        ),
    )

    profile: bool = key(
        False, doc="Measure parameters and activation memory, write them down and stop.", source=f"{_SOURCE}:92"
    )
    num_params: Int | None = key(None, doc="Number of parameters of the model.", source=f"{_SOURCE}:92")
    hidden_size: Int | None = key(None, doc="Width of the hidden states.", source=f"{_SOURCE}:92")
    num_layers: Int | None = key(None, doc="Number of layers.", source=f"{_SOURCE}:92")


class Autotuning(Block):
    """Search for the micro batch size and ZeRO settings that train fastest.

    The search happens only under the launcher's `--autotuning`, which reads the file as strict JSON. An engine
    that finds the block enabled takes itself for one experiment of the search: it profiles a few steps, writes
    its figures and ends the process.
    """

    actor = "the autotuner"
    reader = "dict"

    enabled: bool = key(
        False, doc="Profile this run as an experiment and exit after `end_profile_step`.", source=f"{_SOURCE}:34"
    )
    fast: bool = key(
        True, doc="Try micro batch sizes and ZeRO stages only, not the other ZeRO settings.", source=f"{_SOURCE}:36"
    )
    results_dir: Path = key(
        "autotuning_results", doc="Directory for the results of the experiments.", source=f"{_SOURCE}:38"
    )
    exps_dir: Path = key(
        "autotuning_exps", doc="Directory for the descriptions of the experiments.", source=f"{_SOURCE}:40"
    )
    overwrite: bool = key(
        True, doc="Delete both directories first instead of resuming from what they hold.", source=f"{_SOURCE}:42"
    )
    start_profile_step: Int = key(
        3, doc="Step at which an experiment starts to measure; earlier ones warm up.", source=f"{_SOURCE}:44"
    )
    end_profile_step: Int = key(5, doc="Last step that an experiment measures.", source=f"{_SOURCE}:47")
    metric: Literal["throughput", "latency", "FLOPS_per_gpu", "fwd", "bwd", "step"] = key(
        "throughput", doc="The figure of each experiment by which the search ranks it.", source=f"{_SOURCE}:50"
    )
    metric_path: str | None = key(
        None,
        doc="File for an experiment's figures; null: `autotuning_metric.json` in the working directory.",
        source=f"{_SOURCE}:52",
    )
    tuner_type: Literal["gridsearch", "random", "model_based"] = key(
        "gridsearch", doc="Order in which experiments are tried.", source=f"{_SOURCE}:54"
    )
    tuner_early_stopping: Int = key(
        5, doc="Give up after so many experiments in a row without a better one.", source=f"{_SOURCE}:56"
    )
    tuner_num_trials: Int = key(50, doc="Most experiments to run in one tuning space.", source=f"{_SOURCE}:59")
    arg_mappings: dict[str, str] | None = key(
        None,
        doc="Which command-line flag of the training script takes which tuned key, such as "
        "`train_micro_batch_size_per_gpu` to `--batch_size`.",
        source=f"{_SOURCE}:62",
    )
    model_info: ModelInfo | None = key(
        None, doc="Known facts about the model; null: find them out by a run.", source=f"{_SOURCE}:64", nullable=True
    )
    model_info_path: str | None = key(
        None,
        doc="File for the profiled facts; null: `autotuning_model_info.json` in the working directory.",
        source=f"{_SOURCE}:66",
    )
    mp_size: Int = key(1, gt=0, doc="Model-parallel degree of the job being tuned.", source=f"{_SOURCE}:68")
    max_train_batch_size: Int | None = key(
        None, doc="Largest global batch to try, in samples; null: no limit.", source=f"{_SOURCE}:70"
    )
    min_train_batch_size: Int = key(1, doc="Smallest global batch to try, in samples.", source=f"{_SOURCE}:73")
    max_train_micro_batch_size_per_gpu: Int = key(
        1024, doc="Largest micro batch to try, in samples.", source=f"{_SOURCE}:76"
    )
    min_train_micro_batch_size_per_gpu: Int = key(
        1, doc="Smallest micro batch to try, in samples.", source=f"{_SOURCE}:80"
    )
    num_tuning_micro_batch_sizes: Int = key(
        3, doc="How many micro batch sizes to try in each tuning space.", source=f"{_SOURCE}:84"
    )
