# DeepSpeed and torch.distributed leave most types out; they end here.
# pyright: reportUnknownMemberType=false
"""DeepSpeed: the only module that connects processes and calls `deepspeed.initialize`.

DeepSpeed carries no types; what the rest of the runner needs of it is typed here.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, distributed, nn
from torch.utils._pytree import tree_map_only

from runner import lifeline
from runner.data import Batch
from runner.ds_config import block
from runner.environment import Place
from runner.errors import CannotStart, UsageError
from runner.settings import DistributedSettings

#: What DeepSpeed says at every start, whatever the run, and what nobody can act on. The filter must stand before
#: the import, which says the first of them.
_CHATTER = ("Setting accelerator to CPU", "Attempting to get learning rate from scheduler before it has started")
logging.getLogger("DeepSpeed").addFilter(lambda record: not record.getMessage().startswith(_CHATTER))

# DeepSpeed calls torch by names that torch is about to change.
warnings.filterwarnings("ignore", category=FutureWarning, module="torch.distributed")

import deepspeed  # noqa: E402
from deepspeed.accelerator import get_accelerator  # noqa: E402
from deepspeed.runtime.zero import utils as zero  # noqa: E402

from runner.model.build import Objective, loss_in, refuse_unfit  # noqa: E402

T = TypeVar("T")

_accelerator = cast(Any, get_accelerator())


def accelerator() -> str:
    """DeepSpeed's name for the kind of device that the run uses: `cpu`, `cuda` and others."""
    return str(_accelerator.device_name())


def free_accelerator_memory() -> int | None:
    """Bytes that are free on this rank's accelerator; None where that is the CPU, which has the host's memory."""
    return None if accelerator() == "cpu" else int(_accelerator.available_memory())


def allocated_memory() -> tuple[int, int] | None:
    """Bytes of tensors on this rank's accelerator, now and at most so far; None where that is the CPU."""
    if accelerator() == "cpu":
        return None
    return int(_accelerator.memory_allocated()), int(_accelerator.max_memory_allocated())


def refuse_unsupported_precision(ds_config: Mapping[str, Any]) -> None:
    """Raise CannotStart if the accelerator lacks the 16-bit type that `ds_config` enables."""
    for name, supported in (
        ("fp16", _accelerator.is_fp16_supported()),
        ("bf16", _accelerator.is_bf16_supported()),
    ):
        if block(ds_config, name).get("enabled") and not supported:
            other = "a preset with bf16" if name == "fp16" else "+preset=[NAME,fp16]"
            raise CannotStart(f"{name} is enabled, and the accelerator here, {accelerator()}, lacks it; use {other}")


def connect(place: Place, settings: DistributedSettings) -> None:
    """Join the processes of the run; a process that has joined already stays as it is. Raises CannotStart."""
    # Before the first message between the processes: NCCL sends from the current device.
    _accelerator.set_device(int(os.environ["LOCAL_RANK"]))
    timeout = timedelta(minutes=settings.timeout_minutes)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            deepspeed.init_distributed(dist_backend=settings.backend, auto_mpi_discovery=False, timeout=timeout)
    except (RuntimeError, ValueError) as error:
        where = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        raise CannotStart(
            f"the ranks cannot meet at {where}: {str(error).splitlines()[0]}\n"
            f"  help: see that all of them are started and reach that address; distributed.backend, now "
            f"{settings.backend or 'the usual one'}, must be one that torch has here"
        ) from None
    distributed.barrier()
    _unlink_shared_buffer(place)
    lifeline.join(place.rank, place.world_size, share)


def disconnect() -> None:
    """Leave the processes of the run; the last thing that a process does."""
    if distributed.is_initialized():
        distributed.barrier()
        lifeline.leave()
        distributed.destroy_process_group()


def share(value: T) -> T:
    """What rank 0 says, on all ranks."""
    told: list[T] = [value]
    distributed.broadcast_object_list(told, src=0)
    return told[0]


def tell_all(value: T) -> list[T]:
    """What every rank says, in the order of the ranks, on all of them."""
    told = cast("list[T]", [None] * distributed.get_world_size())
    distributed.all_gather_object(told, value)
    return told


def random_state() -> Tensor:
    """Of the accelerator's generator."""
    return cast(Tensor, _accelerator.get_rng_state())


def set_random_state(state: Tensor) -> None:
    """Of the accelerator's generator."""
    _accelerator.set_rng_state(state)


