"""`python -m runner.export CHECKPOINT -o DIR`: from a checkpoint to weights that plain torch loads.

What is written: `model.safetensors`, or shards of it with `model.safetensors.index.json`, as Hugging Face names them,
and `config.json`: for a model of Transformers its own, so that `from_pretrained(DIR)` loads it, for all others the
settings that it is built from; `load(DIR)` builds and fills any of them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from dsconf import atomic
from dsconf.overrides import read_value
from runner.checkpoint import shelf
from runner.errors import CannotStart, UsageError
from runner.settings import CalledModel, ModelSettings

if TYPE_CHECKING:
    from torch import Tensor, nn

CONFIG = "config.json"
INDEX = "model.safetensors.index.json"
#: The names that safetensors has for the types that can be asked for.
TYPES = {"bf16": "BF16", "fp32": "F32"}


def main() -> None:
    """Exits 0; 1 if the checkpoint is damaged or nothing can be written; 2 if the command line cannot be right."""
    parser = argparse.ArgumentParser(prog="python -m runner.export", description="Turn a checkpoint into safetensors.")
    parser.add_argument("checkpoint", help="a checkpoint, or a run: then its latest one")
    parser.add_argument("-o", "--output", required=True, type=Path, help="a directory, new or empty")
    parser.add_argument("--dtype", choices=sorted(TYPES), default="fp32", help="of the weights (default: fp32)")
    parser.add_argument("--shard-size", default="4GiB", help="the most bytes in one file (default: 4GiB)")
    arguments = parser.parse_args()
    try:
        size = read_value(arguments.shard_size)
        if not isinstance(size, int) or size < 1:
            raise UsageError(f"error: --shard-size: {arguments.shard_size} is no size such as 4GiB or 500M")
        files = export(arguments.checkpoint, arguments.output, dtype=arguments.dtype, shard_size=size)
    except UsageError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    except (CannotStart, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    print("\n".join(str(path) for path in files))


def export(checkpoint: str, output: Path, *, dtype: str, shard_size: int) -> list[Path]:
    """Write the weights, one parameter at a time; returns the files. Raises CannotStart and OSError."""
    found = shelf.find(checkpoint, None)
    if found is None:
        raise UsageError(f"error: {checkpoint} names no checkpoint")
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise CannotStart(f"{output} exists and is not empty; choose a new directory")
    weights = _weights(found.directory, found.manifest.stage)
    shards = _shards(weights, 2 if dtype == "bf16" else 4, shard_size)
    output.mkdir(parents=True, exist_ok=True)
    names = ["model.safetensors"]
    if len(shards) > 1:
        names = [f"model-{number:05}-of-{len(shards):05}.safetensors" for number in range(1, len(shards) + 1)]
    for name, shard in zip(names, shards, strict=True):
        _write(output / name, {key: weights[key] for key in shard}, dtype)
    if len(shards) > 1:
        where = {key: name for name, shard in zip(names, shards, strict=True) for key in shard}
        atomic.write_text(output / INDEX, json.dumps({"metadata": {}, "weight_map": where}, indent=2) + "\n")
    _describe(found.manifest.settings["model"], output)
    written = [*names, CONFIG] if len(shards) == 1 else [*names, INDEX, CONFIG]
    return [output / name for name in written]


def load(directory: Path) -> nn.Module:
    """The exported model on the CPU: in the type it was exported in, but one of Transformers in float32."""
    from runner.model.build import build
    from runner.model.hf import causal_lm

    config = cast("dict[str, Any]", json.loads((directory / CONFIG).read_bytes()))
    if "model_type" in config:
        return causal_lm(path=str(directory)).eval()
    called = "_target_" in config
    model = build(CalledModel.model_validate(config) if called else ModelSettings.model_validate(config))
    weights: dict[str, Tensor] = {}
    for path in sorted(directory.glob("*.safetensors")):
        weights.update(read(path))
    model.to(next(iter(weights.values())).dtype).load_state_dict(weights)
    return model.eval()


def _describe(model: dict[str, Any], output: Path) -> None:
    """Write down what the weights are those of; for a model of Transformers as Transformers wants it."""
    if model.get("_target_") == "runner.model.hf.causal_lm":
        from runner.model.hf import configuration

        configuration(path=model.get("path"), config=model.get("config")).save_pretrained(output)
    else:
        atomic.write_text(output / CONFIG, json.dumps(model, indent=2) + "\n")


def read(path: Path) -> dict[str, Tensor]:
    """The tensors of one safetensors file."""
    import torch

    data = bytearray(path.read_bytes())
    start = 8 + int.from_bytes(data[:8], "little")
    header = cast("dict[str, Any]", json.loads(data[8:start]))
    types = {"BF16": torch.bfloat16, "F32": torch.float32}
    found: dict[str, Tensor] = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        flat = torch.frombuffer(data[start + begin : start + end], dtype=types[entry["dtype"]])
        found[name] = flat.view(entry["shape"])
    return found


def _weights(directory: Path, stage: int) -> Mapping[str, Any]:
    """What `.contiguous()` makes a tensor of, by the parameter's name: the float32 copies where the run kept some."""
    import torch

    if stage:
        from deepspeed.utils.zero_to_fp32 import (  # pyright: ignore[reportMissingTypeStubs]
            get_fp32_state_dict_from_zero_checkpoint,  # pyright: ignore[reportUnknownVariableType]
        )

        return cast(
            "Mapping[str, Any]",
            get_fp32_state_dict_from_zero_checkpoint(str(directory.parent), tag=directory.name, lazy_mode=True),
        )
    # The manifest has just vouched for the file; still, a checkpoint is a pickle, to be loaded from people one trusts.
    state = torch.load(directory / "mp_rank_00_model_states.pt", map_location="cpu", weights_only=False, mmap=True)
    return cast("Mapping[str, Any]", state["module"])


def _shards(weights: Mapping[str, Any], width: int, limit: int) -> list[list[str]]:
    """The names in order, cut so that no shard exceeds `limit` bytes unless one parameter alone does."""
    shards, room = [list[str]()], limit
    for name, weight in weights.items():
        size = weight.shape.numel() * width
        if size > room and shards[-1]:
            shards.append([])
            room = limit
        shards[-1].append(name)
        room -= size
    return shards


def _write(path: Path, weights: Mapping[str, Any], dtype: str) -> None:
    """One file of the safetensors format: the header's length, the header, then the tensors one after another."""
    import torch

    kind, width = (torch.bfloat16, 2) if dtype == "bf16" else (torch.float32, 4)
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, weight in weights.items():
        begin, end = end, end + weight.shape.numel() * width
        header[name] = {"dtype": TYPES[dtype], "shape": list(weight.shape), "data_offsets": [begin, end]}
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    with path.open("xb") as file:
        file.write(len(head).to_bytes(8, "little") + head)
        for weight in weights.values():
            tensor = cast("Tensor", weight.contiguous()).detach().to(kind).flatten()
            file.write(tensor.view(torch.uint8).numpy().data)


if __name__ == "__main__":
    main()
