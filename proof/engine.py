"""Run a configuration through the real DeepSpeed: parse, initialize, steps, save, load.

A process of its own imports DeepSpeed and its ops once and forks a child for every rank of every configuration, so
that a configuration costs a fraction of a second. Nothing is simulated. One question is answered for the machine: a
CPU says that it does not support fp16, and here it is told to try.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import pickle
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from collections import UserDict
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any, Literal

from proof.notes import Notebook
from proof.notes import Path as KeyPath
from proof.older import adapt, environment, installed, prepare

Phase = Literal["parse", "initialize", "step", "save", "load", "done"]
Optimizer = Literal["auto", "config", "client", "none"]
Model = Literal["tiny", "big"]

#: Directories on an NVMe drive in examples; a run gets its own in their place.
NVME_PLACEHOLDERS = ("/local_nvme",)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the engine did. `phase` is the one that failed, or `done`; `hung` when it had to be killed.

    `losses` holds the loss of each forward pass of rank 0 and `weights` a digest of its weights after the last step.
    `unread` holds the paths of the keys that rank 0 never looked up, the outermost ones. `measured` holds what
    `proof.memory` found on each rank, in bytes.
    """

    phase: Phase
    error: str = ""
    message: str = ""
    hung: bool = False
    losses: tuple[float, ...] = ()
    weights: str = ""
    unread: tuple[KeyPath, ...] = ()
    measured: tuple[Mapping[str, int], ...] = ()
    log: str = field(default="", repr=False)

    @property
    def trained(self) -> bool:
        """Whether every phase passed."""
        return self.phase == "done"


#: The ops that configurations make the engine load on a CPU.
_OPS = (
    "CPUAdamBuilder",
    "FusedAdamBuilder",
    "CPUAdagradBuilder",
    "CPULionBuilder",
    "PinMemoryBuilder",
    "ShareMemCommBuilder",
)


@dataclass(frozen=True, slots=True)
class Request:
    """A configuration, as the text of a file, and how to run it.

    `optimizer`: who brings it; `auto` means the file, or else the script. `scheduler`: whether the script brings one
    too. `zero_init`: whether the model is built under it, before the ranks know each other; None means at stage 3,
    after. `container`: the class of `collections` that the configuration is handed over in, instead of as a file.
    `saves`: where its checkpoint goes, if it is to be kept. `resumes`: the checkpoint to load in place of its
    own. `until`: the last phase to enter.
    `timeout`: seconds after which a rank counts as hung.
    """

    text: str
    world_size: int = 1
    optimizer: Optimizer = "auto"
    scheduler: Literal["config", "client"] = "config"
    zero_init: bool | None = None
    model: Model = "tiny"
    container: str = ""
    saves: str = ""
    resumes: str = ""
    until: Phase = "done"
    timeout: float = 60.0

    def rank(self, file: Path) -> Verdict:
        """Run one rank of it, in a process of that rank's own."""
        return _Rank(file, self).verdict()


class Engine:
    """The process that has DeepSpeed loaded; a context manager. Ops are compiled the first time.

    `site`: the folder of another release than the installed one, as `proof.older` sets it up; its ops are not compiled.
    """

    def __init__(self, site: Path | None = None) -> None:
        self._site = site

    def __enter__(self) -> Engine:
        root = Path(__file__).resolve().parent.parent
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from proof.engine import serve; serve(ops={self._site is None})"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=root,
            env={
                **os.environ,
                "DS_ACCELERATOR": "cpu",
                "OMP_NUM_THREADS": "1",
                "TORCH_COMPILE_DISABLE": "1",
                **(environment(self._site) if self._site else {}),
            },
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def run(self, text: str, **how: Any) -> Verdict:
        """Take a configuration through the engine; `how` is the rest of a `Request`.

        Raises:
            RuntimeError: the process could not load DeepSpeed or its ops.
        """
        return self.ask(Request(text, **how))

    def ask(self, request: Request) -> Verdict:
        """The same for a request of any kind."""
        if self._process.stdin is None or self._process.stdout is None or self._process.stderr is None:
            raise RuntimeError("the engine's process has no pipes")
        try:
            pickle.dump(request, self._process.stdin)
            self._process.stdin.flush()
            return pickle.load(self._process.stdout)
        except (EOFError, BrokenPipeError):
            raise RuntimeError(self._process.stderr.read().decode("utf-8", "replace")) from None


