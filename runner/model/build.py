"""From settings to a model: our GPT, or any module by its dotted name; and to what makes a loss of its output."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any, cast

from torch import Tensor, nn

from runner import dotted
from runner.errors import UsageError
from runner.model.gpt import GPT
from runner.settings import CalledModel, ModelSettings
from runner.sharded import size

#: Gives the loss, [], of the model's output and the last item of a batch.
Objective = Callable[[Any, Any], Tensor]


def build(settings: ModelSettings | CalledModel) -> nn.Module:
    """The model as constructed. Raises UsageError if `_target_` does not make a module of its arguments."""
    if isinstance(settings, ModelSettings):
        return GPT(settings)
    made = dotted.bind(settings.target, settings.arguments, "model")()
    if not isinstance(made, nn.Module):
        raise UsageError(f"error: model: {settings.target} makes a {type(made).__name__}, not a torch.nn.Module")
    return made


def objective(settings: ModelSettings | CalledModel) -> Objective | None:
    """None where the model itself gives the loss of a whole batch. Raises UsageError."""
    if isinstance(settings, ModelSettings) or settings.loss is None:
        return None
    return cast(Objective, dotted.find(settings.loss, "model.loss"))


def loss_in(output: Any) -> Tensor:
    """What a model says of a whole batch, where it says it: alone, or as `loss` beside other things.

    Raises UsageError if there is none.
    """
    found: Any = output
    if isinstance(output, Mapping):
        found = cast("Mapping[str, Any]", output).get("loss")
    elif not isinstance(output, Tensor):
        found = getattr(cast(object, output), "loss", None)
    if not isinstance(found, Tensor) or found.numel() != 1:
        kind = type(cast(object, output)).__name__
        shape = f", of shape {list(found.shape)}" if isinstance(found, Tensor) else ""
        raise UsageError(
            f"error: model: called with a whole batch it gives a {kind}{shape}, and no loss in it; "
            f"name what makes one of the output and the batch's last item: model.loss=torch.nn.functional.cross_entropy"
        )
    return found.reshape(())


def refuse_unfit(model: nn.Module, *given: Any, **named: Any) -> None:
    """Raise UsageError if the model does not take what a batch has for it."""
    try:
        inspect.signature(model.forward).bind(*given, **named)
    except TypeError as error:
        kind = f"{type(model).__module__}.{type(model).__qualname__}"
        raise UsageError(
            f"error: model: {kind} cannot be called with what a batch has for it: {error}. Without model.loss it is "
            f"called with all of the batch, with model.loss with all but the last item"
        ) from None


def freeze(model: nn.Module, patterns: tuple[str, ...]) -> tuple[int, int]:
    """Keep all parameters whose names match one of the patterns from being trained; how many numbers of how many.

    Raises UsageError if a pattern matches nothing, or if nothing is left to train.
    """
    named = dict(model.named_parameters())
    for pattern in patterns:
        matched = [parameter for name, parameter in named.items() if fnmatchcase(name, pattern)]
        if not matched:
            raise UsageError(f"error: model.freeze: no parameter matches {pattern}; there are {', '.join(named)}")
        for parameter in matched:
            parameter.requires_grad_(False)
    total = sum(size(parameter) for parameter in named.values())
    trained = sum(size(parameter) for parameter in named.values() if parameter.requires_grad)
    if not trained:
        raise UsageError("error: model.freeze: nothing is left to train")
    return total - trained, total
