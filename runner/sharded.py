# DeepSpeed leaves most types out; they end here.
# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false
"""`deepspeed.zero.Init`, made to give the weights and buffers that a plain construction gives, or to say why not."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import deepspeed
from deepspeed.runtime.zero import partition_parameters
from torch import nn
from torch.overrides import TorchFunctionMode


class Touched(Exception):
    """A constructor reads or writes a weight that is in shards by then: it would see, or change, nothing."""


class _Init(deepspeed.zero.Init):
    """Casts parameters alone to the training type, and only once their module is whole.

    DeepSpeed's own has every tensor made in that type: buffers too, and random numbers drawn in 16 bits.
    """

    def __init__(self, ds_config: Mapping[str, Any]) -> None:
        super().__init__(
            config_dict_or_path=dict(ds_config),
            tensor_overrides={partition_parameters.DeepSpeedTensorOverride.device},
        )

    def _post_init_method(self, module: nn.Module) -> None:
        for parameter in module.parameters(recurse=False):
            if parameter.is_floating_point() and not partition_parameters.is_zero_param(parameter):
                parameter.data = parameter.data.to(cast(Any, self).dtype)
        super()._post_init_method(module)


#: What may be asked of a weight in shards; the shape it was constructed with is not among that.
_HARMLESS = ("is_floating_point", "is_complex", "requires_grad_", "__hash__", "__repr__", "register_hook")
_HARMFUL_FIELDS = ("data", "shape", "ndim", "T", "mT", "H", "mH", "real", "imag")


class _Watch(TorchFunctionMode):
    """Raises Touched where code that is not DeepSpeed's uses a weight that is in shards."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        for value in (*args, *(kwargs or {}).values()):
            if isinstance(value, nn.Parameter) and _is_in_shards(value) and not _is_harmless(func):
                caller = _caller()
                if not caller.startswith("deepspeed"):
                    raise Touched(f"{caller} uses a weight that deepspeed.zero.Init has put in shards")
        return func(*args, **(kwargs or {}))


@contextmanager
def construction(ds_config: Mapping[str, Any]) -> Generator[None]:
    """A context in which modules are sharded as soon as they are constructed. Raises Touched."""
    with _Init(ds_config), _Watch():
        yield


@contextmanager
def suspended() -> Generator[None]:
    """Inside `construction`: construct as if it were not there; also of use outside, where it does nothing."""
    cast(Any, partition_parameters).shutdown_init_context()
    try:
        yield
    finally:
        cast(Any, partition_parameters).restore_init_context()


@contextmanager
def gathered(module: nn.Module) -> Generator[None]:
    """The module's own weights are whole inside, and what rank 0 makes of them stays."""
    with deepspeed.zero.GatheredParameters(list(module.parameters(recurse=False)), modifier_rank=0):
        yield


def size(parameter: nn.Parameter) -> int:
    """Its number of elements, also where only a shard of it is here."""
    return int(getattr(parameter, "ds_numel", parameter.numel()))


def _is_in_shards(parameter: nn.Parameter) -> bool:
    status = getattr(parameter, "ds_status", None)
    return status is partition_parameters.ZeroParamStatus.NOT_AVAILABLE


def _is_harmless(func: Callable[..., Any]) -> bool:
    name = getattr(func, "__name__", "")
    if name == "__get__":
        return getattr(getattr(func, "__self__", None), "__name__", "") not in _HARMFUL_FIELDS
    return name in _HARMLESS


def _caller() -> str:
    """The module and function that called torch."""
    frame = inspect.currentframe()
    for _ in range(2):
        frame = frame and frame.f_back
    if frame is None:
        return "something"
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("torch."):
        frame = frame.f_back
    return f"{frame.f_globals.get('__name__')}.{frame.f_code.co_name}"
