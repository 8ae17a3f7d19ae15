"""DeepSpeed's Adam on CPUs, which keeps the powers of its betas in C++, outside the optimizer's state."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

from typing import Any

import torch

#: A power below this no longer changes 1 - power in float32.
_NEGLIGIBLE = 1e-9


def replay_powers(optimizer: Any, device: torch.device) -> None:
    """Multiply beta**step up as an uninterrupted run did, after the optimizer's state has been restored.

    Left alone, DeepSpeed calls pow() in the first step after a restart, whose last bit often differs from that of
    the running product (`IncrementStep` in csrc/includes/cpu_adam.h), and the weights go another way.
    """
    update = _update(optimizer, device)
    steps = [int(state["step"]) for state in optimizer.state.values() if "step" in state]
    if update is None or not steps:
        return
    group = optimizer.param_groups[0]
    for step in range(1, max(steps) + 1):
        if max(group["betas"]) ** step < _NEGLIGIBLE:
            break
        update(step, group)


def _update(optimizer: Any, device: torch.device) -> Any:
    """One step on a parameter of no account; none if the optimizer keeps nothing in C++."""
    kind = type(optimizer).__name__
    gradient, weight, first, second = (torch.zeros(1) for _ in range(4))

    def offloaded(step: int, group: dict[str, Any]) -> None:
        numbers = (group["lr"], *group["betas"], group["eps"], group["weight_decay"], group["bias_correction"])
        optimizer.ds_opt_adam.adam_update(optimizer.opt_id, step, *numbers, weight, gradient, first, second)

    def fused(step: int, group: dict[str, Any]) -> None:
        tensors = [[gradient], [weight], [first], [second]]
        numbers = (group["lr"], *group["betas"], group["eps"], step, optimizer.adam_w_mode)
        correct = 1 if group["bias_correction"] else 0
        optimizer.multi_tensor_adam(
            2048 * 32, torch.zeros(1, dtype=torch.int32), tensors, *numbers, correct, group["weight_decay"]
        )

    if kind == "DeepSpeedCPUAdam":
        return offloaded
    return fused if kind == "FusedAdam" and device.type == "cpu" else None
