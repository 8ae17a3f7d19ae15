"""What a launch will be, worked out and checked before anything is started."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from dsconf.diagnostic import Diagnostic
from dsconf.launcher import Request, Resources, read_env_file, read_hostfile, resolve
from dsconf.launcher.resources import is_this_machine
from dsconf.report.output import Style
from dsconf.report.text import full
from dsconf.source import Document
from runner import run_dir, train
from runner.environment import free_port, refuse_used_port
from runner.errors import CannotStart, UsageError
from runner.settings import LaunchSettings, Settings

_NAMES = ("include", "exclude", "num_nodes", "num_gpus", "launcher")
#: The program that each launcher is known by, as DeepSpeed looks for it.
_PROGRAMS = {
    "pdsh": "pdsh",
    "openmpi": "ompi_info",
    "mpich": "mpirun",
    "impi": "mpirun",
    "slurm": "sinfo",
    "mvapich": "mpiname",
}
#: Variables with these beginnings travel to other hosts by themselves, besides those of the accelerator.
_TRAVELLING = ("MLFLOW", "PYTHON", "MV2", "UCX")


@dataclass(frozen=True, slots=True)
class Plan:
    """`slots`: of each host. `variables`: from environment files. `remote`: whether other hosts are reached."""

    settings: LaunchSettings
    slots: dict[str, list[int]]
    variables: dict[str, str]
    remote: bool
    master_addr: str | None
    master_port: int
    batch: str

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        return sum(map(len, self.slots.values()))

    def command(self, file: Path) -> list[str]:
        """DeepSpeed's launcher, which is to start ranks that read their settings from `file`."""
        asked = self.settings
        words = [sys.executable, "-m", "deepspeed.launcher.runner", "--quiet", "--no_local_rank"]
        words += [f"--hostfile={asked.hostfile.absolute() if asked.hostfile else ''}"]
        words += [f"--{name}={value}" for name in _NAMES if (value := getattr(asked, name))]
        words += [f"--launcher_args={asked.launcher_args}"] if asked.launcher_args else []
        words += [f"--master_addr={self.master_addr}"] if self.master_addr else []
        words += [f"--master_port={self.master_port}"]
        words += ["--no_ssh", f"--node_rank={asked.node_rank}"] if asked.node_rank is not None else []
        words += ["--force_multi"] if asked.force_multi else []
        words += [] if self.remote or asked.hostfile is None else ["--no_ssh_check"]
        if asked.launcher.lower() == "slurm" and self.remote:
            # It always starts a file, whatever --module says.
            return [*words, str(Path(__file__).parent.parent / "__main__.py"), str(file)]
        return [*words, "--module", "runner", str(file)]

    def environment(self) -> dict[str, str]:
        """Of the launcher. The local way does not read environment files, and the ranks inherit this one."""
        own = {name: value for name, value in os.environ.items() if name not in ("CUDA_VISIBLE_DEVICES", "LOCAL_SIZE")}
        if self.settings.env_file is not None:
            own["DS_ENV_FILE"] = str(self.settings.env_file.absolute())
        return own if self.remote else {**own, **self.variables}

    def describe(self, settings: Settings) -> str:
        """Everything that would be started, for people."""
        place = settings.run_dir or Path("runs", "<new>")
        lines = [
            "command:",
            f"  {shlex.join(self.command(place / run_dir.launch_file(self.settings.node_rank or 0)))}",
            "hosts:",
        ]
        rank = 0
        for node, (host, slots) in enumerate(self.slots.items()):
            ranks = ", ".join(f"rank {rank + index} on slot {slot}" for index, slot in enumerate(slots))
            lines.append(f"  node {node} {host}: {ranks}")
            rank += len(slots)
        address = self.master_addr or f"the first address that {next(iter(self.slots))} names"
        lines += [f"meeting point: {address}, port {self.master_port}"]
        lines += ["exported variables:" if self.remote else "exported variables, besides all of this shell:"]
        exported = {**(_travelling() if self.remote else {}), **self.variables}
        lines += [f"  {name}={value}" for name, value in exported.items()] or ["  none"]
        return "\n".join([*lines, f"batch: {self.batch}"])


def plan(settings: Settings) -> Plan:
    """Work out a launch. Raises UsageError and CannotStart with everything that is wrong with it."""
    asked = settings.launch or LaunchSettings()
    if "RANK" in os.environ:
        raise UsageError("error: launch=deepspeed starts ranks, and this process is one; leave the launch away")
    resources = _resources(asked)
    remote = asked.force_multi or (len(resources.slots) > 1 and asked.node_rank is None)
    variables = _variables(asked, remote=remote)
    if asked.node_rank is not None:
        _refuse_half_a_node(asked, settings, len(resources.slots))
    config = train.approve(settings, resources.world_size)
    _refuse_path_for_shell(settings, remote=remote)
    if not asked.node_rank:
        train.choose_checkpoint(settings, config)
    local = not remote and asked.node_rank is None
    port = asked.master_port or (free_port() if local else 29500)
    if local or (is_this_machine(next(iter(resources.slots))) and not asked.node_rank):
        refuse_used_port("127.0.0.1", port)
    program = _PROGRAMS[asked.launcher.lower()]
    if remote and shutil.which(program) is None and not asked.dry_run:
        raise CannotStart(f"launch.launcher={asked.launcher}: the program {program} is not installed on this machine")
    document = config.to_dict()
    batch = _batch(document, resources.world_size)
    address = asked.master_addr or ("127.0.0.1" if local else None)
    return Plan(asked, resources.slots, variables, remote, address, port, batch)