def serve(*, ops: bool) -> None:
    """Answer requests on standard input until it ends."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    sink = os.open(os.devnull, os.O_RDWR)
    os.dup2(sink, 0)
    os.dup2(sink, 1)
    _load(ops)
    while True:
        try:
            request: Request = pickle.load(requests)
        except EOFError:
            return
        pickle.dump(_run(request), answers)
        answers.flush()


def _load(ops: bool) -> None:
    release = installed()
    prepare(release)
    import cpuinfo
    import deepspeed
    import deepspeed.checkpoint
    import deepspeed.runtime.zero.stage3
    import deepspeed.runtime.zero.stage_1_and_2
    import torch
    import torch._dynamo
    from deepspeed.accelerator import get_accelerator

    # Older releases have no Muon.
    with suppress(ImportError):
        import deepspeed.runtime.zero.muon.muon_optimizer

    torch.set_num_threads(1)
    deepspeed.utils.logger.setLevel(logging.ERROR)
    adapt(release)
    accelerator = get_accelerator()
    accelerator.is_fp16_supported = lambda: True
    for name in (*_OPS, *(("AsyncIOBuilder",) if async_io_available() else ())) if ops else ():
        accelerator.create_op_builder(name).load(verbose=False)
    # Each child would otherwise run this slow look-up again.
    info = cpuinfo.get_cpu_info()
    cpuinfo.get_cpu_info = lambda: info


def async_io_available() -> bool:
    """Whether this machine has what offload to NVMe needs."""
    return Path("/usr/include/libaio.h").exists()


def _run(request: Request) -> Verdict:
    scratch = Path(tempfile.mkdtemp(prefix="dsconf-proof-"))
    text = request.text
    for placeholder in NVME_PLACEHOLDERS:
        text = text.replace(placeholder, str(scratch / "nvme"))
    (scratch / "nvme").mkdir()
    port = _free_port()
    file = scratch / "ds_config.json"
    file.write_text(text, encoding="utf-8", errors="surrogateescape")
    try:
        outcomes = _fork_ranks(file, port, request)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        _clean_shared_memory(port)
    failed = [item for item in outcomes if not item.trained]
    return min(failed, key=lambda item: item.hung) if failed else outcomes[0]


def _fork_ranks(file: Path, port: int, request: Request) -> list[Verdict]:
    children: list[tuple[int, int]] = []
    for rank in range(request.world_size):
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            _child(writer, file, rank, port, request)
        os.close(writer)
        children.append((pid, reader))
    deadline = time.monotonic() + request.timeout
    return [_collect(pid, reader, deadline) for pid, reader in children]


def _collect(pid: int, reader: int, deadline: float) -> Verdict:
    """The verdict of one rank: what it sent, or that it crashed or hung."""
    data = b""
    while True:
        left = deadline - time.monotonic()
        ready, _, _ = select.select([reader], [], [], max(0.0, left))
        if not ready:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(reader)
            return Verdict("step", "Hang", "no answer in time", hung=True)
        chunk = os.read(reader, 1 << 16)
        if not chunk:
            break
        data += chunk
    os.close(reader)
    _, status = os.waitpid(pid, 0)
    if len(data) < 4 or len(data) < 4 + struct.unpack("<I", data[:4])[0]:
        how = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit status {os.WEXITSTATUS(status)}"
        return Verdict("step", "Crash", f"the process died: {how}")
    return pickle.loads(data[4:])


def _child(writer: int, file: Path, rank: int, port: int, request: Request) -> None:
    """A rank; never returns."""
    try:
        log = file.parent / f"rank{rank}.log"
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        os.chdir(file.parent)
        os.environ.update(
            RANK=str(rank),
            LOCAL_RANK=str(rank),
            WORLD_SIZE=str(request.world_size),
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(port),
            CROSS_SIZE="1",
            CROSS_RANK="0",
        )
        verdict = request.rank(file)
        payload = pickle.dumps(verdict)
        os.write(writer, struct.pack("<I", len(payload)))
        view = memoryview(payload)
        while view:
            view = view[os.write(writer, view) :]
    finally:
        # Checkpoint writers of their own process would outlive the rank.
        for process in multiprocessing.active_children():
            process.kill()
        os._exit(0)


class _Rank:
    """One rank on its way through the phases."""

    def __init__(self, file: Path, request: Request) -> None:
        self.file = file
        self.request = request
        self.phase: Phase = "parse"
        self.losses: list[float] = []
        self.notes = Notebook()

    def verdict(self) -> Verdict:
        try:
            self.notes.install()
            digest = self.go()
        except BaseException as error:
            text = "".join(traceback.format_exception(error))
            return Verdict(self.phase, type(error).__name__, str(error), losses=tuple(self.losses), log=text)
        return Verdict("done", losses=tuple(self.losses), weights=digest, unread=self.notes.unread())

    def go(self) -> str:
        import deepspeed
        import torch
        from deepspeed.runtime.config import DeepSpeedConfig

        path: Any = str(self.file)
        if self.request.container:
            kinds = {"dict": dict, "UserDict": UserDict}
            path = kinds[self.request.container](json.loads(self.file.read_text()))
        zero_init = self.request.zero_init
        torch.manual_seed(0)
        if zero_init:
            with deepspeed.zero.Init(config_dict_or_path=path):
                net = _net(self.request.model)
        deepspeed.init_distributed("gloo", verbose=False)
        parsed = DeepSpeedConfig(path)
        if self.request.until == "parse":
            return ""
        self.phase = "initialize"
        stage = int(parsed.zero_optimization_stage)
        if not zero_init:
            with deepspeed.zero.Init(config_dict_or_path=path) if stage == 3 and zero_init is None else nullcontext():
                net = _net(self.request.model)
        client = None
        if self.request.optimizer == "client" or (self.request.optimizer == "auto" and parsed.optimizer_name is None):
            client = torch.optim.AdamW(net.parameters(), lr=1e-3)
        given = None if self.request.optimizer == "none" else list(net.parameters())
        schedule = None
        if self.request.scheduler == "client":
            schedule = partial(torch.optim.lr_scheduler.LambdaLR, lr_lambda=lambda step: 1.0 / (1 + step))
        engine, *_ = deepspeed.initialize(
            model=net, model_parameters=given, optimizer=client, lr_scheduler=schedule, config=path
        )
        if "activation_checkpointing" in engine.config:
            # The engine leaves this block to the script, which has to hand it on.
            deepspeed.checkpointing.configure(None, deepspeed_config=path)
        if self.request.until == "initialize":
            return ""
        self.phase = "step"
        self.train(engine, 3)
        digest = _digest(engine)
        if self.request.until == "step":
            return digest
        self.phase = "save"
        checkpoint = self.request.saves or str(self.file.parent / "checkpoint")
        engine.save_checkpoint(checkpoint)
        if stage < 3 or parsed.zero_config.gather_16bit_weights_on_model_save:
            engine.save_16bit_model(str(self.file.parent / "weights"))
        self.phase = "load"
        engine.load_checkpoint(self.request.resumes or checkpoint)
        self.train(engine, 1)
        return digest

    def train(self, engine: Any, steps: int) -> None:
        import torch

        dtype = next(engine.module.parameters()).dtype
        # Older releases have no autocast of their own.
        autocast = hasattr(engine, "torch_autocast_enabled") and engine.torch_autocast_enabled()
        for _ in range(steps * engine.gradient_accumulation_steps()):
            batch = engine.train_micro_batch_size_per_gpu()
            # The same batch again and again, so that the loss must fall.
            generator = torch.Generator().manual_seed(1234 + engine.global_rank)
            samples = torch.randn(ceil(batch), _WIDTH[self.request.model], generator=generator)
            (inputs,) = torch.utils.data.DataLoader(samples, batch_size=batch)
            loss = engine(inputs if autocast else inputs.to(dtype))
            self.losses.append(loss.item())
            engine.backward(loss)
            engine.step()


_WIDTH: dict[Model, int] = {"tiny": 16, "big": 1024}


def _net(model: Model) -> Any:
    """A few layers with normalization; `big` has weights large enough to be swapped to a drive."""
    import torch
    from torch import nn

    width = _WIDTH[model]

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Linear(width, width)
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, 4)

        def forward(self, inputs: Any) -> Any:
            hidden = self.norm(torch.tanh(self.embed(inputs)))
            return (self.head(hidden) - 1.0).float().pow(2).mean()

    return Net()


def _digest(engine: Any) -> str:
    """A digest of this rank's share of the weights; equal digests mean equal training."""
    import hashlib

    import torch

    digest = hashlib.sha256()
    for parameter in engine.module.parameters():
        tensor = getattr(parameter, "ds_tensor", None)
        data = parameter.data if tensor is None else tensor.data
        digest.update(data.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _clean_shared_memory(port: int) -> None:
    """Ranks leave their 64 MiB buffers behind; remove those of the run at `port`, and of no other."""
    for leftover in Path("/dev/shm").glob(f"deepspeed_*_{port}_*"):
        leftover.unlink(missing_ok=True)
