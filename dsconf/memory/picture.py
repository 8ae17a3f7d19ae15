"""A plan as a picture: a stacked bar for each configuration against the limit."""

from __future__ import annotations

import html
from importlib import import_module
from pathlib import Path
from typing import Any

from dsconf.atomic import write_text
from dsconf.memory.plan import PARTS, Plan
from dsconf.memory.table import verdict

_GIB = 2**30
#: Okabe and Ito's colours, which differ for every kind of sight.
_COLORS = dict(zip(PARTS, ("#0072b2", "#56b4e9", "#009e73", "#f0e442", "#cc79a7"), strict=True))
_NAMES = {
    "params": "parameters",
    "optim": "optimizer",
    "grads": "gradients",
    "other": "buckets, buffers, temporaries",
    "activ": "activations",
}
ENDINGS = (".svg", ".html", ".png")


class PictureError(ValueError):
    """A picture that cannot be drawn; the text is for people."""


def draw(plan: Plan, path: str) -> None:
    """Write the picture in the format that the ending of the file says.

    Raises:
        PictureError: the ending is not known, or drawing a PNG needs a package that is not there.
        OSError: the file cannot be written.
    """
    ending = Path(path).suffix.lower()
    if ending == ".svg":
        write_text(path, svg(plan))
    elif ending == ".html":
        title = html.escape(_title(plan))
        write_text(path, f'<!doctype html>\n<meta charset="utf-8">\n<title>{title}</title>\n{svg(plan)}')
    elif ending == ".png":
        _png(plan, path)
    else:
        raise PictureError(f"{path}: pictures end in {', '.join(ENDINGS)}")


def svg(plan: Plan) -> str:
    """The picture as SVG text."""
    left, right, bar, gap, top = 130, 150, 22, 12, 70
    width = 900
    height = top + len(plan.rows) * (bar + gap) + 40
    scale = (width - left - right) / _longest(plan)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        'font-family="sans-serif" font-size="13">',
        f"<title>{html.escape(_title(plan))}</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="10" y="22" font-size="15">{html.escape(_title(plan))}</text>',
    ]
    x = 10
    for part, color in _COLORS.items():
        parts.append(f'<rect x="{x}" y="36" width="12" height="12" fill="{color}"/>')
        parts.append(f'<text x="{x + 17}" y="47">{_NAMES[part]}</text>')
        x += 40 + 7 * len(_NAMES[part])
    for index, row in enumerate(plan.rows):
        y = top + index * (bar + gap)
        weight = ' font-weight="bold"' if row is plan.recommended else ""
        parts.append(f'<text x="{left - 8}" y="{y + 16}" text-anchor="end"{weight}>{html.escape(row.name)}</text>')
        x = float(left)
        for part, size in row.parts_bytes().items():
            length = size * scale
            if length >= 0.05:
                parts.append(
                    f'<rect x="{x:.1f}" y="{y}" width="{length:.1f}" height="{bar}" fill="{_COLORS[part]}">'
                    f"<title>{_NAMES[part]}: {size / _GIB:,.1f} GiB</title></rect>"
                )
            x += length
        text = f"{row.account.accelerator_bytes / _GIB:,.1f} GiB; {verdict(row)}"
        parts.append(f'<text x="{x + 6:.1f}" y="{y + 16}" font-size="11">{html.escape(text)}</text>')
    limit = plan.machine.usable_accelerator_bytes
    if limit:
        x = left + limit * scale
        bottom = height - 34
        parts.append(
            f'<line x1="{x:.1f}" y1="{top - 8}" x2="{x:.1f}" y2="{bottom}" stroke="#d55e00" stroke-width="2"/>'
        )
        label = f"{limit / _GIB:,.1f} GiB for tensors"
        parts.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle" fill="#d55e00">{label}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _png(plan: Plan, path: str) -> None:
    try:
        matplotlib: Any = import_module("matplotlib.figure")
    except ImportError:
        raise PictureError(
            f"{path}: a PNG needs matplotlib; pip install 'dsconf[plot]', or write .svg or .html"
        ) from None
    figure: Any = matplotlib.Figure(figsize=(9, 1.5 + 0.4 * len(plan.rows)), layout="constrained")
    axes = figure.subplots()
    names = [row.name for row in plan.rows]
    starts = [0.0] * len(names)
    for part, color in _COLORS.items():
        sizes = [row.parts_bytes()[part] / _GIB for row in plan.rows]
        axes.barh(names, sizes, left=starts, color=color, label=_NAMES[part])
        starts = [start + size for start, size in zip(starts, sizes, strict=True)]
    for index, row in enumerate(plan.rows):
        axes.text(starts[index], index, f" {verdict(row)}", va="center", fontsize=8)
    limit = plan.machine.usable_accelerator_bytes
    if limit:
        axes.axvline(limit / _GIB, color="#d55e00")
    axes.set_xlim(0, _longest(plan) / _GIB * 1.25)
    axes.invert_yaxis()
    axes.set_xlabel("GiB on one accelerator, at its peak")
    axes.set_title(_title(plan))
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=150)


def _longest(plan: Plan) -> float:
    """The length of the axis, in bytes; bars far beyond the limit do not press the others together."""
    longest = max(row.account.accelerator_bytes for row in plan.rows)
    return max(longest, plan.machine.usable_accelerator_bytes or 0, 1)


def _title(plan: Plan) -> str:
    return f"{plan.model.name} on {plan.world.ranks} ranks: memory of one accelerator at its peak"
