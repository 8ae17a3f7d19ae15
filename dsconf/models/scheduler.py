"""`scheduler`, told apart by `type`: DeepSpeed's five schedules and those of `torch.optim.lr_scheduler`.

`params` become the keyword arguments of the class: the block must be there, and unknown names are refused.
"""

from typing import Annotated, Literal

from pydantic import Field

from dsconf.models.block import Block, Float, Int, NonNegative, Positive, key

_DS = "runtime/lr_schedules.py"
_TORCH = "torch/optim/lr_scheduler.py"

#: One number for all parameter groups, or one for each.
PerGroup = Float | list[Float]

_TYPE = "Name of the schedule."
_PARAMS = "Arguments of the schedule; `{}` if there are none."
_LAST = "Step to go on from: -1, for DeepSpeed restores the schedule from the checkpoint."


class _Params(Block):
    reader = "kwargs"


class _Scheduler(Block):
    reader = "dict"
    tag = "type"


class WarmupParams(_Params):
    warmup_min_lr: PerGroup = key(0.0, doc="Learning rate that warm-up starts from.", source=f"{_DS}:727")
    warmup_max_lr: PerGroup | None = key(
        None, doc="Learning rate that warm-up reaches; the optimizer's when absent.", source=f"{_DS}:728"
    )
    warmup_num_steps: Int = key(1000, gt=0, doc="Steps of warm-up; 1 acts as 2.", source=f"{_DS}:733")
    warmup_type: Literal["log", "linear"] = key("log", doc="Shape of the warm-up.", source=f"{_DS}:746")
    last_batch_iteration: Int = key(-1, doc=_LAST, source=f"{_DS}:731")


class WarmupLR(_Scheduler):
    """Warm up, then hold."""

    type: Literal["WarmupLR"] = key(doc=_TYPE, source="runtime/engine.py:1925")
    params: WarmupParams = key(doc=_PARAMS, source="runtime/engine.py:1934")


class WarmupDecayParams(_Params):
    total_num_steps: Int | Float = key(doc="Step at which the learning rate reaches zero.", source=f"{_DS}:816")
    warmup_min_lr: PerGroup = key(0.0, doc="Learning rate that warm-up starts from.", source=f"{_DS}:817")
    warmup_max_lr: PerGroup = key(
        0.001, doc="Learning rate that warm-up reaches, whatever the optimizer's is.", source=f"{_DS}:818"
    )
    warmup_num_steps: Int = key(1000, gt=0, doc="Steps of warm-up; 1 acts as 2.", source=f"{_DS}:733")
    warmup_type: Literal["log", "linear"] = key("log", doc="Shape of the warm-up.", source=f"{_DS}:746")
    last_batch_iteration: Int = key(-1, doc=_LAST, source=f"{_DS}:821")


class WarmupDecayLR(_Scheduler):
    """Warm up, then fall linearly to zero."""

    type: Literal["WarmupDecayLR"] = key(doc=_TYPE, source="runtime/engine.py:1925")
    params: WarmupDecayParams = key(doc=_PARAMS, source="runtime/engine.py:1934")


class WarmupCosineParams(_Params):
    total_num_steps: Int | Float = key(doc="Step at which the cosine reaches its end.", source=f"{_DS}:867")
    warmup_min_ratio: Float = key(
        0.0, doc="Share of the optimizer's learning rate that warm-up starts from.", source=f"{_DS}:868"
    )
    warmup_num_steps: Int = key(1000, gt=0, doc="Steps of warm-up; 1 acts as 2.", source=f"{_DS}:874")
    cos_min_ratio: Float = key(
        0.0001, doc="Share of the optimizer's learning rate that the cosine ends at.", source=f"{_DS}:870"
    )
    warmup_type: Literal["log", "linear"] = key("log", doc="Shape of the warm-up.", source=f"{_DS}:884")
    last_batch_iteration: Int = key(-1, doc=_LAST, source=f"{_DS}:872")


