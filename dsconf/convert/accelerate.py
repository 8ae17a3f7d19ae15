"""Accelerate's YAML: its `deepspeed_config` section and `mixed_precision`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dsconf.convert.draft import Draft, Section, take_base
from dsconf.diagnostic import Path, dotted
from dsconf.readers import PROFILES, Setting
from dsconf.rules.rule import show

_SETTINGS: dict[str, Setting] = {item.argument: item for item in PROFILES["accelerate"].settings}
#: Keys of the section that are not for the engine; they stay in the YAML.
_OF_THE_LAUNCHER = (
    "zero3_init_flag",
    "deepspeed_config_file",
    "deepspeed_hostfile",
    "deepspeed_multinode_launcher",
    "deepspeed_exclusion_filter",
    "deepspeed_inclusion_filter",
    "deepspeed_moe_layer_cls_names",
)
_PRECISIONS = ("no", "fp16", "bf16", "fp8")
_BLOCKS = {"fp16": {"enabled": True, "auto_cast": True}, "bf16": {"enabled": True}, "fp8": {"enabled": True}}


def read(top: Section) -> Draft:
    """What `DeepSpeedPlugin` makes of the YAML, and where Accelerate does something else than it says."""
    draft = Draft()
    section = top.section("deepspeed_config")
    if section is None:
        draft.say("error", top.place(), "there is no `deepspeed_config` section, so there is nothing to convert")
        return draft
    kind = top.get("distributed_type")
    if kind != "DEEPSPEED":
        said = f"`distributed_type` is {show(kind)}" if kind is not None else "`distributed_type` is absent"
        draft.say(
            "warning",
            top.place("distributed_type"),
            f"{said}; `accelerate launch` leaves the section alone unless it is DEEPSPEED, in capitals",
        )
    for name in section.values:
        if name not in _SETTINGS and name not in _OF_THE_LAUNCHER:
            draft.say("warning", section.place(name), f"Accelerate does not read `{name}`; it is left out")
    if take_base(draft, section, "deepspeed_config_file"):
        if "gradient_accumulation_steps" not in draft.values:
            draft.put(("gradient_accumulation_steps",), 1, section.place("deepspeed_config_file"))
        return draft
    draft.values.update({"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto"})
    for name, item in _SETTINGS.items():
        value = _value(draft, section, name, item)
        if value is not None:
            draft.put(item.path, value, section.place(name))
    _without_device(draft, section)
    _precision(draft, top)
    return draft


def _value(draft: Draft, section: Section, name: str, item: Setting) -> Any:
    """What a setting comes to; None where it adds nothing to the file."""
    value = section.get(name)
    place = section.place(name)
    if value is None:
        return None if item.default in ("none", False) else item.default
    if name == "zero_stage":
        if (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, str) and value.isdigit()):
            return int(value)
        draft.say("error", place, f"`zero_stage` is {show(value)}; Accelerate takes a whole number from 0 to 3 only")
    elif name == "gradient_accumulation_steps":
        if value == "auto":
            draft.say("warning", place, '"auto" makes `Accelerator()` fail here; in the file it is filled in')
        elif not isinstance(value, int) or isinstance(value, bool):
            draft.say("error", place, f"`{name}` is {show(value)}; Accelerate takes a whole number only")
        return value
    elif name == "gradient_clipping":
        return _clipping(draft, value, place)
    elif name.endswith("_device"):
        return str(value).lower() if str(value).lower() != "none" else None
    elif name.endswith("_nvme_path"):
        return _nvme_path(draft, section, name, str(value))
    elif name == "zero3_save_16bit_model":
        if not isinstance(value, bool) and str(value).lower() not in ("true", "false"):
            draft.say("warning", place, f"Accelerate takes {show(value)} for false; write true or false")
        return str(value).lower() == "true" or None
    return None


def _clipping(draft: Draft, value: Any, place: str) -> Any:
    if value == "auto":
        return value
    try:
        norm = float(value) if not isinstance(value, bool) else None
    except (TypeError, ValueError):
        norm = None
    if norm is None:
        draft.say("error", place, f"`gradient_clipping` is {show(value)}; write a number, or leave it out")
    elif norm == 0:
        draft.say(
            "warning",
            place,
            "Accelerate drops a `gradient_clipping` of 0, and DeepSpeed clips at 1.0; in the file 0.0 switches it off",
        )
    return norm


def _nvme_path(draft: Draft, section: Section, name: str, path: str) -> str | None:
    device = section.get(name.replace("_nvme_path", "_device"))
    if path == "none" or str(device).lower() != "nvme":
        return None
    draft.say(
        "warning",
        section.place(name),
        f"`accelerate launch` never hands `{name}` on, and DeepSpeed gets the text none; the file keeps the path",
    )
    return path


def _without_device(draft: Draft, section: Section) -> None:
    """Paths for devices that are not NVMe, which nobody looks at."""
    for name in ("offload_optimizer_nvme_path", "offload_param_nvme_path"):
        path, device = section.get(name), section.get(name.replace("_nvme_path", "_device"))
        if path not in (None, "none") and str(device).lower() != "nvme":
            draft.say("warning", section.place(name), f"`{name}` has no effect unless the device is nvme; left out")


def _precision(draft: Draft, top: Section) -> None:
    value = top.get("mixed_precision")
    if value is None:
        return
    place = top.place("mixed_precision")
    if value is False:
        draft.say("warning", place, "an unquoted no is false in YAML and makes `accelerate launch` fail; write 'no'")
        return
    name = str(value).lower()
    if name not in _PRECISIONS:
        draft.say("error", place, f"`mixed_precision` is {show(value)}; Accelerate knows {', '.join(_PRECISIONS)}")
    elif name != "no":
        block = "bf16" if name == "fp8" else name
        for key, on in _BLOCKS[name].items():
            draft.put((block, key), on, place)


def write(effective: Mapping[Path, Any], world_size: int | None) -> dict[str, Any]:
    """The YAML, as values, that comes nearest to the settings in effect."""
    section: dict[str, Any] = {}
    for name, item in _SETTINGS.items():
        value = effective.get(item.path)
        if value is None or value == "auto" or (value == item.default and name != "zero_stage"):
            continue
        # What the launcher would lose is not written, so that it comes out as something that cannot be said.
        if not name.endswith("_nvme_path") and not (name == "gradient_clipping" and value == 0):
            section[name] = value
    section.setdefault("gradient_accumulation_steps", effective.get(("gradient_accumulation_steps",)) or 1)
    if section["gradient_accumulation_steps"] == "auto":
        del section["gradient_accumulation_steps"]
    halves = [name for name in ("fp16", "bf16") if effective.get((name, "enabled")) is True]
    return {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "DEEPSPEED",
        "mixed_precision": halves[0] if halves else "no",
        "num_machines": 1,
        **({"num_processes": world_size} if world_size else {}),
        "machine_rank": 0,
        "deepspeed_config": section,
    }


#: What to do with a file that says more than the YAML can.
REST = "keep the file and name it in the YAML: deepspeed_config_file"


def lost(path: Path) -> str:
    """Why the YAML cannot say a key."""
    if path[-1] == "nvme_path":
        return f"`{dotted(path)}`: `accelerate launch` never hands the path on"
    if path == ("gradient_clipping",):
        return "`gradient_clipping` 0: Accelerate drops a 0, and DeepSpeed then clips at 1.0"
    return f"`{dotted(path)}` has no place in Accelerate's YAML"
