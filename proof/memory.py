"""The account of `dsconf.memory` against the real engine: storages of all live tensors, and the peak between.

On a CPU all places but the drive share one memory, so sums are compared.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from dsconf.memory import Account, Model, World, account
from dsconf.memory.account import BUILDING
from dsconf.memory.plan import bound
from proof.engine import NVME_PLACEHOLDERS, Engine, Request, Verdict

#: Widths of the model that is measured: an odd vocabulary, so that padding shows.
_VOCABULARY, _HIDDEN, _BLOCKS = 4001, 192, 6

Frozen = Literal["none", "half", "most"]


@dataclass(frozen=True, slots=True)
class MemoryRequest(Request):
    """A configuration of which memory is measured. `frozen`: how much of the model does not train."""

    frozen: Frozen = "none"

    def rank(self, file: Path) -> Verdict:
        """Build, initialize and take three steps, and look at the tensors between."""
        try:
            return Verdict("done", measured=_measure(file, self))
        except BaseException as error:
            text = "".join(traceback.format_exception(error))
            return Verdict("step", type(error).__name__, str(error), log=text)


@dataclass(frozen=True, slots=True)
class Case:
    """One configuration of the comparison."""

    name: str
    config: dict[str, Any] = field(repr=False)
    ranks: int = 1
    frozen: Frozen = "none"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Predicted beside measured bytes of one rank. `what`: held once ready, held between two steps, or the peak while
    it initializes or trains."""

    case: Case
    rank: int
    what: str
    predicted_bytes: int
    measured_bytes: int

    @property
    def error(self) -> float:
        """How far the prediction is off, as a share of what was measured."""
        return self.predicted_bytes / self.measured_bytes - 1


def cases() -> Iterator[Case]:
    """Stages, offload, precision, optimizers, frozen parts and ranks, as far as a CPU has the optimizer."""
    for stage in range(4):
        for offload in ("none", *(("cpu",) if stage else ()), *(("both",) if stage == 3 else ())):
            for precision in ("bf16", "fp32"):
                for optimizer in ("AdamW", "SGD", "Adagrad", *(("Lion",) if offload != "none" else ())):
                    for frozen in ("none", "half", "most"):
                        for ranks in (1, 2):
                            yield case(stage, offload, precision, optimizer, frozen, ranks)
    yield from _variants()


def _variants() -> Iterator[Case]:
    """What else changes the bytes: accumulation, its type, overlap, sub-groups, drives, gathered parameters."""
    wide: dict[str, Any] = {"data_types": {"grad_accum_dtype": "fp32"}}
    twice: dict[str, Any] = {"gradient_accumulation_steps": 2}
    for stage, offload in ((1, "none"), (1, "cpu"), (2, "none"), (2, "cpu"), (3, "none"), (3, "cpu")):
        for ranks in (1, 2):
            for more in (wide, twice, {**wide, **twice}):
                yield case(stage, offload, ranks=ranks, **more)
    for stage, offload in ((1, "none"), (2, "none"), (2, "cpu")):
        yield case(stage, offload, ranks=2, overlap_comm=True)
        yield case(stage, offload, ranks=2, reduce_bucket_size=5_000_000)
    for ranks in (1, 2):
        yield case(3, ranks=ranks, sub_group_size=300_000)
        yield case(3, "both", ranks=ranks, stage3_max_reuse_distance=0, stage3_prefetch_bucket_size=0)
        yield case(3, ranks=ranks, stage3_gather_16bit_weights_on_model_save=True)
        yield case(3, "cpu", ranks=ranks, stage3_gather_16bit_weights_on_model_save=True)
        for offload in ("drive", "drive and cpu", "drives"):
            yield case(3, offload, ranks=ranks)