class WarmupCosineLR(_Scheduler):
    """Warm up to the optimizer's learning rate, then follow half a cosine down."""

    type: Literal["WarmupCosineLR"] = key(doc=_TYPE, source="runtime/engine.py:1925")
    params: WarmupCosineParams = key(doc=_PARAMS, source="runtime/engine.py:1934")


class LRRangeTestParams(_Params):
    lr_range_test_min_lr: PerGroup = key(0.001, doc="Learning rate that the test starts from.", source=f"{_DS}:354")
    lr_range_test_step_size: Int = key(2000, gt=0, doc="Steps between two increases.", source=f"{_DS}:370")
    lr_range_test_step_rate: Float = key(1.0, doc="Increase each time.", source=f"{_DS}:356")
    lr_range_test_staircase: bool = key(False, doc="Increase in stairs.", source=f"{_DS}:357")
    last_batch_iteration: Int = key(-1, doc=_LAST, source=f"{_DS}:358")


class LRRangeTest(_Scheduler):
    """Raise the learning rate steadily, to find the largest that works."""

    type: Literal["LRRangeTest"] = key(doc=_TYPE, source="runtime/engine.py:1925")
    params: LRRangeTestParams = key(doc=_PARAMS, source="runtime/engine.py:1934")


class OneCycleParams(_Params):
    cycle_min_lr: PerGroup = key(doc="Lowest learning rate of the cycle.", source=f"{_DS}:485")
    cycle_max_lr: PerGroup = key(doc="Highest learning rate of the cycle.", source=f"{_DS}:486")
    decay_lr_rate: Float = key(0.0, doc="Decay of the learning rate after the cycle.", source=f"{_DS}:487")
    cycle_first_step_size: Int = key(2000, gt=0, doc="Steps of the rising half.", source=f"{_DS}:526")
    cycle_second_step_size: NonNegative | None = key(None, doc="Steps of the falling half.", source=f"{_DS}:528")
    cycle_first_stair_count: Int = key(0, doc="Stairs of the rising half.", source=f"{_DS}:490")
    cycle_second_stair_count: Int | None = key(None, doc="Stairs of the falling half.", source=f"{_DS}:491")
    decay_step_size: Int = key(0, doc="Steps between two decays after the cycle.", source=f"{_DS}:492")
    cycle_momentum: bool = key(True, doc="Cycle the momentum as well.", source=f"{_DS}:493")
    cycle_min_mom: Float = key(0.8, doc="Lowest momentum of the cycle.", source=f"{_DS}:494")
    cycle_max_mom: Float = key(0.9, doc="Highest momentum of the cycle.", source=f"{_DS}:495")
    decay_mom_rate: Float = key(0.0, doc="Decay of the momentum after the cycle.", source=f"{_DS}:496")
    last_batch_iteration: Int = key(-1, doc=_LAST, source=f"{_DS}:497")


class OneCycle(_Scheduler):
    """One cycle up and down, then decay."""

    type: Literal["OneCycle"] = key(doc=_TYPE, source="runtime/engine.py:1925")
    params: OneCycleParams = key(doc=_PARAMS, source="runtime/engine.py:1934")


class _TorchParams(_Params):
    last_epoch: Int = key(-1, ge=-1, le=-1, doc=_LAST, source=_TORCH)


class StepLRParams(_TorchParams):
    step_size: Int = key(doc="Steps between two decays.", source=_TORCH)
    gamma: Float = key(0.1, doc="Factor of a decay.", source=_TORCH)


class StepLR(_Scheduler):
    """torch's StepLR."""

    type: Literal["StepLR"] = key(doc=_TYPE, source="runtime/engine.py:1928")
    params: StepLRParams = key(doc=_PARAMS, source="runtime/engine.py:1934")


class MultiStepLRParams(_TorchParams):
    milestones: list[Int] = key(doc="Steps at which to decay.", source=_TORCH)
    gamma: Float = key(0.1, doc="Factor of a decay.", source=_TORCH)


