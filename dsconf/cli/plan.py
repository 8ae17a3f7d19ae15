"""`dsconf plan`."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

from dsconf.cli.memory import add_memory, add_model, described_model, positive_size
from dsconf.cli.options import FINDINGS, OK, complain

if TYPE_CHECKING:
    from dsconf.memory.activations import Batch
    from dsconf.memory.plan import Plan
    from dsconf.models.config import DeepSpeedConfig

_EXAMPLES = """\
examples:
  dsconf plan --params 7e9 --gpus-per-node 8 --gpu-memory 80GiB --host-memory 1TiB
  dsconf plan --model ~/llama --gpu-memory 24GiB --seq-len 2048 -o ds_config.json
  dsconf plan --params 13e9 --trainable 0.5% --gpus-per-node 4 --gpu-memory 24GiB
"""


def register(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument("file", nargs="?", metavar="FILE", help="a configuration to look at, instead of the presets")
    parser.add_argument("--preset", metavar="NAME", help="look at this preset only")
    model = parser.add_argument_group("model")
    add_model(model)
    model.add_argument("--hidden-size", type=positive_size, metavar="N", help="width of a block")
    model.add_argument("--layers", type=positive_size, metavar="N", help="number of blocks")
    model.add_argument("--vocab-size", type=positive_size, metavar="N", help="number of tokens (default: 32000)")
    model.add_argument(
        "--intermediate-size", type=positive_size, metavar="N", help="width of the MLP (default: 8/3 of it)"
    )
    model.add_argument("--heads", type=positive_size, metavar="N", help="attention heads (default: width / 128)")
    batch = parser.add_argument_group("batch")
    batch.add_argument("--seq-len", type=positive_size, metavar="N", help="tokens in a sequence; counts activations")
    batch.add_argument("--micro-batch", type=positive_size, metavar="N", help="sequences at a time (default: 1)")
    batch.add_argument("--activation-checkpointing", action="store_true", help="blocks are recomputed in backward")
    machine = parser.add_argument_group("machine")
    machine.add_argument("--nodes", type=positive_size, default=1, metavar="N", help="number of nodes (default: 1)")
    machine.add_argument(
        "--gpus-per-node", type=positive_size, default=1, metavar="N", help="ranks of a node (default: 1)"
    )
    add_memory(machine)
    machine.add_argument("--nvme", metavar="DIR", help="directory on an NVMe drive of each node")
    output = parser.add_argument_group("output")
    output.add_argument("--format", choices=("text", "json"), default="text")
    output.add_argument("--plot", metavar="FILE", help="draw a picture: .svg, .html or .png")
    output.add_argument("-o", "--output", metavar="FILE", help="write the recommended configuration")
    parser.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    from dsconf.memory.activations import Batch
    from dsconf.memory.machine import Machine, World
    from dsconf.memory.model import ModelError
    from dsconf.memory.plan import plan
    from dsconf.memory.table import as_json, as_text

    try:
        model = described_model(options)
    except ModelError as error:
        return complain(str(error))
    if model is None:
        return complain("which model? Add --params 7e9, --model DIR, or --hidden-size and --layers")
    if options.gpu_memory is None:
        return complain("how much memory has an accelerator? Add --gpu-memory, such as --gpu-memory 80GiB")
    if options.micro_batch and not options.seq_len:
        return complain("--micro-batch goes with --seq-len: activations need both")
    configs = _configs(options)
    if isinstance(configs, str):
        return complain(configs)
    nvme = _free_on_drive(options.nvme)
    if isinstance(nvme, str):
        return complain(nvme)
    batch: Batch | None = None
    if options.seq_len:
        batch = Batch(options.seq_len, options.micro_batch or 1, options.activation_checkpointing)
    world = World(options.nodes, options.gpus_per_node)
    if world.ranks > model.count:
        return complain(f"{world.ranks} ranks are more than the model has parameters ({model.count})")
    found = plan(configs, model, world, Machine(options.gpu_memory, options.host_memory, nvme), batch)
    sys.stdout.write(as_json(found) if options.format == "json" else as_text(found))
    problem = _written(found, options)
    if problem:
        return complain(problem)
    return OK if found.recommended else FINDINGS


def _configs(options: argparse.Namespace) -> dict[str, DeepSpeedConfig] | str:
    """The configurations to compare by name, or a line that says why not."""
    from dsconf.files import reason
    from dsconf.memory.plan import read_preset, whole_presets

    if options.file and options.preset:
        return "give a file or --preset, not both"
    if options.file:
        from dsconf.bind import bind
        from dsconf.source import read_file

        try:
            document = read_file(options.file)
        except OSError as error:
            return f"{options.file}: {reason(error)}"
        except ValueError:
            return f"{options.file!r}: not a file name"
        from dsconf.check import check

        errors = [item for item in check(document).diagnostics if item.severity == "error"]
        if errors:
            return f"{options.file}: {errors[0].message}; `dsconf validate {options.file}` says more"
        return {os.path.basename(options.file): bind(document).config}
    if options.preset:
        from dsconf.cli.presets import no_preset

        if options.preset not in whole_presets():
            return no_preset(options.preset)
        return {options.preset: read_preset(options.preset)}
    order = ("ddp", "zero1", "zero2", "zero2_offload", "zero3", "zero3_offload", "zero3_nvme")
    names = sorted(whole_presets(), key=lambda name: order.index(name) if name in order else len(order))
    return {name: read_preset(name) for name in names}


def _free_on_drive(directory: str | None) -> int | str | None:
    """Free bytes where the directory is, or a line that says why not."""
    if directory is None:
        return None
    import shutil

    if not os.path.isdir(directory):
        return f"{directory}: no such directory, so what is free on its drive is not known"
    return shutil.disk_usage(directory).free


def _written(found: Plan, options: argparse.Namespace) -> str:
    """Write what was asked for; a line that says why not, or nothing."""
    from dsconf.files import reason

    try:
        if options.plot:
            from dsconf.memory.picture import PictureError, draw

            try:
                draw(found, options.plot)
            except PictureError as error:
                return str(error)
        if options.output:
            if found.recommended is None:
                return f"{options.output} is not written, since nothing fits"
            _write_config(found, options)
    except OSError as error:
        return f"{error.filename or options.output}: {reason(error)}"
    return ""


def _write_config(found: Plan, options: argparse.Namespace) -> None:
    from dsconf.atomic import write_text

    if options.file:
        from pathlib import Path

        write_text(options.output, Path(options.file).read_text(encoding="utf-8"))
        return
    from dsconf.compile import compile_text

    row = found.recommended
    changes: dict[str, Any] = {}
    if row is not None:
        if found.batch is not None:
            changes["train_micro_batch_size_per_gpu"] = found.batch.micro_batch
        if options.nvme and row.account.settings.optimizer_device == "nvme":
            for block in ("offload_optimizer", "offload_param"):
                changes[f"zero_optimization.{block}.nvme_path"] = options.nvme
        overrides = [f"{name}={value}" for name, value in changes.items()]
        write_text(options.output, compile_text(row.name, overrides))
