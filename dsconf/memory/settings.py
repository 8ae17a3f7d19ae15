"""What a configuration decides about memory, read off once: widths, optimizer, offload, bucket sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

if TYPE_CHECKING:
    from dsconf.models.config import DeepSpeedConfig

Device = Literal["none", "cpu", "nvme"]

#: Bytes of the types that gradients may be accumulated in.
_WIDTHS = {"fp32": 4, "float32": 4, "float": 4, "torch.float32": 4}


@dataclass(frozen=True, slots=True)
class Settings:
    """Widths are bytes of an element; sizes are elements.

    `states_bytes`: optimizer states, `states_at_once`: they exist from initialize on (else from the first step).
    `fused`: the optimizer takes one flat tensor. `trial_states_bytes`: states of the optimizer that the engine builds
    first and keeps, for every parameter, in the type of the model.
    """

    config: DeepSpeedConfig
    stage: int
    low_precision: bool
    autocast: bool
    model_bytes: int
    gradient_bytes: int
    master_bytes: int
    communication_bytes: int
    states_bytes: int
    states_at_once: bool
    fused: bool
    trial_states_bytes: int
    optimizer_device: Device
    param_device: Device
    reduce_bucket: int
    accumulation_steps: int
    overlap: bool
    notes: tuple[str, ...] = ()

    @property
    def zero(self) -> Any:
        """The `zero_optimization` block, of the stage that `stage` says."""
        return self.config.zero_optimization

    @staticmethod
    def of(config: DeepSpeedConfig) -> Settings:
        """Read them off a configuration.

        Source: runtime/engine.py:1799 (accumulation), 1719 (communication), 2080 (autocast keeps fp32).
        """
        zero: Any = config.zero_optimization
        stage = config.zero_stage
        bf16, fp16 = config.bf16, config.fp16
        low = bool((bf16 and bf16.enabled) or (fp16 and fp16.enabled))
        autocast = bool(config.torch_autocast and config.torch_autocast.enabled)
        width = 2 if low else 4
        accumulated = config.data_types.grad_accum_dtype if config.data_types else None
        half_master = (bf16 is not None and bf16.enabled and bf16.bf16_master_weights_and_grads) or (
            fp16 is not None and fp16.enabled and fp16.fp16_master_weights_and_grads
        )
        master = 2 if half_master and stage > 0 else 4
        optimizer_device = _device(zero, "offload_optimizer") if stage else "none"
        param_device = _device(zero, "offload_param") if stage == 3 else "none"
        states, at_once, fused, trial, notes = _states(config, optimizer_device, master, width)
        return Settings(
            config=config,
            stage=stage,
            low_precision=low,
            autocast=autocast,
            model_bytes=width,
            gradient_bytes=width if accumulated is None else _WIDTHS.get(accumulated, 2),
            master_bytes=master,
            communication_bytes=_communication(config, width),
            states_bytes=states,
            states_at_once=at_once,
            fused=fused,
            trial_states_bytes=trial,
            optimizer_device=optimizer_device,
            param_device=param_device,
            reduce_bucket=int(zero.reduce_bucket_size) if stage else 0,
            accumulation_steps=config.gradient_accumulation_steps or 1,
            overlap=bool(stage and (stage == 3 if zero.overlap_comm is None else zero.overlap_comm)),
            notes=(*notes, *_notes(config)),
        )


def _device(zero: Any, name: str) -> Device:
    block = getattr(zero, name, None)
    return cast(Device, block.device) if block is not None else "none"


def _communication(config: DeepSpeedConfig, width: int) -> int:
    """Source: runtime/engine.py:1719."""
    return width if config.communication_data_type is None else 4 if config.communication_data_type == "fp32" else 2


def _states(
    config: DeepSpeedConfig, device: Device, master: int, width: int
) -> tuple[int, bool, bool, int, tuple[str, ...]]:
    """Bytes of state, whether they are there at once, whether the optimizer is fused, bytes of a trial, and notes.

    Source: runtime/engine.py:2378 (which class), 2388 (its types), 2353 (the trial); ops/adam/cpu_adam.py:158;
    ops/lion/cpu_lion.py:118 (a second moment that nothing uses); torch/optim.
    """
    optimizer = config.optimizer
    if optimizer is None:
        return 2 * master, False, False, 0, ("no optimizer in the file: counted as Adam of the script's own",)
    kind = optimizer.type.lower()
    params: Any = optimizer.params

    def given(name: str, default: Any) -> Any:
        return getattr(params, name, default) if params is not None else default

    offloaded = device != "none"
    half_states = bool(config.bf16 and config.bf16.enabled and config.bf16.bf16_optimizer_states)
    cpu = master if half_states or not given("fp32_optimizer_states", True) else 4
    if kind in ("adam", "adamw"):
        if given("torch_adam", False):
            return (3 if given("amsgrad", False) else 2) * master, False, False, 0, ()
        return 2 * (cpu if offloaded else 4), False, not offloaded, 0, ()
    if kind == "lion":
        return (2 * cpu if offloaded else 4), False, not offloaded, 0, ()
    if kind == "adagrad":
        # torch's fills its sums when it is built, and the engine builds it twice.
        return (cpu, False, False, 0, ()) if offloaded else (4, True, False, width, ())
    if kind in ("sgd", "musgd"):
        return (master if given("momentum", 0) else 0), False, False, 0, ()
    if kind == "rmsprop":
        moments = 1 + bool(given("momentum", 0)) + bool(given("centered", False))
        return moments * master, False, False, 0, ()
    if kind == "muon":
        return 2 * master, False, False, 0, ("Muon: every parameter is counted with the two moments of its Adam half",)
    if kind == "adafactor":
        return 0, False, False, 0, ("Adafactor: its factored moments are counted as nothing",)
    if kind == "asgd":
        return master, False, False, 0, ()
    return 2 * master, False, False, 0, ()


def _notes(config: DeepSpeedConfig) -> tuple[str, ...]:
    found: list[str] = []
    for name, what in (
        ("tensor_parallel", "tensor parallelism"),
        ("expert_parallel", "expert parallelism"),
        ("hybrid_engine", "the hybrid engine"),
        ("compile", "DeepCompile"),
        ("data_efficiency", "data efficiency"),
    ):
        if getattr(config, name, None) is not None:
            found.append(f"{what} is not accounted for")
    zero: Any = config.zero_optimization
    if zero is not None and getattr(zero, "zenflow", None) is not None:
        found.append("ZenFlow is not accounted for")
    return tuple(found)
