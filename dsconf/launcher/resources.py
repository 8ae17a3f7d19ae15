"""Which slots of which hosts a launch uses, and so its world size."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from dsconf.diagnostic import Diagnostic
from dsconf.launcher import rules
from dsconf.launcher.hostfile import Hostfile
from dsconf.launcher.rule import text_document
from dsconf.source import Document, Span

#: The launchers that DeepSpeed knows; the name is read in any case.
LAUNCHERS = ("pdsh", "openmpi", "mpich", "impi", "slurm", "mvapich")
_WHOLE_ONLY = ("openmpi", "mpich", "impi", "mvapich")
_EVEN_ONLY = ("mpich", "impi", "mvapich", "slurm")

#: How the options are called: on DeepSpeed's command line, or otherwise by whoever asks.
_OPTIONS = {name: f"--{name}" for name in ("include", "exclude", "num_nodes", "num_gpus", "launcher", "force_multi")}


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of the launcher, as its options say it; empty and None: not given.

    `hostfile`: None for a run on this machine, which has `devices` slots. `names`: what the options are called in
    messages. `environment`: of the launcher.
    """

    hostfile: Hostfile | None = None
    devices: int = 1
    include: str = ""
    exclude: str = ""
    num_nodes: int | None = None
    num_gpus: int | None = None
    launcher: str = "pdsh"
    force_multi: bool = False
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    names: Mapping[str, str] = field(default_factory=lambda: _OPTIONS)


@dataclass(frozen=True, slots=True)
class Resources:
    """`slots`: which of each host are used, in the order of node ranks. `documents`: what diagnostics point into.

    `diagnostics` leaves out those of the hostfile itself.
    """

    slots: dict[str, list[int]]
    diagnostics: tuple[Diagnostic, ...]
    documents: tuple[Document, ...]

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        return sum(map(len, self.slots.values()))


def resolve(request: Request) -> Resources:
    """Work out the slots as the launcher does; where it refuses, those of what is right."""
    return _Resolution(request).result()


def is_this_machine(host: str) -> bool:
    """Whether a name in a hostfile means the machine that this runs on, as far as names tell."""
    own = socket.gethostname()
    return host in ("localhost", "127.0.0.1", own, own.partition(".")[0])


