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

from dsconf import load
from dsconf.memory import Account, Model, World, account
from proof.engine import Engine, Request, Verdict

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
    if stage:
        zero: dict[str, Any] = {"stage": stage, "reduce_bucket_size": 500_000}
        if stage == 3:
            zero.update(stage3_prefetch_bucket_size=100_000, stage3_param_persistence_threshold=1000)
        if offload != "none":
            zero["offload_optimizer"] = {"device": "cpu"}
        if offload == "both":
            zero["offload_param"] = {"device": "cpu"}
        for name in [name for name in more if name not in ("gradient_accumulation_steps", "data_types")]:
            zero[name] = more.pop(name)
        config["zero_optimization"] = zero
    config.update(more)
    extra = " ".join(more)
    name = f"stage {stage}, offload {offload}, {precision}, {optimizer}, frozen {frozen}, ranks {ranks} {extra}".strip()
    return Case(name, config, ranks, frozen)


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
TOLERANCES = {"ready": 0.01, "between": 0.01, "initialize": 0.10, "train": 0.10}


def worst(case: Case, engine: Engine) -> list[Comparison]:
    """For each thing that is compared, the rank that counts: of peaks the one that needs most, else the one that is
    furthest off."""
    found = compare(case, engine)
    result: list[Comparison] = []
    for what in TOLERANCES:
        ranks = [item for item in found if item.what == what]
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
        "initialize": max(said.bytes_at(moment) for moment in ("build", "layout", "masters", "ready")),
        "train": max(said.bytes_at(moment) for moment in ("backward", "norm", "step", "between")),
    }


def accounted(case: Case, rank: int | None = None) -> Account:
    """The account of a case."""
    import torch

    with torch.device("meta"):
        model = Model.from_module(_net(case.frozen))
    stage3 = case.config.get("zero_optimization", {}).get("stage") == 3
    return account(load(case.config), model, World(1, case.ranks), zero_init=stage3, rank=rank)


def _measure(file: Path, request: MemoryRequest) -> tuple[dict[str, int], ...]:
    import deepspeed
    import torch
    from torch.profiler import ProfilerActivity, profile

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
    sizes["initialize"] = _highest(first)
    sizes["train"] = sizes["between"] + _highest(later)
    gathered: list[Any] = [None] * request.world_size
    torch.distributed.all_gather_object(gathered, sizes)
    return tuple(gathered)


def _highest(profile: Any) -> int:
    """The highest sum of allocations above what there was at the start."""
    events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = highest = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        highest = max(highest, held)
    return highest


def live_bytes() -> int:
    """Bytes of the storages of all live tensors, each counted once."""
    import gc

    import torch

    gc.collect()
    sizes: dict[int, int] = {}
    for item in gc.get_objects():
        try:
            tensors = [item, item.grad] if isinstance(item, torch.Tensor) and item.is_leaf else [item]
        except ReferenceError:
            continue
        for tensor in tensors:
            if isinstance(tensor, torch.Tensor) and tensor.device.type != "meta":
                storage = tensor.untyped_storage()
                sizes[storage.data_ptr()] = max(sizes.get(storage.data_ptr(), 0), storage.nbytes())
    sizes.pop(0, None)
    return sum(sizes.values())


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
