"""The root of `ds_config.json`."""

import os
from typing import Annotated, Any, Literal

from dsconf.atomic import write_text
from dsconf.models.activation_checkpointing import ActivationCheckpointing
from dsconf.models.aio import Aio
from dsconf.models.autotuning import Autotuning
from dsconf.models.block import FOLDED, Block, Float, Int, Positive, Retired, key
from dsconf.models.checkpoint import Checkpoint
from dsconf.models.comms_logger import CommsLogger
from dsconf.models.compile import Compile
from dsconf.models.data_efficiency import DataEfficiency
from dsconf.models.data_types import DataTypes
from dsconf.models.expert_parallel import ExpertParallel
from dsconf.models.flops_profiler import FlopsProfiler
from dsconf.models.hybrid_engine import HybridEngine
from dsconf.models.monitor import Comet, CsvMonitor, Tensorboard, Wandb
from dsconf.models.optimizer import Optimizer
from dsconf.models.pipeline import Pipeline
from dsconf.models.precision import Bf16, Fp16
from dsconf.models.scheduler import Scheduler
from dsconf.models.tensor_parallel import TensorParallel
from dsconf.models.timers import Timers
from dsconf.models.torch_autocast import TorchAutocast
from dsconf.models.weight_quantization import WeightQuantization
from dsconf.models.zero import ZeroOptimization

_CONFIG = "runtime/config.py"
_GONE = f"{_CONFIG}:80"

CommunicationDtype = Annotated[Literal["fp32", "fp16", "bf16"], FOLDED]


def _removed(key: str, advice: str) -> Retired:
    return Retired(key, "removed", _GONE, advice=advice)