class _Resolution:
    def __init__(self, request: Request) -> None:
        self.request = request
        self.found: list[Diagnostic] = []
        self.documents: dict[str, Document] = {}
        hosts = {"localhost": request.devices} if request.hostfile is None else request.hostfile.slots
        self.pool = {host: list(range(count)) for host, count in hosts.items()}

    def result(self) -> Resources:
        request = self.request
        slots = self._filtered()
        if request.include and request.exclude:
            self._say(rules.include_with_exclude, "exclude", "it cannot stand next to an include", "use one of the two")
        given = "include" if request.include else "exclude"
        for name in ("num_nodes", "num_gpus"):
            if getattr(request, name) is not None and (request.include or request.exclude):
                self._say(rules.filter_with_counts, name, f"it cannot stand next to {given}", "use one of the two")
        if request.num_nodes:
            if request.num_nodes > len(slots) > 0:
                have = f"{len(slots)} host{'s' if len(slots) > 1 else ''}"
                self._say(rules.too_few_hosts, "num_nodes", f"there are only {have}", "add hosts to the hostfile")
            slots = dict(list(slots.items())[: request.num_nodes])
        if request.num_gpus:
            # On this machine the number is a wish that devices may share, as on a CPU.
            if request.hostfile is not None:
                self._count(slots, request.num_gpus)
            slots = {host: list(range(request.num_gpus)) for host in slots}
        failed = any(item.severity == "error" for item in self.found)
        if not failed and not any(slots.values()):
            self._say(rules.nothing_left, given, "no slot is left to run on", "leave out less")
        elif not failed:
            self._judge_launcher(slots)
        return Resources(slots, tuple(self.found), tuple(self.documents.values()))

    def _count(self, slots: Mapping[str, list[int]], wanted: int) -> None:
        for host in slots:
            if len(self.pool[host]) < wanted:
                have = len(self.pool[host])
                self._say(
                    rules.too_few_slots,
                    "num_gpus",
                    f"{host} has only {have} slots",
                    f"ask for {have}, or correct slots=",
                )

    def _judge_launcher(self, slots: Mapping[str, list[int]]) -> None:
        request, launcher = self.request, self.request.launcher.lower()
        counts = {len(each) for each in slots.values()}
        if launcher not in LAUNCHERS:
            known = ", ".join(LAUNCHERS)
            self._say(rules.unknown_launcher, "launcher", "DeepSpeed has no such launcher", f"choose one of {known}")
        limits = [name for name in ("include", "exclude") if getattr(request, name)]
        limits += [name for name in ("num_nodes", "num_gpus") if getattr(request, name) is not None]
        if limits and launcher in _WHOLE_ONLY and request.hostfile is not None:
            name = limits[0]
            self._say(
                rules.launcher_without_filters,
                name,
                f"{launcher} always starts on the whole hostfile",
                "write a hostfile with what is to be used, or use pdsh",
            )
        elif launcher == "slurm" and any(each != list(range(len(each))) for each in slots.values()):
            self._say(
                rules.launcher_without_filters,
                limits[0] if limits else "launcher",
                "slurm cannot choose slots by number",
                "use the first slots of every host, or pdsh",
            )
        if launcher in _EVEN_ONLY and len(counts) > 1:
            told = ", ".join(f"{host} has {len(each)}" for host, each in slots.items())
            self._say(
                rules.uneven_hosts, "launcher", f"the hosts differ: {told}", "give all hosts as many, or use pdsh"
            )
        host = next(iter(slots))
        if request.hostfile is not None and len(slots) == 1 and not request.force_multi and not is_this_machine(host):
            named = limits[0] if limits else "launcher"
            self._say(
                rules.one_remote_host,
                named,
                f"only {host} is left, which is not this machine",
                f"start the run there, leave a second host, or set {request.names['force_multi']}",
            )
        devices = request.environment.get("CUDA_VISIBLE_DEVICES")
        if devices and (request.hostfile is not None or limits):
            document = self._document("CUDA_VISIBLE_DEVICES", devices)
            self.found.append(
                rules.visible_devices_overridden.at(
                    document,
                    Span(0, len(devices)),
                    "every rank gets the slots of its host instead",
                    f"unset it, and choose devices with {request.names['include']}",
                )
            )

    def _filtered(self) -> dict[str, list[int]]:
        request = self.request
        if request.include:
            chosen = self._read("include", request.include)
            return {host: chosen[host] or self.pool[host] for host in self.pool if host in chosen}
        left = {host: list(slots) for host, slots in self.pool.items()}
        if request.exclude:
            for host, slots in self._read("exclude", request.exclude).items():
                left[host] = [slot for slot in left[host] if slots and slot not in slots]
            left = {host: slots for host, slots in left.items() if slots}
        return left

    def _read(self, name: Literal["include", "exclude"], text: str) -> dict[str, list[int]]:
        """The slots of each host that a filter names; none: all of them."""
        named: dict[str, set[int]] = {}
        whole: dict[str, Span] = {}
        for node, start in _pieces(text, "@", 0):
            host, colon, listed = node.partition(":")
            at = Span(start, start + max(1, len(host)))
            if host not in self.pool:
                known = ", ".join(list(self.pool)[:8])
                where = "the hostfile" if self.request.hostfile is not None else "a run without a hostfile"
                self._say(rules.unknown_host, name, f"{where} has no host {host!r}", f"there are: {known}", at)
                continue
            named.setdefault(host, set())
            if not colon:
                whole[host] = at
                continue
            for piece, place in _pieces(listed, ",", start + len(host) + 1):
                span = Span(place, place + max(1, len(piece)))
                number = _integer(piece)
                if number is None:
                    self._say(rules.bad_filter, name, f"{piece!r} is no number of a slot", _slots_help(piece), span)
                elif number not in self.pool[host]:
                    have = (
                        f"{host} has slots 0 to {len(self.pool[host]) - 1}" if self.pool[host] else f"{host} has none"
                    )
                    self._say(rules.unknown_slot, name, f"{host} has no slot {number}", have, span)
                else:
                    named[host].add(number)
        for host, at in whole.items():
            if named[host]:
                told = f"only slots {', '.join(map(str, sorted(named[host])))} of {host} count"
                self._say(rules.whole_host_lost, name, told, "name the host once", at)
        return {host: sorted(slots) for host, slots in named.items()}

    def _say(self, rule: rules.LauncherRule, option: str, message: str, help: str, span: Span | None = None) -> None:
        value = str(getattr(self.request, option))
        document = self._document(self.request.names[option], value)
        self.found.append(rule.at(document, span or Span(0, len(value)), f"{document.filename}: {message}", help))

    def _document(self, name: str, value: str) -> Document:
        return self.documents.setdefault(name, text_document(name, value))


def _pieces(text: str, separator: str, start: int) -> Iterator[tuple[str, int]]:
    for piece in text.split(separator):
        yield piece, start
        start += len(piece) + 1


def _integer(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


def _slots_help(piece: str) -> str:
    span = re.fullmatch(r"\s*(\d+)-(\d+)\s*", piece)
    if span and int(span[1]) < int(span[2]) < int(span[1]) + 64:
        return f"write {','.join(map(str, range(int(span[1]), int(span[2]) + 1)))}; there are no ranges"
    return "write the numbers of slots with commas between them, or only the host"
