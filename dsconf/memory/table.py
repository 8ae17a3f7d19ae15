"""A plan as text of 80 columns, and as JSON."""

from __future__ import annotations

import json
import textwrap
from typing import Any

from dsconf.memory.plan import PARTS, Plan, Row
from dsconf.memory.size import show_bytes, show_count

_GIB = 2**30


def as_text(plan: Plan) -> str:
    """The table, the recommendation and what to know about both."""
    lines = [*_head(plan), ""]
    lines += ["                accelerator of one rank, GiB, at its peak   host", _columns()]
    for row in plan.rows:
        marker = "*" if row is plan.recommended else " "
        lines.append(f"{marker} {row.name:13.13}" + _numbers(row) + f"  {verdict(row)}")
    lines.append("")
    if plan.recommended:
        row = plan.recommended
        lines += _wrapped(f"* Take {row.name}: {plan.reason}.")
        if row.needs_zero_init:
            lines += _wrapped("It fits if the model is built under deepspeed.zero.Init: built whole it does not.")
        if row.largest_micro_batch is not None:
            lines += _wrapped(f"The largest micro batch that fits is {row.largest_micro_batch}.")
    else:
        lines += _wrapped(_nothing(plan))
    built = [row.name for row in plan.rows if row.needs_zero_init and row is not plan.recommended and row.fits]
    if built:
        lines += _wrapped(f"Under deepspeed.zero.Init only: {', '.join(built)}.")
    for note in plan.notes:
        lines += _wrapped(note)
    return "\n".join(lines) + "\n"


def verdict(row: Row) -> str:
    """What comes of a configuration, in a few words."""
    if row.shortages:
        worst = row.shortages[0]
        where = "" if worst.where == "accelerator" else f"{'NVMe' if worst.where == 'nvme' else worst.where} "
        return f"{where}{_gib(worst.over_bytes)} over"
    if row.blocker:
        return row.blocker
    if row.spare_bytes is None:
        return ""
    return f"fits, {_gib(row.spare_bytes)} left"


def as_json(plan: Plan) -> str:
    """Everything that the table shows and more, all sizes in bytes."""
    recommended = plan.recommended.name if plan.recommended else None
    record: dict[str, Any] = {
        "model": {
            "name": plan.model.name,
            "parameters": plan.model.count,
            "trainable_parameters": plan.model.trainable_count,
        },
        "world": {"nodes": plan.world.nodes, "ranks_per_node": plan.world.ranks_per_node},
        "machine": {
            "accelerator_bytes": plan.machine.accelerator_bytes,
            "usable_accelerator_bytes": plan.machine.usable_accelerator_bytes,
            "host_bytes": plan.machine.host_bytes,
            "usable_host_bytes": plan.machine.usable_host_bytes(plan.world.ranks_per_node),
            "nvme_bytes": plan.machine.nvme_bytes,
        },
        "presets": [_row(row) for row in plan.rows],
        "recommended": recommended,
        "reason": plan.reason,
        "notes": list(plan.notes),
    }
    return json.dumps(record, indent=2) + "\n"


def _row(row: Row) -> dict[str, Any]:
    found = row.account
    return {
        "name": row.name,
        "fits": row.fits,
        "verdict": verdict(row),
        "spare_bytes": row.spare_bytes,
        "shortages": [{"where": item.where, "over_bytes": item.over_bytes} for item in row.shortages],
        "needs_zero_init": row.needs_zero_init,
        "largest_micro_batch": row.largest_micro_batch,
        "accelerator": {
            "peak_bytes": found.accelerator_bytes,
            "peak_moment": row.moment,
            "persistent_bytes": found.persistent_bytes("accelerator"),
            "components_bytes": found.components(row.moment, "accelerator"),
        },
        "host": {
            "node_peak_bytes": found.host_bytes,
            "node_pinned_bytes": found.pinned_bytes,
            "pageable_components_bytes": found.components("between", "pageable"),
            "pinned_components_bytes": found.components("between", "pinned"),
        },
        "nvme": {"node_bytes": found.nvme_bytes},
        "traffic_bytes": dict(zip(("nvme", "host", "network"), row.traffic_bytes, strict=True)),
    }


def _head(plan: Plan) -> list[str]:
    model, world, machine = plan.model, plan.world, plan.machine
    trains = (
        "all of them train" if model.trainable_count == model.count else f"{show_count(model.trainable_count)} train"
    )
    nodes = "1 node" if world.nodes == 1 else f"{world.nodes} nodes"
    title = f"{model.name}: {show_count(model.count)}" if "parameters" not in model.name else show_count(model.count)
    lines = [f"{title} parameters, {trains}; {nodes} of {world.ranks_per_node}"]
    usable = machine.usable_accelerator_bytes
    if machine.accelerator_bytes is not None and usable is not None:
        lines.append(f"Accelerator: {show_bytes(machine.accelerator_bytes)}, of which {show_bytes(usable)} for tensors")
    host = machine.usable_host_bytes(world.ranks_per_node)
    if machine.host_bytes is not None and host is not None:
        lines.append(f"Host of a node: {show_bytes(machine.host_bytes)}, of which {show_bytes(host)} for tensors")
    return lines


def _columns() -> str:
    return "  preset      " + "".join(f"{part:>7}" for part in (*PARTS, "peak")) + " /node  verdict"


def _numbers(row: Row) -> str:
    sizes = (*row.parts_bytes().values(), row.account.accelerator_bytes)
    cells = "".join(f" {_gib(size):>6}" for size in sizes)
    return cells[1:] + f"{row.account.host_bytes / _GIB:6,.0f}"


def _gib(size_bytes: int) -> str:
    """A size in GiB, with a decimal where it tells something."""
    gib = size_bytes / _GIB
    return f"{gib:,.1f}" if abs(gib) < 1000 else f"{gib:,.0f}"


def _nothing(plan: Plan) -> str:
    if any(row.blocker and not row.shortages for row in plan.rows):
        return "Nothing fits without a drive; add --nvme with a directory on one."
    short = {item.where for row in plan.rows for item in row.shortages}
    ways = ["more ranks"]
    if plan.batch and not plan.batch.checkpointing:
        ways.append("--activation-checkpointing")
    if "host" in short and plan.machine.nvme_bytes is None:
        ways.append("--nvme")
    return f"Nothing fits. What would help: {', '.join(ways)}, or a smaller model."


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 80)
