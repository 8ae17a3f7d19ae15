# Transformers and DeepSpeed leave many types out; they end here.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportMissingTypeStubs=false
"""Causal language models of Hugging Face Transformers: new ones from a configuration, or those in a directory."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from runner.errors import CannotStart, UsageError
from runner.sharded import gathered, suspended


def causal_lm(*, path: str | None = None, config: Mapping[str, Any] | None = None) -> nn.Module:
    """A new model of `config`, which names a `model_type` and what differs from its defaults; or the one in `path`.

    Raises UsageError and CannotStart.
    """
    made = configuration(path=path, config=config)
    from transformers import AutoModelForCausalLM

    if path is None or torch.empty(0).is_meta:
        with _initialised_where_sharded():
            return cast(nn.Module, AutoModelForCausalLM.from_config(made))
    # It reads whole weights; DeepSpeed puts them in shards afterwards.
    with suspended():
        return cast(nn.Module, AutoModelForCausalLM.from_pretrained(path, local_files_only=True, dtype=torch.float32))


def configuration(*, path: str | None = None, config: Mapping[str, Any] | None = None) -> Any:
    """The configuration of such a model. Raises UsageError and CannotStart."""
    try:
        from transformers import AutoConfig
    except ImportError:
        raise CannotStart("model: Transformers is not installed: pip install 'dsconf[hf]'") from None
    if (path is None) == (config is None):
        raise UsageError("error: model: give either path, a directory, or config, as in +model.config.model_type=gpt2")
    if path is not None:
        if not (Path(path) / "config.json").is_file():
            raise CannotStart(f"model.path: {path} is not a directory that save_pretrained has written: no config.json")
        return AutoConfig.from_pretrained(path, local_files_only=True)
    kind, rest = str((config or {}).get("model_type")), {k: v for k, v in (config or {}).items() if k != "model_type"}
    try:
        return AutoConfig.for_model(kind, **rest)
    except (ValueError, TypeError) as error:
        raise UsageError(f"error: model.config: {str(error).splitlines()[0]}") from None


def next_token(output: Any, targets: Tensor) -> Tensor:
    """The mean loss in nats per token, float32 []; `targets`: int64 [batch, length], what follows each input."""
    return functional.cross_entropy(output.logits.float().flatten(0, 1), targets.flatten())


@contextmanager
def _initialised_where_sharded() -> Generator[None]:
    """Have Transformers gather each module's weights before it gives them their first values.

    It goes over the modules by a method of its own, which `deepspeed.zero.Init` does not know.
    """

    def smart_apply(module: nn.Module, fn: Any, *more: Any) -> nn.Module:
        from transformers import PreTrainedModel

        for child in module.children():
            own = cast(Any, child)._initialize_weights if isinstance(child, PreTrainedModel) else fn
            smart_apply(child, own, *more)
        with gathered(module):
            fn(module, *more)
        return module

    kind, before = cast(Any, nn.Module), getattr(nn.Module, "smart_apply", None)
    kind.smart_apply = smart_apply
    try:
        yield
    finally:
        if before is None:
            del kind.smart_apply
        else:
            kind.smart_apply = before
