"""What the models say about each key of a configuration, and what the installed DeepSpeed says, in the same form."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from importlib import import_module
from pathlib import Path as File
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic.v1 import BaseModel as OlderBaseModel
from pydantic.v1.fields import ModelField

from dsconf.models.block import Block, Retired
from dsconf.models.config import DeepSpeedConfig
from dsconf.models.shape import shape, tag_values
from proof.lookups import EACH, UNKNOWN, Lookups, Model, Path, annotations

_METRICS: Path = ("data_efficiency", "data_sampling", "curriculum_learning", "curriculum_metrics", EACH)
_LTD: Path = ("data_efficiency", "data_routing", "random_ltd")
_OPTIMIZER: Path = ("optimizer", "params")
_INITIALIZED: Path = ("weight_quantization", "quantized_initialization")
_QUANTIZED: Path = ("weight_quantization", "post_init_quant", EACH)

#: Where DeepSpeed reads a configuration: functions, and which of their arguments hold which part of it. The parser
#: is followed on its own; the others read what the parser hands on.
READERS: tuple[tuple[str, dict[str, Path]], ...] = (
    ("deepspeed.runtime.config:DeepSpeedConfig._initialize_params", {"param_dict": ()}),
    ("deepspeed.runtime.config:DeepSpeedConfig._do_warning_check", {"self._param_dict": ()}),
    ("deepspeed.runtime.config:DeepSpeedConfig.__init__", {"config": ()}),
    ("deepspeed.runtime.config:_reject_removed_config_keys", {"param_dict": ()}),
    ("deepspeed:initialize", {"config": ()}),
    ("deepspeed.runtime.engine:DeepSpeedEngine._configure_basic_optimizer", {"optimizer_parameters": _OPTIMIZER}),
    ("deepspeed.runtime.engine:DeepSpeedEngine.random_ltd_initialize", {"random_ltd_config": _LTD}),
    ("deepspeed.runtime.pipe.engine:PipelineEngine.__init__", {"self._config.pipeline": ("pipeline",)}),
    (
        "deepspeed.runtime.data_pipeline.data_sampling.data_sampler:DeepSpeedDataSampler.__init__",
        {"data_efficiency_config": ("data_efficiency",), "self.data_efficiency_config": ("data_efficiency",)},
    ),
    ("deepspeed.runtime.data_pipeline.curriculum_scheduler:CurriculumScheduler.__init__", {"config": _METRICS}),
    (
        "deepspeed.runtime.data_pipeline.data_sampling.variable_batch_size_and_lr:"
        "get_dataloader_and_lr_scheduler_for_variable_batch_size_deepspeed",
        {"data_efficiency_config": ("data_efficiency",)},
    ),
    ("deepspeed.runtime.data_pipeline.data_routing.scheduler:RandomLTDScheduler.__init__", {"config": _LTD}),
    (
        "deepspeed.runtime.data_pipeline.data_routing.scheduler:RandomLTDScheduler.reset_to_init",
        {"self.config_schedule": (*_LTD, "random_ltd_schedule")},
    ),
    (
        "deepspeed.runtime.data_pipeline.data_routing.scheduler:BaseScheduler._BaseScheduler__fixed_root_get_value",
        {"s_state": (*_LTD, "random_ltd_schedule", "schedule_config")},
    ),
    ("deepspeed.runtime.data_pipeline.data_routing.basic_layer:RandomLayerTokenDrop.init_config", {"config": _LTD}),
    (
        "deepspeed.module_inject.autotp_config:AutoTPConfig.from_dict",
        {"config_dict": ("tensor_parallel", "partition_config")},
    ),
    ("deepspeed.inference.quantization.utils:Quantizer.__init__", {"self.config": _INITIALIZED}),
    ("deepspeed.inference.quantization.utils:Quantizer.quantize", {"self.config": _INITIALIZED}),
    ("deepspeed.inference.quantization.utils:Quantizer.__init__", {"self.config": _QUANTIZED}),
    ("deepspeed.inference.quantization.utils:Quantizer.quantize", {"self.config": _QUANTIZED}),
)

#: The classes behind DeepSpeed's own optimizer names; any other name is a class of torch's.
OPTIMIZERS: dict[str, tuple[str, ...]] = {
    "Adam": ("deepspeed.ops.adam:FusedAdam", "deepspeed.ops.adam:DeepSpeedCPUAdam", "torch.optim:AdamW"),
    "AdamW": ("deepspeed.ops.adam:FusedAdam", "deepspeed.ops.adam:DeepSpeedCPUAdam", "torch.optim:AdamW"),
    "Adagrad": ("deepspeed.ops.adagrad:DeepSpeedCPUAdagrad", "torch.optim:Adagrad"),
    "Lamb": ("deepspeed.ops.lamb:FusedLamb",),
    "Lion": ("deepspeed.ops.lion:DeepSpeedCPULion", "deepspeed.ops.lion:FusedLion"),
    "Muon": (),
    "MuAdam": ("mup:MuAdam",),
    "MuAdamW": ("mup:MuAdamW",),
    "MuSGD": ("mup:MuSGD",),
}


@dataclass(slots=True)
class Key:
    """What one side says about a key.

    `kinds`: the JSON types that it may have; None where nothing is said. `exact`: whether they come from a
    declaration rather than from a default. `choices`: the values that it may have. `bounds`: `ge`, `gt`, `le` and
    `lt`. `defaults`: what it is when absent, as far as that is said; several where it depends.
    """

    kinds: frozenset[str] | None = None
    exact: bool = True
    choices: frozenset[Any] | None = None
    bounds: dict[str, float] = field(default_factory=dict)
    defaults: tuple[Any, ...] = ()
    source: str = ""
    block: bool = False

    def or_else(self, other: Key) -> Key:
        """What holds where either of two declarations may apply."""
        return Key(
            self.kinds | other.kinds if self.kinds and other.kinds else None,
            self.exact and other.exact,
            self.choices | other.choices if self.choices and other.choices else None,
            {name: bound for name, bound in self.bounds.items() if other.bounds.get(name) == bound},
            self.defaults + other.defaults,
            self.source or other.source,
            self.block or other.block,
        )


@dataclass(slots=True)
class Side:
    """What one side says.

    `keys`: by path. `closed`: the blocks that it reads with Pydantic. `spellings`: keys that stand for another one,
    or once did. `shared`: keys that the engine takes out of a `params` before a class gets the rest; which classes
    that goes for is not said. `absent`: blocks about which nothing is known, since a package is not installed.
    """

    keys: dict[Path, Key] = field(default_factory=dict)
    closed: set[Path] = field(default_factory=set)
    spellings: dict[Path, Retired | str] = field(default_factory=dict)
    shared: dict[Path, Key] = field(default_factory=dict)
    absent: dict[Path, str] = field(default_factory=dict)

    def add(self, path: Path, key: Key) -> None:
        self.keys[path] = self.keys[path].or_else(key) if path in self.keys else key


def models() -> Side:
    """What the models say."""
    side = Side()

    def block(cls: type[Block], path: Path) -> None:
        if cls.reader == "pydantic":
            side.closed.add(path)
        for old in cls.retired:
            side.spellings[(*path, old.key)] = old
        for name, info in cls.model_fields.items():
            form = shape(cls, name)
            here = (*path, name)
            key = _declared(info)
            key.block = bool(form.blocks) or key.kinds == {"object"}
            side.add(here, key)
            for inner in form.blocks:
                # An optimizer or a scheduler has parameters of its own.
                below = (*path, name, str(tag_values(cls)[0])) if name == "params" else here
                side.add(below, Key(block=True))
                block(inner, (*below, EACH) if form.container else below)

    block(DeepSpeedConfig, ())
    return side


def deepspeed(*, older: bool = False) -> Side:
    """What the installed DeepSpeed (and PyTorch, for its optimizers and schedules) says.

    `older`: it is another release than the models describe, which need not have everything that `READERS` names.
    """
    from deepspeed.runtime.config import DEEPSPEED_OPTIMIZERS
    from deepspeed.runtime.lr_schedules import VALID_LR_SCHEDULES
    from torch.optim import Optimizer, lr_scheduler

    side = Side()
    renamed = {(old.key,): (old.becomes,) for old in DeepSpeedConfig.retired if old.status == "renamed" and old.becomes}
    found = Lookups()
    for function, given in READERS:
        try:
            found.follow(function, given)
        except (ImportError, AttributeError):
            if not older:
                raise
    for path, looked_up in found.keys.items():
        if path in renamed:
            side.spellings[path] = renamed[path][-1]
            continue
        for item in looked_up:
            side.add((*renamed.get(path[:1], path[:1]), *path[1:]), _looked_up(item.default, item.source))
    for path, cls in found.models.items():
        _model(side, (*renamed.get(path[:1], path[:1]), *path[1:]), cls)
    own = {name.lower(): name for name in OPTIMIZERS}
    torch_optimizers = _subclasses("torch.optim", Optimizer, own)
    classes = {own.get(name, name): OPTIMIZERS.get(own.get(name, ""), ()) for name in DEEPSPEED_OPTIMIZERS}
    classes |= {name: (f"torch.optim:{name}",) for name in torch_optimizers}
    _constructors(side, "optimizer", classes)
    schedules = {name: (f"deepspeed.runtime.lr_schedules:{name}",) for name in VALID_LR_SCHEDULES}
    for name in _subclasses("torch.optim.lr_scheduler", lr_scheduler.LRScheduler, schedules):
        schedules[name] = (f"torch.optim.lr_scheduler:{name}",)
    _constructors(side, "scheduler", schedules)
    return side


def _subclasses(module: str, base: type, taken: Iterable[str]) -> list[str]:
    """The public classes of a module that are not only a base of others and have no name that is taken."""
    names = {item.lower() for item in taken}
    found = {name: item for name, item in vars(import_module(module)).items() if isinstance(item, type)}
    return [
        name
        for name, item in found.items()
        if issubclass(item, base) and item is not base and name.lower() not in names and not name.startswith("_")
    ]


def _constructors(side: Side, block: str, classes: dict[str, tuple[str, ...]]) -> None:
    """The arguments of the class behind each `type` are the keys of its `params`, beside those the engine takes."""
    shared = {path: key for path, key in side.keys.items() if path[:2] == (block, "params") and len(path) == 3}
    for path in shared:
        side.shared[path] = side.keys.pop(path)
    for name, places in classes.items():
        here = (block, "params", name)
        side.keys[here] = Key(block=True, source=", ".join(places))
        for place in places:
            module, _, cls = place.partition(":")
            try:
                parameters = inspect.signature(getattr(import_module(module), cls)).parameters
            except ImportError:
                side.absent[here] = place
                continue
            for argument in list(parameters.values())[1:]:
                default = UNKNOWN if argument.default is argument.empty else argument.default
                side.add((*here, argument.name), _looked_up(default, place))


def _model(side: Side, path: Path, cls: Model) -> None:
    """The fields of a Pydantic class of DeepSpeed's, and of the classes in it."""
    side.closed.add(path)
    fields: dict[str, FieldInfo | ModelField] = {
        **(cls.__fields__ if issubclass(cls, OlderBaseModel) else cls.model_fields)
    }
    for (name, info), (_, annotation) in zip(fields.items(), annotations(cls), strict=True):
        here = (*path, info.alias or name)
        if info.alias and info.alias != name:
            side.spellings[(*path, name)] = info.alias
        extra = info.field_info.extra if isinstance(info, ModelField) else info.json_schema_extra
        if isinstance(extra, dict) and extra.get("deprecated"):
            side.spellings[here] = str(extra.get("new_param") or "nothing")
            continue
        key = _declared_before(info) if isinstance(info, ModelField) else _declared(info)
        key.source = f"{cls.__module__}.{cls.__name__}"
        side.add(here, key)
        for inner in _inner_models(annotation):
            _model(side, here, inner)