def case(
    stage: int, offload: str = "none", precision: str = "bf16", optimizer: str = "AdamW", frozen: Frozen = "none",
    ranks: int = 1, **more: Any,
) -> Case:  # fmt: skip
    """One case; `more` goes into the top level, or into `zero_optimization` what belongs there."""
    params: dict[str, Any] = {"lr": 1e-4}
    if optimizer == "SGD":
        params["momentum"] = 0.9
    config: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": 1,
        "optimizer": {"type": optimizer, "params": params},
        "bf16": {"enabled": precision == "bf16"},
        "zero_allow_untested_optimizer": True,
    }
    added: dict[str, Any] = {}
    if stage:
        zero: dict[str, Any] = {"stage": stage, "reduce_bucket_size": 500_000}
        if stage == 3:
            zero.update(stage3_prefetch_bucket_size=100_000, stage3_param_persistence_threshold=1000)
        optimizer_device, param_device = _DEVICES[offload]
        if optimizer_device:
            zero["offload_optimizer"] = _offload(optimizer_device)
        if param_device:
            zero["offload_param"] = _offload(param_device)
            if param_device == "nvme":
                zero["offload_param"].update(buffer_size=800_000, max_in_cpu=0)
        added = {name: more.pop(name) for name in list(more) if name not in _OUTSIDE}
        zero.update(added)
        config["zero_optimization"] = zero
    config.update(more)
    extra = " ".join(f"{key}={value}" for key, value in (*added.items(), *more.items()))
    name = f"stage {stage}, offload {offload}, {precision}, {optimizer}, frozen {frozen}, ranks {ranks} {extra}".strip()
    return Case(name, config, ranks, frozen)


def _offload(device: str) -> dict[str, Any]:
    return {"device": device, "nvme_path": NVME_PLACEHOLDERS[0]} if device == "nvme" else {"device": device}


#: Where the optimizer and where the parameters go.
_DEVICES = {
    "none": ("", ""),
    "cpu": ("cpu", ""),
    "both": ("cpu", "cpu"),
    "drive": ("nvme", ""),
    "drive and cpu": ("nvme", "cpu"),
    "drives": ("nvme", "nvme"),
}
#: Keys outside `zero_optimization`.
_OUTSIDE = ("gradient_accumulation_steps", "data_types")


def compare(case: Case, engine: Engine) -> list[Comparison]:
    """Predicted beside measured, for every rank.

    Raises:
        RuntimeError: the engine did not train.
    """
    verdict = engine.ask(MemoryRequest(json.dumps(case.config), case.ranks, frozen=case.frozen))
    if not verdict.trained:
        raise RuntimeError(f"{case.name}: {verdict.error}: {verdict.message}\n{verdict.log}")
    found: list[Comparison] = []
    for rank, measured in enumerate(verdict.measured):
        expected = predict(case, rank)
        for what, size in measured.items():
            found.append(Comparison(case, rank, what, expected[what], size))
    return found


#: How far off a prediction may be: of what is held, and of peaks.
TOLERANCES = {"ready": 0.01, "between": 0.01, "initialize": 0.10, "train": 0.10, "save": 0.10, "nvme": 0.01}


def worst(case: Case, engine: Engine) -> list[Comparison]:
    """For each thing that is compared, the rank that counts: of peaks the one that needs most, else the one that is
    furthest off."""
    found = compare(case, engine)
    result: list[Comparison] = []
    for what in TOLERANCES:
        ranks = [item for item in found if item.what == what]
        if not ranks:
            continue
        if TOLERANCES[what] < 0.05:
            result.append(max(ranks, key=lambda item: abs(item.error)))
            continue
        predicted = max(item.predicted_bytes for item in ranks)
        result.append(replace(max(ranks, key=lambda item: item.measured_bytes), predicted_bytes=predicted))
    return result


def disagreements(case: Case, engine: Engine) -> Iterator[str]:
    """Where prediction and measurement are too far apart."""
    for item in worst(case, engine):
        if abs(item.error) > TOLERANCES[item.what]:
            yield (
                f"rank {item.rank}, {item.what}: {item.predicted_bytes} bytes predicted, {item.measured_bytes} "
                f"measured, {item.error:+.1%}"
            )


def predict(case: Case, rank: int) -> dict[str, int]:
    """What the account says about a rank of a case."""
    said = accounted(case, rank)
    return {
        "ready": said.bytes_at("ready"),
        "between": said.bytes_at("between"),
        "initialize": max(said.bytes_at(moment) for moment in BUILDING),
        "train": max(said.bytes_at(moment) for moment in ("backward", "norm", "step", "between")),
        "save": said.bytes_at("save"),
        "nvme": said.nvme_bytes,
    }