class MultiStepLR(_Scheduler):
    """torch's MultiStepLR."""

    type: Literal["MultiStepLR"] = key(doc=_TYPE, source="runtime/engine.py:1928")
    params: MultiStepLRParams = key(doc=_PARAMS, source="runtime/engine.py:1934")


class ConstantLRParams(_TorchParams):
    factor: Float = key(1 / 3, ge=0, le=1, doc="Factor of the first steps.", source=_TORCH)
    total_iters: Int = key(5, doc="Number of first steps.", source=_TORCH)


class ConstantLR(_Scheduler):
    """torch's ConstantLR."""

    type: Literal["ConstantLR"] = key(doc=_TYPE, source="runtime/engine.py:1928")
    params: ConstantLRParams = key(doc=_PARAMS, source="runtime/engine.py:1934")


class LinearLRParams(_TorchParams):
    start_factor: Float = key(1 / 3, gt=0, le=1, doc="Factor at the start.", source=_TORCH)
    end_factor: Float = key(1.0, ge=0, le=1, doc="Factor at the end.", source=_TORCH)
    total_iters: Int = key(5, doc="Steps from start to end.", source=_TORCH)


class LinearLR(_Scheduler):
    """torch's LinearLR."""

    type: Literal["LinearLR"] = key(doc=_TYPE, source="runtime/engine.py:1928")
    params: LinearLRParams = key(doc=_PARAMS, source="runtime/engine.py:1934")


class ExponentialLRParams(_TorchParams):
    gamma: Float = key(doc="Factor of each step.", source=_TORCH)


class ExponentialLR(_Scheduler):
    """torch's ExponentialLR."""

    type: Literal["ExponentialLR"] = key(doc=_TYPE, source="runtime/engine.py:1928")
    params: ExponentialLRParams = key(doc=_PARAMS, source="runtime/engine.py:1934")


class PolynomialLRParams(_TorchParams):
    total_iters: Int = key(5, doc="Steps until zero.", source=_TORCH)
    power: Float = key(1.0, doc="Power of the polynomial.", source=_TORCH)


class PolynomialLR(_Scheduler):
    """torch's PolynomialLR."""

    type: Literal["PolynomialLR"] = key(doc=_TYPE, source="runtime/engine.py:1928")
    params: PolynomialLRParams = key(doc=_PARAMS, source="runtime/engine.py:1934")


class CosineAnnealingLRParams(_TorchParams):
    T_max: Int = key(doc="Steps of half a period.", source=_TORCH)
    eta_min: Float = key(0.0, doc="Lowest learning rate.", source=_TORCH)


class CosineAnnealingLR(_Scheduler):
    """torch's CosineAnnealingLR."""

    type: Literal["CosineAnnealingLR"] = key(doc=_TYPE, source="runtime/engine.py:1928")
    params: CosineAnnealingLRParams = key(doc=_PARAMS, source="runtime/engine.py:1934")


class CosineAnnealingWarmRestartsParams(_TorchParams):
    T_0: Int = key(gt=0, doc="Steps until the first restart.", source=_TORCH)
    T_mult: Int = key(1, gt=0, doc="Growth of the period at a restart.", source=_TORCH)
    eta_min: Float = key(0.0, doc="Lowest learning rate.", source=_TORCH)


class CosineAnnealingWarmRestarts(_Scheduler):
    """torch's CosineAnnealingWarmRestarts."""

    type: Literal["CosineAnnealingWarmRestarts"] = key(doc=_TYPE, source="runtime/engine.py:1928")
    params: CosineAnnealingWarmRestartsParams = key(doc=_PARAMS, source="runtime/engine.py:1934")