def _inner_models(annotation: Any) -> Iterator[Model]:
    if isinstance(annotation, type) and issubclass(annotation, (BaseModel, OlderBaseModel)):
        yield annotation
    for part in get_args(annotation):
        yield from _inner_models(part)


def _looked_up(default: Any, source: str) -> Key:
    """A key that is known by its look-up."""
    plain = _plain(default)
    kinds = None if plain is UNKNOWN else frozenset({_kind(plain)})
    return Key(kinds, False, defaults=(plain,), source=source, block=isinstance(plain, dict))


def _declared(info: FieldInfo) -> Key:
    """A key that is known by its field."""
    kinds: set[str] = set()
    choices: set[Any] = set()
    bounds: dict[str, float] = {}
    _annotation(info.annotation, kinds, choices)
    for item in info.metadata:
        bounds |= {name: getattr(item, name) for name in ("ge", "gt", "le", "lt") if hasattr(item, name)}
    free = "str" in kinds and not any(isinstance(item, str) for item in choices)
    default = UNKNOWN if info.is_required() else _plain(info.get_default(call_default_factory=True))
    return Key(frozenset(kinds), True, None if free or not choices else frozenset(choices), bounds, (default,))


def _declared_before(field: ModelField) -> Key:
    """The same for a field of Pydantic 1, where a default of None made the type take null as well."""
    kinds: set[str] = {"null"} if field.allow_none else set()
    choices: set[Any] = set()
    _annotation(field.outer_type_, kinds, choices)
    limits = {name: getattr(field.field_info, name) for name in ("ge", "gt", "le", "lt")}
    bounds = {name: limit for name, limit in limits.items() if limit is not None}
    free = "str" in kinds and not any(isinstance(item, str) for item in choices)
    default = UNKNOWN if field.required else _plain(field.get_default())
    return Key(frozenset(kinds), True, None if free or not choices else frozenset(choices), bounds, (default,))