def accounted(case: Case, rank: int | None = None) -> Account:
    """The account of a case."""
    import torch

    with torch.device("meta"):
        model = Model.from_module(_net(case.frozen))
    stage3 = case.config.get("zero_optimization", {}).get("stage") == 3
    return account(bound(case.config), model, World(1, case.ranks), zero_init=stage3, rank=rank)


def _measure(file: Path, request: MemoryRequest) -> tuple[dict[str, int], ...]:
    import deepspeed
    import torch
    from torch.profiler import ProfilerActivity, profile

    from runner.tensors import live_bytes

    deepspeed.init_distributed("gloo", verbose=False)
    path = str(file)
    before = live_bytes()
    sizes: dict[str, int] = {}
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as first:
        stage = json.loads(file.read_text()).get("zero_optimization", {}).get("stage")
        with deepspeed.zero.Init(config_dict_or_path=path, enabled=stage == 3):
            net = _net(request.frozen)
        trained = [item for item in net.parameters() if item.requires_grad]
        engine, *_ = deepspeed.initialize(model=net, model_parameters=trained, config=path)
    sizes["ready"] = live_bytes() - before
    ids = torch.arange(8).reshape(1, 8)
    for _ in range(2 * engine.gradient_accumulation_steps()):
        engine.backward(engine(ids))
        engine.step()
    sizes["between"] = live_bytes() - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as later:
        for _ in range(engine.gradient_accumulation_steps()):
            engine.backward(engine(ids))
            engine.step()
    # The swappers lock pages that torch's allocator does not count.
    sizes["initialize"] = max(_highest(first), sizes["ready"])
    sizes["train"] = sizes["between"] + _highest(later)
    if stage == 3 and engine.zero_gather_16bit_weights_on_model_save():
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as saving:
            engine.save_16bit_model(str(file.parent / "weights"))
        sizes["save"] = sizes["between"] + _highest(saving)
    torch.distributed.barrier()
    written = sum(item.stat().st_size for item in (file.parent / "nvme").rglob("*") if item.is_file())
    if written:
        sizes["nvme"] = written
    gathered: list[Any] = [None] * request.world_size
    torch.distributed.all_gather_object(gathered, sizes)
    return tuple(gathered)


def _highest(profile: Any) -> int:
    """The highest sum of allocations above what there was at the start.

    Blocks that gloo's threads free are not reported; they count until their address is given out again.
    """
    blocks: dict[int, int] = {}
    held = highest = 0
    for event in sorted(_allocations(profile), key=lambda event: event.start_time_ns):
        address, size = event.extra_fields.ptr, event.extra_fields.alloc_size
        held -= blocks.pop(address, 0 if size > 0 else -size)
        if size > 0:
            held += size
            blocks[address] = size
        highest = max(highest, held)
    return highest


def _allocations(profile: Any) -> Iterator[Any]:
    from torch._C._profiler import _EventType

    events = list(profile.profiler.kineto_results.experimental_event_tree())
    while events:
        event = events.pop()
        events += event.children
        if event.tag == _EventType.Allocation:
            yield event


def _net(frozen: Frozen) -> Any:
    """An embedding, plain residual blocks and an output layer: weights of several sizes, and hardly an activation."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(_HIDDEN)
            self.up = nn.Linear(_HIDDEN, 4 * _HIDDEN)
            self.down = nn.Linear(4 * _HIDDEN, _HIDDEN)

        def forward(self, hidden: Any) -> Any:
            return hidden + self.down(torch.tanh(self.up(self.norm(hidden))))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(_VOCABULARY, _HIDDEN)
            self.blocks = nn.ModuleList(Block() for _ in range(_BLOCKS))
            self.head = nn.Linear(_HIDDEN, 7)

        def forward(self, ids: Any) -> Any:
            hidden = self.embed(ids)
            for block in self.blocks:
                hidden = block(hidden)
            return (self.head(hidden) - 1.0).float().pow(2).mean()

    net = Net()
    parts = {"none": [], "half": [net.embed, *net.blocks[:1]], "most": [net.embed, *net.blocks[:-1]]}[frozen]
    for part in parts:
        part.requires_grad_(False)
    if frozen != "none":
        # Something has to train before the first frozen block, as adapters do, for the gradient to reach it.
        net.blocks[0].norm.requires_grad_(True)
    return net