class CyclicLRParams(_TorchParams):
    base_lr: PerGroup = key(doc="Lowest learning rate.", source=_TORCH)
    max_lr: PerGroup = key(doc="Highest learning rate.", source=_TORCH)
    step_size_up: Int = key(2000, doc="Steps of the rising half.", source=_TORCH)
    step_size_down: Int | None = key(None, doc="Steps of the falling half.", source=_TORCH)
    mode: Literal["triangular", "triangular2", "exp_range"] = key("triangular", doc="Shape.", source=_TORCH)
    gamma: Float = key(1.0, doc="Factor of exp_range.", source=_TORCH)
    scale_mode: Literal["cycle", "iterations"] = key("cycle", doc="What the scale counts.", source=_TORCH)
    cycle_momentum: bool = key(True, doc="Cycle the momentum as well.", source=_TORCH)
    base_momentum: Float = key(0.8, doc="Lowest momentum.", source=_TORCH)
    max_momentum: Float = key(0.9, doc="Highest momentum.", source=_TORCH)


class CyclicLR(_Scheduler):
    """torch's CyclicLR."""

    type: Literal["CyclicLR"] = key(doc=_TYPE, source="runtime/engine.py:1928")
    params: CyclicLRParams = key(doc=_PARAMS, source="runtime/engine.py:1934")


class OneCycleLRParams(_TorchParams):
    max_lr: PerGroup = key(doc="Highest learning rate.", source=_TORCH)
    total_steps: Positive | None = key(None, doc="Steps of the cycle.", source=_TORCH)
    epochs: Int | None = key(None, doc="Epochs, when steps are not given.", source=_TORCH)
    steps_per_epoch: Int | None = key(None, doc="Steps of an epoch.", source=_TORCH)
    pct_start: Float = key(0.3, doc="Share of the cycle that rises.", source=_TORCH)
    anneal_strategy: Literal["cos", "linear"] = key("cos", doc="Shape.", source=_TORCH)
    cycle_momentum: bool = key(True, doc="Cycle the momentum as well.", source=_TORCH)
    base_momentum: PerGroup = key(0.85, doc="Lowest momentum.", source=_TORCH)
    max_momentum: PerGroup = key(0.95, doc="Highest momentum.", source=_TORCH)
    div_factor: Float = key(25.0, doc="Highest over first learning rate.", source=_TORCH)
    final_div_factor: Float = key(10000.0, doc="First over last learning rate.", source=_TORCH)
    three_phase: bool = key(False, doc="Use a third phase.", source=_TORCH)


class OneCycleLR(_Scheduler):
    """torch's OneCycleLR."""

    type: Literal["OneCycleLR"] = key(doc=_TYPE, source="runtime/engine.py:1928")
    params: OneCycleLRParams = key(doc=_PARAMS, source="runtime/engine.py:1934")


class ReduceLROnPlateauParams(_Params):
    mode: Literal["min", "max"] = key("min", doc="Whether the metric should fall or rise.", source=_TORCH)
    factor: Float = key(0.1, lt=1, doc="Factor of a decay.", source=_TORCH)
    patience: Int = key(10, doc="Steps without improvement.", source=_TORCH)
    threshold: Float = key(1e-4, doc="What counts as improvement.", source=_TORCH)
    threshold_mode: Literal["rel", "abs"] = key("rel", doc="How the threshold counts.", source=_TORCH)
    cooldown: Int = key(0, doc="Steps to wait after a decay.", source=_TORCH)
    min_lr: PerGroup = key(0.0, doc="Lowest learning rate.", source=_TORCH)
    eps: Float = key(1e-8, doc="Smallest change that is made.", source=_TORCH)


class ReduceLROnPlateau(_Scheduler):
    """torch's ReduceLROnPlateau; DeepSpeed feeds it the batch size as the metric."""

    type: Literal["ReduceLROnPlateau"] = key(doc=_TYPE, source="runtime/engine.py:1928")
    params: ReduceLROnPlateauParams = key(doc=_PARAMS, source="runtime/engine.py:1934")


Scheduler = Annotated[
    WarmupLR
    | WarmupDecayLR
    | WarmupCosineLR
    | LRRangeTest
    | OneCycle
    | StepLR
    | MultiStepLR
    | ConstantLR
    | LinearLR
    | ExponentialLR
    | PolynomialLR
    | CosineAnnealingLR
    | CosineAnnealingWarmRestarts
    | CyclicLR
    | OneCycleLR
    | ReduceLROnPlateau,
    Field(discriminator="type"),
]