class Engine:
    """A model under the optimizer, schedule, precision and sharding of a ds_config.

    `deepspeed`: the engine of DeepSpeed itself. `fp16`: whether steps are skipped where gradients overflow.
    `micro_batch_size`: samples that one rank takes at a time. `accumulation_steps`: micro-batches that make up one
    optimizer step. `loader`: what DeepSpeed made of `training_data`.
    """

    def __init__(
        self,
        model: nn.Module,
        ds_config: Mapping[str, Any],
        *,
        optimizer: Callable[[Any], Any] | None = None,
        scheduler: Callable[[Any], Any] | None = None,
        objective: Objective | None = None,
        training_data: Any = None,
        collate: Callable[[list[Any]], Batch] | None = None,
    ) -> None:
        """`optimizer`: makes one of parameters; `scheduler`: makes one of an optimizer, to be moved on with each step.

        Both take the place of what `ds_config` says. `objective`: none where the model itself gives the loss.
        `training_data`: a dataset for DeepSpeed to load, in batches that `collate` makes of items. Raises UsageError
        if ZeRO does not run with that optimizer.
        """

        def tested(parameters: Any) -> Any:
            made = optimizer(parameters) if optimizer else None
            sharded = block(ds_config, "zero_optimization").get("stage", 0) > 0
            if sharded and not (
                ds_config.get("zero_allow_untested_optimizer") or zero.is_zero_supported_optimizer(made)
            ):
                raise UsageError(
                    f"error: optimizer: ZeRO was not tested with {type(made).__name__}, so DeepSpeed refuses it. If it "
                    f"updates each number from that number's own gradient and state alone, it is right all the same: "
                    f"+ds_config.zero_allow_untested_optimizer=true; otherwise take a preset without ZeRO (ddp)"
                )
            return made

        self.deepspeed: Any
        self.deepspeed, _, self.loader, _ = deepspeed.initialize(
            model=model,
            config=dict(ds_config),
            optimizer=tested if optimizer else None,
            lr_scheduler=scheduler,
            training_data=training_data,
            collate_fn=collate,
        )
        self._objective = objective
        self._called = False
        kinds = {"bf16": torch.bfloat16, "fp16": torch.float16}
        enabled = [kind for name, kind in kinds.items() if block(ds_config, name).get("enabled")]
        self._kind = enabled[0] if enabled else torch.float32
        self.fp16 = bool(self.deepspeed.fp16_enabled())
        self.micro_batch_size = int(self.deepspeed.train_micro_batch_size_per_gpu())
        self.accumulation_steps = int(self.deepspeed.gradient_accumulation_steps())
        self._device: torch.device = self.deepspeed.device

    @property
    def lr(self) -> float:
        """The learning rate of the next optimizer step."""
        return float(self.deepspeed.get_lr()[0])

    @property
    def optimizer(self) -> Any:
        """The innermost one, below what ZeRO wraps around it."""
        return self.deepspeed.basic_optimizer

    @property
    def device(self) -> torch.device:
        """Where this rank computes."""
        return self._device

    @property
    def skipped_steps(self) -> int:
        """How many optimizer steps were left out because gradients overflowed."""
        return int(self.deepspeed.skipped_steps)

    @property
    def loss_scale(self) -> float | None:
        """What fp16 multiplies the loss with; none in other precisions."""
        return float(self.deepspeed.optimizer.cur_scale) if self.fp16 else None

    @property
    def memory(self) -> int:
        """The most bytes that tensors took on this rank's accelerator so far; on a CPU, what the process takes now."""
        if self._device.type == "cpu":
            return int(_accelerator.memory_allocated())
        return int(_accelerator.max_memory_allocated())

    def tell_monitors(self, name: str, value: float) -> None:
        """Have DeepSpeed's monitors, where some are enabled, write it down beside what they write of each step."""
        if self.deepspeed.monitor.enabled and distributed.get_rank() == 0:
            self.deepspeed.monitor.write_events([(name, value, self.deepspeed.global_samples)])

    @property
    def gradient_norm(self) -> float | None:
        """Of the last optimizer step, before clipping; none where DeepSpeed does not work it out."""
        norm = self.deepspeed.get_global_grad_norm()
        return None if norm is None else float(norm)

    def train(self, batches: Sequence[Batch], before_update: Callable[[Tensor], None]) -> None:
        """One optimizer step on `accumulation_steps` micro-batches.

        `before_update` is given this rank's mean loss, float32 [], while no weight has changed yet, and may raise.
        """
        self.deepspeed.train()
        total = torch.zeros((), device=self._device)
        for index, batch in enumerate(batches, 1):
            loss, _, _ = self._forward(batch)
            total += loss.detach()
            if index == len(batches):
                before_update(total / self.accumulation_steps)
            # Both for every micro-batch: DeepSpeed itself counts up to the accumulation boundary.
            self.deepspeed.backward(loss)
            self.deepspeed.step()

    def save(self, directory: Path, state: dict[str, Any]) -> str | None:
        """Write DeepSpeed's files and `state` to `directory`, all ranks together; returns what went wrong here."""
        writer = _Writer(self.deepspeed.checkpoint_engine)
        self.deepspeed.checkpoint_engine = writer
        try:
            self.deepspeed.save_checkpoint(
                str(directory.parent), tag=directory.name, client_state=state, save_latest=False
            )
        except OSError as error:
            # From one of the copies that follow the shards; the others wait in the barrier at the end.
            writer.fault = writer.fault or f"{error.filename2 or error.filename}: {error.strerror}"
            distributed.barrier()
        finally:
            self.deepspeed.checkpoint_engine = writer.inner
        return writer.fault

    def load(self, directory: Path) -> dict[str, Any]:
        """Restore everything that DeepSpeed saved in `directory`, all ranks together; returns the state beside it."""
        path, state = self.deepspeed.load_checkpoint(str(directory.parent), tag=directory.name)
        if path is None:
            raise RuntimeError(f"DeepSpeed found no checkpoint in {directory}")
        return cast("dict[str, Any]", state)

    @torch.no_grad()
    def judge(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """This rank's mean loss on a batch, float32 [], and the share of samples whose class was predicted.

        The share is none where samples have no class. At stage 3 all ranks must call it together.
        """
        self.deepspeed.eval()
        loss, output, target = self._forward(batch)
        if not isinstance(output, Tensor) or output.ndim != 2 or not isinstance(target, Tensor) or target.ndim != 1:
            return loss.float(), None
        return loss.float(), (output.argmax(dim=1) == target).float().mean()

    def _forward(self, batch: Batch) -> tuple[Tensor, Any, Any]:
        """The loss, and where something else makes it of them, the model's output and the batch's last item."""
        batch = self._moved(batch)
        if self._objective is None:
            batch = self._cast(batch)
            output = self._call(**batch) if isinstance(batch, Mapping) else self._call(*batch)
            return loss_in(output), None, None
        items = cast("Mapping[str, Any]", batch).values() if isinstance(batch, Mapping) else batch
        *inputs, target = list(items)
        output = self._call(*self._cast(inputs))
        # A loss summed up in 16 bits would be coarse.
        if isinstance(output, Tensor) and output.is_floating_point():
            output = output.float()
        return self._objective(output, target), cast(Any, output), target

    def _call(self, *given: Any, **named: Any) -> Any:
        if not self._called:
            refuse_unfit(self.deepspeed.module, *given, **named)
            self._called = True
        return self.deepspeed(*given, **named)

    def _moved(self, batch: Batch) -> Batch:
        return tree_map_only(Tensor, lambda tensor: tensor.to(self._device), batch)

    def _cast(self, inputs: Any) -> Any:
        """Inputs with fractions brought to the precision of the weights, which DeepSpeed does only for fp16."""
        return tree_map_only(
            Tensor, lambda tensor: tensor.to(self._kind) if tensor.is_floating_point() else tensor, inputs
        )

    def sum_over_ranks(self, *values: Tensor | float) -> list[float]:
        """Each value summed over all ranks; all ranks must call it together."""
        numbers = torch.stack([torch.as_tensor(value, dtype=torch.float64) for value in values])
        # Not every accelerator has float64, and the sums are of a few thousand numbers near one.
        numbers = numbers.to(self._device, torch.float32)
        distributed.all_reduce(numbers)
        return cast("list[float]", numbers.tolist())


class _Writer:
    """DeepSpeed's writer of files, except that it notes a failure instead of raising it.

    A rank that left `save_checkpoint` early would leave the others waiting for it there.
    """

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.fault: str | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        self._try(path, lambda: self.inner.makedirs(path, exist_ok=exist_ok))

    def save(self, state_dict: Any, path: str) -> None:
        self._try(path, lambda: self.inner.save(state_dict, path))

    def _try(self, path: str, write: Callable[[], None]) -> None:
        try:
            write()
        except (OSError, RuntimeError) as error:
            # torch reports a full disk as a RuntimeError about its own container.
            reason = error.strerror if isinstance(error, OSError) else _full(path) or str(error).splitlines()[0]
            self.fault = self.fault or f"{path}: {reason}"


def _full(path: str) -> str | None:
    try:
        return "No space left on device" if shutil.disk_usage(Path(path).parent).free < 1 << 20 else None
    except OSError:
        return None


def _unlink_shared_buffer(place: Place) -> None:
    """Take its name from the buffer (64 MiB a rank) that DeepSpeed makes on CPUs and never removes.

    All ranks have mapped it by now, so it lives exactly as long as they do, however they end.
    """
    address, port = os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]
    if hasattr(os, "getuid"):
        name = f"deepspeed_allreduce_buffer_{os.getuid()}_{address}_{port}_{place.rank}"
        Path("/dev/shm", name).unlink(missing_ok=True)