def _refuse_path_for_shell(settings: Settings, *, remote: bool) -> None:
    """Raise UsageError if a shell on another host, or pdsh, would read the path of the run in its own way."""
    path = str((settings.run_dir or Path("runs")).absolute())
    if remote and (odd := re.search(r"[^\w@+=:,./-]", path)):
        raise UsageError(
            f"error: run_dir: {path} goes through the shells of the hosts, to which {odd.group()!r} means something; "
            f"choose a directory with plain letters: run_dir=DIRECTORY"
        )


def _refuse_half_a_node(asked: LaunchSettings, settings: Settings, nodes: int) -> None:
    """Raise UsageError if the nodes, each started by itself, could not find together."""
    node, missing = asked.node_rank or 0, list[str]()
    missing += ["launch.master_addr=, the address of node 0"] if asked.master_addr is None else []
    missing += ["run_dir=, the same on every node"] if settings.run_dir is None else []
    missing += [f"a launch.hostfile= with more than {node} hosts"] if node >= nodes else []
    if missing:
        raise UsageError(f"error: launch.node_rank={node} needs {', and '.join(missing)}")


def _resources(asked: LaunchSettings) -> Resources:
    hostfile = None
    if asked.hostfile is not None:
        hostfile = read_hostfile(_text("launch.hostfile", asked.hostfile), str(asked.hostfile))
        _refuse(hostfile.diagnostics, [hostfile.document])
    devices = 1 if hostfile is not None or asked.num_gpus else _device_count()
    names = {name: f"launch.{name}" for name in (*_NAMES, "force_multi")}
    limits = {name: getattr(asked, name) for name in _NAMES}
    resources = resolve(
        Request(
            hostfile=hostfile,
            devices=devices,
            force_multi=asked.force_multi or asked.node_rank is not None,
            environment=os.environ,
            names=names,
            **limits,
        )
    )
    _refuse(resources.diagnostics, resources.documents)
    return resources


def _variables(asked: LaunchSettings, *, remote: bool) -> dict[str, str]:
    """What the environment files say, those that the launcher looks for by itself included."""
    files = [asked.env_file] if asked.env_file is not None else []
    if not files and remote:
        name = os.environ.get("DS_ENV_FILE", ".deepspeed_env")
        files = [path for path in (Path.home() / name, Path(name).absolute()) if path.is_file()]
    variables: dict[str, str] = {}
    for file in files:
        read = read_env_file(_text("launch.env_file", file), str(file))
        _refuse(read.diagnostics, [read.document])
        variables.update(read.variables)
    return variables


def _refuse(diagnostics: tuple[Diagnostic, ...], documents: list[Document] | tuple[Document, ...]) -> None:
    """Raise UsageError if there are errors; print what else there is."""
    places = {document.filename: document for document in documents}
    texts = {item: full(item, places[item.filename], Style()) for item in diagnostics}
    if any(item.severity == "error" for item in diagnostics):
        raise UsageError("\n".join(texts.values()))
    for text in texts.values():
        print(text, file=sys.stderr)


def _text(setting: str, path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise CannotStart(f"{setting}: {path}: {(error.strerror or str(error)).lower()}") from None


def _device_count() -> int:
    return int(_accelerator().device_count())


def _travelling() -> dict[str, str]:
    """What the launcher takes from its own environment to other hosts."""
    here = str(Path.cwd())
    old = os.environ.get("PYTHONPATH")
    environment = {**os.environ, "PYTHONPATH": f"{here}:{old}" if old is not None else here}
    beginnings = (*_TRAVELLING, *_accelerator().export_envs())
    return {name: value for name, value in environment.items() if name.startswith(beginnings)}


def _accelerator() -> Any:
    from deepspeed.accelerator import get_accelerator

    return cast(Any, get_accelerator())


def _batch(document: dict[str, Any], world_size: int) -> str:
    micro, steps = document.get("train_micro_batch_size_per_gpu"), document.get("gradient_accumulation_steps")
    whole = document.get("train_batch_size")
    if micro is None and whole is not None:
        steps = steps or 1
        micro = whole // (steps * world_size)
    micro = micro or 1
    steps = steps or (whole // (micro * world_size) if whole else 1)
    return f"{micro} per rank x {steps} accumulation steps x {world_size} ranks = {micro * steps * world_size}"