def _annotation(annotation: Any, kinds: set[str], choices: set[Any]) -> None:
    origin = get_origin(annotation)
    if origin is Annotated:
        _annotation(get_args(annotation)[0], kinds, choices)
    elif origin in (Union, UnionType):
        for part in get_args(annotation):
            _annotation(part, kinds, choices)
    elif origin is Literal:
        words = get_args(annotation)
        kinds.update(_kind(item) for item in words)
        choices.update(item for item in words if item is not None)
    elif isinstance(annotation, type) and issubclass(annotation, Enum):
        kinds.update(_kind(item.value) for item in annotation)
        choices.update(item.value for item in annotation)
    else:
        kinds.add(_KINDS.get(origin or annotation, "object" if _is_object(origin or annotation) else "any"))


_KINDS: dict[Any, str] = {
    bool: "bool",
    int: "int",
    float: "float",
    str: "str",
    File: "str",
    type(None): "null",
    list: "list",
    tuple: "list",
    set: "list",
}


def _is_object(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, (dict, BaseModel, OlderBaseModel))


def _kind(value: Any) -> str:
    """The JSON type of a plain value."""
    return next((kind for cls, kind in _KINDS.items() if isinstance(value, cls)), "object")


def _plain(value: Any) -> Any:
    """A default as JSON would have it."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (list, tuple, set)):
        return [_plain(item) for item in value]
    if isinstance(value, bool) or value is None or isinstance(value, (str, dict)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return int(value) if math.isfinite(value) and value.is_integer() and abs(value) > 1e6 else float(value)
    return value if isinstance(value, (BaseModel, OlderBaseModel)) else UNKNOWN
