"""`optimizer`, told apart by `type`: DeepSpeed's nine own names (in any case) and the classes of `torch.optim`.

`params` become the keyword arguments of the class, so a name that the class does not know is refused.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from dsconf.models.block import Block, Float, Int, key

_ENGINE = "runtime/engine.py"
_ADAM = "ops/adam/fused_adam.py:75"
_TORCH = "torch/optim"

Pair = Annotated[list[Float], Field(min_length=2, max_length=2)]

_LR = "Learning rate; a scheduler may change it."
_BETAS = "Decay rates of the two moment averages."
_EPS = "Added to the denominator."
_DECAY = "Weight decay."


class _Params(Block):
    reader = "kwargs"


class _Optimizer(Block):
    """What every optimizer block has beside its `params`."""

    reader = "dict"
    tag = "type"
    #: Whether DeepSpeed compares the name without regard to case.
    folded: ClassVar[bool] = False

    legacy_fusion: bool = key(
        False,
        doc="Wrap the optimizer as releases before 0.3 did; with fp16 at stage 0 the first step raises.",
        source="runtime/config.py:310",
    )


class AdamParams(_Params):
    """Parameters of DeepSpeed's Adam, which is fused, on the CPU or torch's own, as device and offload decide."""

    lr: Float = key(0.001, doc=_LR, source=_ADAM)
    betas: Pair = key([0.9, 0.999], doc=_BETAS, source=_ADAM)
    eps: Float = key(1e-8, doc=_EPS, source=_ADAM)
    weight_decay: Float = key(0.0, doc=_DECAY, source=_ADAM)
    bias_correction: bool = key(True, doc="Correct the moment averages of the first steps.", source=_ADAM)
    amsgrad: bool = key(
        False, doc="The AMSGrad variant, which only torch's Adam has.", source="ops/adam/fused_adam.py:87"
    )
    adam_w_mode: bool = key(
        True, doc="Decouple weight decay from the gradient; read for type Adam only.", source=f"{_ENGINE}:2487"
    )
    torch_adam: bool = key(False, doc="Use torch's Adam instead of DeepSpeed's.", source=f"{_ENGINE}:2378")
    fp32_optimizer_states: bool = key(
        True, doc="Keep moments in fp32 when the optimizer runs on the CPU.", source=f"{_ENGINE}:2379"
    )
    set_grad_none: bool = key(True, doc="Drop gradients instead of zeroing them (fused Adam only).", source=_ADAM)
    foreach: bool | None = key(None, doc="torch's multi-tensor step (with torch_adam).", source=f"{_ENGINE}:2381")
    maximize: bool = key(False, doc="Maximize the objective (with torch_adam).", source=f"{_TORCH}/adamw.py")
    capturable: bool = key(False, doc="Safe to capture in a CUDA graph (with torch_adam).", source=f"{_TORCH}/adamw.py")
    differentiable: bool = key(
        False, doc="Let autograd through the step (with torch_adam).", source=f"{_TORCH}/adamw.py"
    )
    fused: bool | None = key(None, doc="torch's fused step (with torch_adam).", source=f"{_TORCH}/adamw.py")


class Adam(_Optimizer):
    """Adam; with decoupled weight decay unless `adam_w_mode` is false."""

    folded = True
    type: Literal["Adam"] = key(doc="Name of the optimizer.", source="runtime/config.py:288")
    params: AdamParams | None = key(None, nullable=True, doc="Arguments of Adam.", source=f"{_ENGINE}:2486")


class AdamW(_Optimizer):
    """Adam with decoupled weight decay."""

    folded = True
    type: Literal["AdamW"] = key(doc="Name of the optimizer.", source="runtime/config.py:288")
    params: AdamParams | None = key(None, nullable=True, doc="Arguments of AdamW.", source=f"{_ENGINE}:2486")


class AdagradParams(_Params):
    lr: Float = key(0.01, doc=_LR, source="ops/adagrad/cpu_adagrad.py:14")
    eps: Float = key(1e-10, doc=_EPS, source="ops/adagrad/cpu_adagrad.py:14")
    weight_decay: Float = key(0.0, doc=_DECAY, source="ops/adagrad/cpu_adagrad.py:14")
    amsgrad: bool = key(False, doc="Accepted by the CPU class only.", source="ops/adagrad/cpu_adagrad.py:14")
    fp32_optimizer_states: bool = key(
        True, doc="Keep states in fp32 when the optimizer runs on the CPU.", source="ops/adagrad/cpu_adagrad.py:14"
    )
    lr_decay: Float = key(0.0, doc="Decay of the learning rate (torch's class only).", source=f"{_TORCH}/adagrad.py")
    initial_accumulator_value: Float = key(
        0.0, doc="Start of the accumulator (torch's class only).", source=f"{_TORCH}/adagrad.py"
    )
    foreach: bool | None = key(
        None, doc="torch's multi-tensor step (torch's class only).", source=f"{_TORCH}/adagrad.py"
    )
    maximize: bool = key(False, doc="Maximize the objective (torch's class only).", source=f"{_TORCH}/adagrad.py")
    differentiable: bool = key(
        False, doc="Let autograd through the step (torch's class only).", source=f"{_TORCH}/adagrad.py"
    )
    fused: bool | None = key(None, doc="torch's fused step (torch's class only).", source=f"{_TORCH}/adagrad.py")


class Adagrad(_Optimizer):
    """Adagrad: DeepSpeed's CPU class when offloaded, else torch's."""

    folded = True
    type: Literal["Adagrad"] = key(doc="Name of the optimizer.", source="runtime/config.py:288")
    params: AdagradParams | None = key(None, nullable=True, doc="Arguments of Adagrad.", source=f"{_ENGINE}:2496")


class LambParams(_Params):
    lr: Float = key(0.001, doc=_LR, source="ops/lamb/fused_lamb.py:41")
    bias_correction: bool = key(
        True, doc="Correct the moment averages of the first steps.", source="ops/lamb/fused_lamb.py:41"
    )
    betas: Pair = key([0.9, 0.999], doc=_BETAS, source="ops/lamb/fused_lamb.py:41")
    eps: Float = key(1e-8, doc=_EPS, source="ops/lamb/fused_lamb.py:41")
    eps_inside_sqrt: bool = key(False, doc="Add eps under the square root.", source="ops/lamb/fused_lamb.py:41")
    weight_decay: Float = key(0.0, doc=_DECAY, source="ops/lamb/fused_lamb.py:41")
    max_coeff: Float = key(10.0, doc="Largest trust ratio.", source="ops/lamb/fused_lamb.py:41")
    min_coeff: Float = key(0.01, doc="Smallest trust ratio.", source="ops/lamb/fused_lamb.py:41")
    amsgrad: bool = key(False, doc="Not implemented; true is refused.", source="ops/lamb/fused_lamb.py:55")


class Lamb(_Optimizer):
    """LAMB for large batches; exists on GPUs only and wants a dynamic loss scale."""

    folded = True
    type: Literal["Lamb"] = key(doc="Name of the optimizer.", source="runtime/config.py:288")
    params: LambParams | None = key(None, nullable=True, doc="Arguments of Lamb.", source=f"{_ENGINE}:2501")


class LionParams(_Params):
    lr: Float = key(0.001, doc=_LR, source="ops/lion/cpu_lion.py:15")
    betas: Pair = key([0.9, 0.999], doc="Weights of the update and of the momentum.", source="ops/lion/cpu_lion.py:15")
    weight_decay: Float = key(0.0, doc=_DECAY, source="ops/lion/cpu_lion.py:15")
    fp32_optimizer_states: bool = key(
        True, doc="Keep the momentum in fp32 (CPU class only).", source="ops/lion/cpu_lion.py:15"
    )
    set_grad_none: bool = key(
        True, doc="Drop gradients instead of zeroing them (fused class only).", source="ops/lion/fused_lion.py:36"
    )


class Lion(_Optimizer):
    """Lion: on the CPU when offloaded, else fused, which needs a GPU."""

    folded = True
    type: Literal["Lion"] = key(doc="Name of the optimizer.", source="runtime/config.py:288")
    params: LionParams | None = key(None, nullable=True, doc="Arguments of Lion.", source=f"{_ENGINE}:2506")


class MuonParams(Block):
    """Muon for the matrices, Adam for the rest; a name that neither half knows is dropped silently."""

    reader = "dict"
    lr: Float = key(0.02, doc="Learning rate of both halves unless they have their own.", source=f"{_ENGINE}:2411")
    muon_lr: Float | None = key(None, doc="Learning rate of the Muon half.", source=f"{_ENGINE}:2411")
    adam_lr: Float | None = key(None, doc="Learning rate of the Adam half.", source=f"{_ENGINE}:2411")
    momentum: Float = key(0.95, doc="Momentum of the Muon half.", source=f"{_ENGINE}:2405")
    ns_method: Literal["standard", "gram"] = key(
        "gram", doc="Newton-Schulz variant.", source="runtime/zero/muon/original_muon.py:385"
    )
    betas: Pair = key([0.9, 0.999], doc="Decay rates of the Adam half.", source=f"{_ENGINE}:2406")
    eps: Float = key(1e-8, doc="Added to the denominator of the Adam half.", source=f"{_ENGINE}:2406")
    weight_decay: Float = key(0.0, doc=_DECAY, source=f"{_ENGINE}:2405")
    adam_w_mode: bool = key(True, doc="Decouple weight decay in the Adam half.", source=f"{_ENGINE}:2531")
    torch_adam: bool = key(False, doc="Use torch's Adam for the Adam half.", source=f"{_ENGINE}:2378")
    fp32_optimizer_states: bool = key(
        True, doc="Keep the Adam half's moments in fp32 on the CPU.", source=f"{_ENGINE}:2379"
    )


class Muon(_Optimizer):
    """Muon; under stage 3 it wants `reduce_scatter` off."""

    folded = True
    type: Literal["Muon"] = key(doc="Name of the optimizer.", source="runtime/config.py:288")
    params: MuonParams | None = key(None, nullable=True, doc="Arguments of Muon.", source=f"{_ENGINE}:2530")


class _TorchParams(_Params):
    weight_decay: Float = key(0.0, doc=_DECAY, source=_TORCH)
    foreach: bool | None = key(None, doc="Step many tensors at once.", source=_TORCH)
    maximize: bool = key(False, doc="Maximize the objective.", source=_TORCH)
    differentiable: bool = key(False, doc="Let autograd through the step.", source=_TORCH)


class _CapturableParams(_TorchParams):
    capturable: bool = key(False, doc="Safe to capture in a CUDA graph.", source=_TORCH)


class MuAdamParams(_CapturableParams):
    lr: Float = key(0.001, doc=_LR, source=f"{_ENGINE}:2517")
    betas: Pair = key([0.9, 0.999], doc=_BETAS, source=f"{_ENGINE}:2517")
    eps: Float = key(1e-8, doc=_EPS, source=f"{_ENGINE}:2517")
    amsgrad: bool = key(False, doc="The AMSGrad variant.", source=f"{_ENGINE}:2517")
    decoupled_wd: bool = key(False, doc="Decouple weight decay from the learning rate.", source=f"{_ENGINE}:2517")


class MuAdam(_Optimizer):
    """Adam in the mu-parametrization; needs the `mup` package."""

    folded = True
    type: Literal["MuAdam"] = key(doc="Name of the optimizer.", source="runtime/config.py:288")
    params: MuAdamParams | None = key(None, nullable=True, doc="Arguments of MuAdam.", source=f"{_ENGINE}:2512")


class MuAdamW(_Optimizer):
    """AdamW in the mu-parametrization; needs the `mup` package."""

    folded = True
    type: Literal["MuAdamW"] = key(doc="Name of the optimizer.", source="runtime/config.py:288")
    params: MuAdamParams | None = key(None, nullable=True, doc="Arguments of MuAdamW.", source=f"{_ENGINE}:2518")


class SgdParams(_TorchParams):
    lr: Float = key(0.001, doc=_LR, source=f"{_TORCH}/sgd.py")
    momentum: Float = key(0.0, ge=0, doc="Momentum.", source=f"{_TORCH}/sgd.py")
    dampening: Float = key(0.0, doc="Dampening of the momentum.", source=f"{_TORCH}/sgd.py")
    nesterov: bool = key(False, doc="Nesterov momentum.", source=f"{_TORCH}/sgd.py")
    fused: bool | None = key(None, doc="torch's fused step.", source=f"{_TORCH}/sgd.py")


class MuSgdParams(SgdParams):
    decoupled_wd: bool = key(False, doc="Decouple weight decay from the learning rate.", source=f"{_ENGINE}:2524")


class MuSgd(_Optimizer):
    """SGD in the mu-parametrization; needs the `mup` package."""

    folded = True
    type: Literal["MuSGD"] = key(doc="Name of the optimizer.", source="runtime/config.py:288")
    params: MuSgdParams | None = key(None, nullable=True, doc="Arguments of MuSGD.", source=f"{_ENGINE}:2524")


class Sgd(_Optimizer):
    """Stochastic gradient descent, from torch."""

    type: Literal["SGD"] = key(doc="Name of the optimizer.", source=f"{_ENGINE}:2548")
    params: SgdParams | None = key(None, nullable=True, doc="Arguments of torch.optim.SGD.", source=f"{_ENGINE}:2548")


class AdadeltaParams(_CapturableParams):
    lr: Float = key(1.0, ge=0, doc=_LR, source=f"{_TORCH}/adadelta.py")
    rho: Float = key(0.9, ge=0, le=1, doc="Decay rate of the average.", source=f"{_TORCH}/adadelta.py")
    eps: Float = key(1e-6, ge=0, doc=_EPS, source=f"{_TORCH}/adadelta.py")


class Adadelta(_Optimizer):
    """Adadelta, from torch."""

    type: Literal["Adadelta"] = key(doc="Name of the optimizer.", source=f"{_ENGINE}:2548")
    params: AdadeltaParams | None = key(
        None, nullable=True, doc="Arguments of torch.optim.Adadelta.", source=f"{_ENGINE}:2548"
    )


class AdafactorParams(_Params):
    lr: Float = key(0.01, ge=0, doc=_LR, source=f"{_TORCH}/_adafactor.py")
    beta2_decay: Float = key(-0.8, le=0, doc="Exponent of the second moment's decay.", source=f"{_TORCH}/_adafactor.py")
    eps: Annotated[list[Float | None], Field(min_length=2, max_length=2)] = key(
        [None, 0.001], doc="Two small constants.", source=f"{_TORCH}/_adafactor.py"
    )
    d: Float = key(1.0, ge=1, doc="Clipping threshold of the update.", source=f"{_TORCH}/_adafactor.py")
    weight_decay: Float = key(0.0, ge=0, doc=_DECAY, source=f"{_TORCH}/_adafactor.py")
    foreach: bool | None = key(None, doc="Step many tensors at once.", source=f"{_TORCH}/_adafactor.py")
    maximize: bool = key(False, doc="Maximize the objective.", source=f"{_TORCH}/_adafactor.py")


class Adafactor(_Optimizer):
    """Adafactor, from torch."""

    type: Literal["Adafactor"] = key(doc="Name of the optimizer.", source=f"{_ENGINE}:2548")
    params: AdafactorParams | None = key(
        None, nullable=True, doc="Arguments of torch.optim.Adafactor.", source=f"{_ENGINE}:2548"
    )


class AdamaxParams(_CapturableParams):
    lr: Float = key(0.002, ge=0, doc=_LR, source=f"{_TORCH}/adamax.py")
    betas: Pair = key([0.9, 0.999], doc=_BETAS, source=f"{_TORCH}/adamax.py")
    eps: Float = key(1e-8, ge=0, doc=_EPS, source=f"{_TORCH}/adamax.py")


class Adamax(_Optimizer):
    """Adamax, from torch."""

    type: Literal["Adamax"] = key(doc="Name of the optimizer.", source=f"{_ENGINE}:2548")
    params: AdamaxParams | None = key(
        None, nullable=True, doc="Arguments of torch.optim.Adamax.", source=f"{_ENGINE}:2548"
    )


class NAdamParams(AdamaxParams):
    momentum_decay: Float = key(0.004, ge=0, doc="Decay of the momentum.", source=f"{_TORCH}/nadam.py")
    decoupled_weight_decay: bool = key(False, doc="Decouple weight decay.", source=f"{_TORCH}/nadam.py")


class NAdam(_Optimizer):
    """Adam with Nesterov momentum, from torch."""

    type: Literal["NAdam"] = key(doc="Name of the optimizer.", source=f"{_ENGINE}:2548")
    params: NAdamParams | None = key(
        None, nullable=True, doc="Arguments of torch.optim.NAdam.", source=f"{_ENGINE}:2548"
    )


class RAdamParams(_CapturableParams):
    lr: Float = key(0.001, ge=0, doc=_LR, source=f"{_TORCH}/radam.py")
    betas: Pair = key([0.9, 0.999], doc=_BETAS, source=f"{_TORCH}/radam.py")
    eps: Float = key(1e-8, ge=0, doc=_EPS, source=f"{_TORCH}/radam.py")
    decoupled_weight_decay: bool = key(False, doc="Decouple weight decay.", source=f"{_TORCH}/radam.py")


class RAdam(_Optimizer):
    """Rectified Adam, from torch."""

    type: Literal["RAdam"] = key(doc="Name of the optimizer.", source=f"{_ENGINE}:2548")
    params: RAdamParams | None = key(
        None, nullable=True, doc="Arguments of torch.optim.RAdam.", source=f"{_ENGINE}:2548"
    )


class RmspropParams(_CapturableParams):
    lr: Float = key(0.01, ge=0, doc=_LR, source=f"{_TORCH}/rmsprop.py")
    alpha: Float = key(0.99, ge=0, doc="Smoothing of the average.", source=f"{_TORCH}/rmsprop.py")
    eps: Float = key(1e-8, ge=0, doc=_EPS, source=f"{_TORCH}/rmsprop.py")
    momentum: Float = key(0.0, ge=0, doc="Momentum.", source=f"{_TORCH}/rmsprop.py")
    centered: bool = key(False, doc="Normalize by the variance.", source=f"{_TORCH}/rmsprop.py")


class Rmsprop(_Optimizer):
    """RMSprop, from torch."""

    type: Literal["RMSprop"] = key(doc="Name of the optimizer.", source=f"{_ENGINE}:2548")
    params: RmspropParams | None = key(
        None, nullable=True, doc="Arguments of torch.optim.RMSprop.", source=f"{_ENGINE}:2548"
    )


class RpropParams(_Params):
    lr: Float = key(0.01, ge=0, doc=_LR, source=f"{_TORCH}/rprop.py")
    etas: Pair = key([0.5, 1.2], doc="Factors by which a step shrinks and grows.", source=f"{_TORCH}/rprop.py")
    step_sizes: Pair = key([1e-6, 50.0], doc="Smallest and largest step.", source=f"{_TORCH}/rprop.py")
    capturable: bool = key(False, doc="Safe to capture in a CUDA graph.", source=f"{_TORCH}/rprop.py")
    foreach: bool | None = key(None, doc="Step many tensors at once.", source=f"{_TORCH}/rprop.py")
    maximize: bool = key(False, doc="Maximize the objective.", source=f"{_TORCH}/rprop.py")
    differentiable: bool = key(False, doc="Let autograd through the step.", source=f"{_TORCH}/rprop.py")


class Rprop(_Optimizer):
    """Resilient backpropagation, from torch."""

    type: Literal["Rprop"] = key(doc="Name of the optimizer.", source=f"{_ENGINE}:2548")
    params: RpropParams | None = key(
        None, nullable=True, doc="Arguments of torch.optim.Rprop.", source=f"{_ENGINE}:2548"
    )


class AsgdParams(_CapturableParams):
    lr: Float = key(0.01, ge=0, doc=_LR, source=f"{_TORCH}/asgd.py")
    lambd: Float = key(1e-4, doc="Decay term.", source=f"{_TORCH}/asgd.py")
    alpha: Float = key(0.75, doc="Exponent of the learning rate's decay.", source=f"{_TORCH}/asgd.py")
    t0: Float = key(1e6, doc="Step at which averaging starts.", source=f"{_TORCH}/asgd.py")


class Asgd(_Optimizer):
    """Averaged SGD, from torch."""

    type: Literal["ASGD"] = key(doc="Name of the optimizer.", source=f"{_ENGINE}:2548")
    params: AsgdParams | None = key(None, nullable=True, doc="Arguments of torch.optim.ASGD.", source=f"{_ENGINE}:2548")


class LbfgsParams(_Params):
    lr: Float = key(1.0, ge=0, doc=_LR, source=f"{_TORCH}/lbfgs.py")
    max_iter: Int = key(20, doc="Iterations in a step.", source=f"{_TORCH}/lbfgs.py")
    max_eval: Int | None = key(None, doc="Function evaluations in a step.", source=f"{_TORCH}/lbfgs.py")
    tolerance_grad: Float = key(1e-7, doc="Gradient at which to stop.", source=f"{_TORCH}/lbfgs.py")
    tolerance_change: Float = key(1e-9, doc="Change at which to stop.", source=f"{_TORCH}/lbfgs.py")
    history_size: Int = key(100, doc="Length of the history.", source=f"{_TORCH}/lbfgs.py")
    line_search_fn: str | None = key(None, doc="Line search.", source=f"{_TORCH}/lbfgs.py")


class Lbfgs(_Optimizer):
    """L-BFGS, from torch; DeepSpeed cannot step it, since its step needs a closure."""

    type: Literal["LBFGS"] = key(doc="Name of the optimizer.", source=f"{_ENGINE}:2548")
    params: LbfgsParams | None = key(
        None, nullable=True, doc="Arguments of torch.optim.LBFGS.", source=f"{_ENGINE}:2548"
    )


class SparseAdamParams(_Params):
    lr: Float = key(0.001, doc=_LR, source=f"{_TORCH}/sparse_adam.py")
    betas: Pair = key([0.9, 0.999], doc=_BETAS, source=f"{_TORCH}/sparse_adam.py")
    eps: Float = key(1e-8, doc=_EPS, source=f"{_TORCH}/sparse_adam.py")
    maximize: bool = key(False, doc="Maximize the objective.", source=f"{_TORCH}/sparse_adam.py")


class SparseAdam(_Optimizer):
    """Adam for sparse gradients, from torch; it refuses dense ones."""

    type: Literal["SparseAdam"] = key(doc="Name of the optimizer.", source=f"{_ENGINE}:2548")
    params: SparseAdamParams | None = key(
        None, nullable=True, doc="Arguments of torch.optim.SparseAdam.", source=f"{_ENGINE}:2548"
    )


Optimizer = Annotated[
    Adam
    | AdamW
    | Adagrad
    | Lamb
    | Lion
    | Muon
    | MuAdam
    | MuAdamW
    | MuSgd
    | Sgd
    | Adadelta
    | Adafactor
    | Adamax
    | NAdam
    | RAdam
    | Rmsprop
    | Rprop
    | Asgd
    | Lbfgs
    | SparseAdam,
    Field(discriminator="type"),
]