class DeepSpeedConfig(Block):
    """A whole DeepSpeed configuration.

    Built from keyword arguments, blocks or plain dicts alike. Raises `ConfigError`, with every diagnostic, when
    DeepSpeed would refuse the configuration or would not do what it says.
    """

    reader = "dict"
    retired = (
        Retired("bfloat16", "renamed", "runtime/precision_config.py:31", becomes="bf16"),
        Retired(
            "fp32_allreduce",
            "dead",
            "runtime/config.py:219",
            becomes="communication_data_type",
            values={True: "fp32", False: None},
        ),
        Retired("zero_one_adam", "dead", _GONE, advice="the 1-bit optimizers no longer exist"),
        _removed("nebula", "write checkpoints with `engine.save_checkpoint`"),
        _removed("compression_training", "compress the model with another tool"),
        _removed("amp", "use `bf16`, `fp16` or `torch_autocast`"),
        _removed("quantize_training", "there is no successor"),
        _removed("sparse_gradients", "build the embedding with `sparse=True` instead"),
        _removed("eigenvalue", "there is no successor"),
        _removed("sparse_attention", "use the attention of your model or of PyTorch"),
        _removed("elasticity", "set the batch sizes yourself"),
        _removed("graph_harvesting", "there is no successor"),
        _removed("curriculum_learning", "use `data_efficiency.data_sampling.curriculum_learning`"),
        _removed("progressive_layer_drop", "there is no successor"),
    )

    train_batch_size: Positive | None = key(
        None, doc="Samples in one optimizer step, over all ranks.", source=f"{_CONFIG}:340"
    )
    train_micro_batch_size_per_gpu: Positive | None = key(
        None, doc="Samples in one forward pass of one rank.", source=f"{_CONFIG}:344"
    )
    gradient_accumulation_steps: Positive | None = key(
        None, doc="Forward passes whose gradients make up one optimizer step.", source=f"{_CONFIG}:209"
    )
    managed_gradient_accumulation: bool = key(
        True,
        doc="Let the engine decide which call of `step()` updates the weights.",
        source=f"{_CONFIG}:213",
    )
    optimizer: Optimizer | None = key(
        None, doc="The optimizer, unless the script brings its own.", source=f"{_CONFIG}:288"
    )
    scheduler: Scheduler | None = key(
        None, doc="The learning-rate schedule, stepped once per optimizer step.", source=f"{_CONFIG}:325"
    )
    bf16: Bf16 | None = key(None, nullable=True, doc="Training in bfloat16.", source="runtime/precision_config.py:34")
    fp16: Fp16 | None = key(None, doc="Training in half precision.", source="runtime/precision_config.py:95")
    torch_autocast: TorchAutocast | None = key(None, doc="PyTorch's mixed precision.", source=f"{_CONFIG}:180")
    data_types: DataTypes | None = key(
        None, doc="Types that gradients, parameters and buffers are kept in.", source=f"{_CONFIG}:555"
    )
    gradient_clipping: Float = key(
        1.0, doc="Global gradient norm that gradients are scaled down to; 0 or less: off.", source=f"{_CONFIG}:269"
    )
    prescale_gradients: bool = key(
        False, doc="Divide gradients by the number of ranks before they are summed.", source=f"{_CONFIG}:234"
    )
    gradient_predivide_factor: Float = key(
        1.0, doc="Part of that division which happens before the sum.", source=f"{_CONFIG}:238"
    )
    gradient_allreduce_op: Annotated[Literal["mean", "sum"], FOLDED] = key(
        "mean", doc="Whether gradients are averaged or summed over the ranks.", source=f"{_CONFIG}:242"
    )
    communication_data_type: CommunicationDtype | None = key(
        None, doc="Type that gradients are sent in; the training precision when absent.", source=f"{_CONFIG}:219"
    )
    seq_parallel_communication_data_type: CommunicationDtype | None = key(
        "fp32", doc="The same under sequence parallelism.", source=f"{_CONFIG}:219"
    )
    zero_optimization: ZeroOptimization | None = key(
        None, doc="Sharding of model states over the ranks.", source="runtime/zero/config.py:71"
    )
    zero_allow_untested_optimizer: bool = key(
        False, doc="Let ZeRO work with an optimizer that DeepSpeed does not know.", source=f"{_CONFIG}:318"
    )
    zero_force_ds_cpu_optimizer: bool = key(
        True,
        doc="Refuse an offloaded optimizer of the script's own that is not DeepSpeed's CPU one.",
        source=f"{_CONFIG}:322",
    )
    aio: Aio | None = key(
        None, nullable=True, doc="Transfers to and from NVMe.", source="runtime/swap_tensor/aio_config.py:21"
    )
    activation_checkpointing: ActivationCheckpointing | None = key(
        None,
        doc="Settings for `deepspeed.checkpointing`, which the script must call.",
        source="runtime/activation_checkpointing/config.py:69",
    )
    checkpoint: Checkpoint | None = key(None, doc="Saving and loading.", source=f"{_CONFIG}:380")
    steps_per_print: Int | None = key(
        None, doc="Optimizer steps between two progress lines; absent means none.", source=f"{_CONFIG}:253"
    )
    wall_clock_breakdown: bool = key(False, doc="Time forward, backward and step, and log it.", source=f"{_CONFIG}:352")
    memory_breakdown: bool = key(False, doc="Log memory at each phase.", source=f"{_CONFIG}:356")
    dump_state: bool = key(False, doc="Print the engine's state once after start-up.", source=f"{_CONFIG}:261")
    log_level: Annotated[Literal["debug", "info", "warning", "error", "critical"], FOLDED] | None = key(
        None, doc="Level of DeepSpeed's own logger.", source=f"{_CONFIG}:414"
    )
    flops_profiler: FlopsProfiler | None = key(None, doc="Profile one step.", source="profiling/config.py:21")
    comms_logger: CommsLogger | None = key(
        None, doc="Log collectives; presence switches it on.", source="comm/config.py:22"
    )
    tensorboard: Tensorboard | None = key(None, doc="Metrics to TensorBoard.", source="monitor/config.py:13")
    wandb: Wandb | None = key(None, doc="Metrics to Weights & Biases.", source="monitor/config.py:13")
    csv_monitor: CsvMonitor | None = key(None, doc="Metrics to CSV files.", source="monitor/config.py:13")
    comet: Comet | None = key(None, doc="Metrics to Comet.", source="monitor/config.py:13")
    timers: Timers | None = key(None, doc="The throughput timer.", source="utils/config.py:28")
    dataloader_drop_last: bool = key(
        False, doc="Drop the last, short batch of a loader that DeepSpeed builds.", source=f"{_CONFIG}:410"
    )
    data_efficiency: DataEfficiency | None = key(
        None, doc="Curriculum learning and random token dropping.", source="runtime/data_pipeline/config.py:18"
    )
    autotuning: Autotuning | None = key(
        None, doc="Settings of `deepspeed --autotuning`.", source="autotuning/config.py:26"
    )
    pipeline: Pipeline | None = key(None, doc="Pipeline parallelism.", source=f"{_CONFIG}:283")
    tensor_parallel: TensorParallel | None = key(
        None, doc="Automatic tensor parallelism.", source="runtime/tensor_parallel/config.py:150"
    )
    expert_parallel: ExpertParallel | None = key(
        None, nullable=True, doc="Automatic expert parallelism.", source=f"{_CONFIG}:172"
    )
    use_data_before_expert_parallelism: bool = key(
        False, doc="Order of ranks in groups of mixture-of-experts layers.", source=f"{_CONFIG}:376"
    )
    sequence_parallel_size: Positive | None = key(None, doc="Ranks that share one sequence.", source=f"{_CONFIG}:468")
    data_parallel_size: Positive | None = key(
        None, doc="Ranks with data of their own, beside sequence_parallel_size.", source="__init__.py:543"
    )
    compile: Compile | None = key(
        None, doc="DeepCompile, once the script calls `engine.compile()`.", source=f"{_CONFIG}:584"
    )
    hybrid_engine: HybridEngine | None = key(
        None, doc="Training and generation with one model.", source=f"{_CONFIG}:370"
    )
    weight_quantization: WeightQuantization | None = key(
        None, doc="Quantized weights for inference.", source=f"{_CONFIG}:582"
    )
    datastates_ckpt: dict[str, Any] | bool | None = key(
        False, doc="Asynchronous checkpoints; anything but false switches them on.", source="datastates/config.py:20"
    )
    vocabulary_size: Int | None = key(None, doc="Warn when this is not a multiple of 8.", source=f"{_CONFIG}:717")
    disable_python_gc: bool = key(
        False, doc="Stop Python's cyclic garbage collection while the engine lives.", source=f"{_CONFIG}:265"
    )
    disable_allgather: bool = key(False, dead=True, doc="Once switched the all-gather off.", source=f"{_CONFIG}:257")
    allgather_size: Int = key(
        500_000_000,
        doc="All-gather bucket of the old form `zero_optimization: true`.",
        source="runtime/zero/config.py:64",
    )

    @property
    def zero_stage(self) -> int:
        """The ZeRO stage, 0 when ZeRO is off."""
        return self.zero_optimization.stage if self.zero_optimization else 0

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the canonical file, atomically: a reader sees the old file or the whole new one.

        Raises:
            OSError: the file cannot be written; what was there before is untouched.
        """
        write_text(path, self.to_json())
