"""Starting ranks: what is refused and shown before anything starts, and how a run ends when a part of it dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runner import ds_config, nvme
from runner.environment import free_port, refuse_used_port
from runner.errors import CannotStart, UsageError
from runner.launch.plan import plan
from runner.lock import Lock
from runner.mpi import adopt, first_of
from tests.test_runner import composed, runner
from tests.test_runner_trains import SMALL, environment, start


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def launch_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "hosts").write_text("w0 slots=2\nw1 slots=2\n")
    (tmp_path / "bad").write_text("w0 slots=2\nw1\n")
    (tmp_path / "env").write_text("# a=b\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["launch.hostfile=hosts", "launch.include=w0", "launch.exclude=w1"], ["DL201", "launch.exclude"]),
        (["launch.hostfile=hosts", "launch.include='w1:0'"], ["DL206", "launch.force_multi"]),
        (["launch.hostfile=bad"], ["DL101", "bad:2:1"]),
        (["launch.hostfile=hosts", "launch.env_file=env"], ["DL402", "env:1:1"]),
        (["launch.num_gpus=3", "+ds_config.train_batch_size=8"], ["from override: +ds_config.train_batch_size=8"]),
        (["launch.hostfile=hosts", "launch.node_rank=1"], ["launch.master_addr=", "run_dir="]),
        (["launch.hostfile=hosts", "run_dir='a;b'"], ["run_dir", "shells of the hosts", "';'"]),
    ],
)
def test_a_wrong_launch_is_refused_with_what_is_wrong(
    launch_files: Path, overrides: list[str], words: list[str]
) -> None:
    with pytest.raises(UsageError) as refused:
        plan(composed("+preset=zero2", "launch=deepspeed", *overrides))
    for word in words:
        assert word in str(refused.value)


def test_a_refused_launch_starts_and_writes_nothing(launch_files: Path) -> None:
    done = runner(launch_files, "+preset=zero2", "launch=deepspeed", "launch.hostfile=hosts", "launch.include='w0@w9'")
    assert done.returncode == 2
    assert "DL202" in done.stderr
    assert "launch.include:1:4" in done.stderr
    assert not (launch_files / "runs").exists()


def test_a_dry_run_says_what_would_start_and_starts_nothing(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("w0 slots=2\nw1 slots=4\n")
    (tmp_path / "env").write_text("NCCL_DEBUG=INFO\n")
    asked = ["launch.hostfile=hosts", "launch.include='w1:1,3@w0:0'", "launch.env_file=env", "launch.dry_run=true"]
    done = start(tmp_path, "runner", "+preset=zero2", "launch=deepspeed", *asked, UCX_TLS="tcp")
    assert done.returncode == 0, done.stderr
    for word in (
        "--include=w1:1,3@w0:0",
        "node 0 w0: rank 0 on slot 0",
        "node 1 w1: rank 1 on slot 1, rank 2 on slot 3",
        "port 29500",
        "UCX_TLS=tcp",
        f"PYTHONPATH={tmp_path}:",
        "NCCL_DEBUG=INFO",
        "8 per rank x 1 accumulation steps x 3 ranks = 24",
    ):
        assert word in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["env", "hosts"]


def test_a_rank_does_not_launch_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(UsageError, match="this process is one"):
        plan(composed("+preset=zero2", "launch=deepspeed", "launch.num_gpus=2"))


def test_a_used_port_is_named() -> None:
    import socket

    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(CannotStart, match=f"port {port}"):
            refuse_used_port("127.0.0.1", port)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            {
                "OMPI_COMM_WORLD_RANK": "1",
                "OMPI_COMM_WORLD_SIZE": "2",
                "OMPI_COMM_WORLD_LOCAL_RANK": "1",
                "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
            },
            ("1", "2", "1", "2", "127.0.0.1"),
        ),
        (
            {"PMI_RANK": "0", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "2"},
            ("0", "2", "0", "2", "127.0.0.1"),
        ),
        (
            {
                "SLURM_PROCID": "3",
                "SLURM_STEP_NUM_TASKS": "5",
                "SLURM_LOCALID": "1",
                "SLURM_NODEID": "1",
                "SLURM_STEP_TASKS_PER_NODE": "2(x2),1",
                "SLURM_STEP_NODELIST": "node[03-05,9],other",
            },
            ("3", "5", "1", "2", "node03"),
        ),
    ],
)
def test_mpirun_and_srun_are_recognised(given: dict[str, str], expected: tuple[str, ...]) -> None:
    found = dict(given)
    adopt(found)
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR")
    assert tuple(found[name] for name in names) == expected
    assert 20000 <= int(found["MASTER_PORT"]) < 30000


@pytest.mark.parametrize(
    "given",
    [
        # A batch script of Slurm, which no srun started.
        {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NTASKS": "4", "SLURM_JOB_ID": "7"},
        # torchrun under srun.
        {"RANK": "1", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_STEP_NUM_TASKS": "1"},
    ],
)
def test_a_process_that_srun_or_mpirun_did_not_start_stays_what_it_is(given: dict[str, str]) -> None:
    found = dict(given)
    adopt(found)
    assert found == given


def test_ranks_on_several_hosts_that_cannot_find_the_first_are_told_how(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    host = {"OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}
    with pytest.raises(CannotStart, match="mpirun -x MASTER_ADDR=HOST"):
        adopt({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4", **host})


@pytest.mark.parametrize(("hosts", "first"), [("a", "a"), ("a,b", "a"), ("n[1,3]", "n1"), ("n[08-11]-x,b", "n08-x")])
def test_the_first_of_of_a_slurm_list(hosts: str, first: str) -> None:
    assert first_of(hosts) == first


def test_two_runs_do_not_offload_to_one_directory(tmp_path: Path) -> None:
    offload = [
        f"ds_config.zero_optimization.{name}.nvme_path={tmp_path}" for name in ("offload_optimizer", "offload_param")
    ]
    config = ds_config.build(composed("+preset=zero3_nvme", *offload))
    told = f"nvme_path: {tmp_path} is in use by process"
    with nvme.locked(config), pytest.raises(CannotStart, match=told), nvme.locked(config):
        pass
    with nvme.locked(config):
        pass


# With ranks


def command(*overrides: str) -> list[str]:
    words = [
        sys.executable,
        "-m",
        "runner",
        "+preset=zero2",
        *SMALL,
        "optimizer=sgd",
        "run_dir=run",
        "launch=deepspeed",
    ]
    return [*words, *overrides]


def processes(directory: Path) -> dict[str, int]:
    """What runs for a launch in a run directory: the ranks by number, and the launcher."""
    found: dict[str, int] = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes().decode().split("\0")
            variables = (place / "environ").read_bytes().decode().split("\0")
        except (OSError, UnicodeDecodeError):
            continue
        if str(directory / "launch.yaml") in words:
            rank = next((word[5:] for word in variables if word.startswith("RANK=")), "launcher")
            found[rank] = int(place.name)
    return found


def lines_until(process: subprocess.Popen[str], start: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(start):
            return
    raise AssertionError(f"ended before it said {start!r}")


def test_two_nodes_train_together(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("localhost slots=1\n127.0.0.1 slots=1\n")
    asked = ["launch.hostfile=hosts", "launch.master_addr=127.0.0.1", f"launch.master_port={free_port()}"]
    nodes = [
        subprocess.Popen(
            command(*asked, f"launch.node_rank={node}", "training.steps=1"),
            cwd=tmp_path,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for node in range(2)
    ]
    (said, errors), (other, other_errors) = (node.communicate() for node in nodes)
    assert [node.returncode for node in nodes] == [0, 0], errors + other_errors
    assert "2 processes" in said
    assert "everything is in" not in other
    run = tmp_path / "run"
    assert (run / "summary.json").exists()
    assert said.splitlines()[-1] in (run / "logs" / "rank_0.log").read_text()
    assert (run / "logs" / "rank_1.log").exists()
    assert not (run / "logs" / "failure.txt").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["hosts", "run"]


@pytest.mark.parametrize(
    ("victim", "told"),
    [
        ("1", "rank 1 ended without a word"),
        ("launcher", "what started this run was killed"),
    ],
)
def test_what_is_killed_ends_the_whole_run_and_is_named_last(tmp_path: Path, victim: str, told: str) -> None:
    run = tmp_path / "run"
    with subprocess.Popen(
        command("launch.num_gpus=2", "training.steps=100000"),
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        lines_until(process, "step ")
        os.kill(processes(run)[victim], signal.SIGKILL)
        _, errors = process.communicate()
    assert process.returncode not in (0, None)
    assert told in errors.strip().splitlines()[-2]
    assert not processes(run)
    assert not (run / "summary.json").exists()
    Lock(run, "run_dir")


def test_the_traceback_of_the_rank_that_failed_is_the_last_thing_said(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import os, torch\n"
        "class Failing(torch.optim.AdamW):\n"
        "    def step(self, *given, **named):\n"
        "        if os.environ['RANK'] == '1':\n"
        "            raise ArithmeticError('on one rank only')\n"
        "        return super().step(*given, **named)\n"
    )
    asked = ["+preset=ddp", *SMALL, "optimizer=torch", "optimizer.type=mine.Failing", "run_dir=run"]
    done = start(tmp_path, "runner", *asked, "launch=deepspeed", "launch.num_gpus=2")
    assert done.returncode == 1
    logs = tmp_path / "run" / "logs"
    *_, said, where = done.stderr.strip().splitlines()
    assert said == "ArithmeticError: on one rank only"
    assert where == f"(kept in {logs / 'failure.txt'})"
    assert (logs / "failure.txt").read_text().startswith("rank 1 on ")
    assert "ArithmeticError" in (logs / "rank_1.log").read_text()
    assert "ArithmeticError" not in (logs / "rank_0.log").read_text()
    assert not processes(tmp_path / "run")


def test_a_rank_that_stands_still_is_named_with_where_it_stands(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import os, threading, torch\n"
        "class Standing(torch.optim.AdamW):\n"
        "    steps = 0\n"
        "    def step(self, *given, **named):\n"
        "        self.steps += 1\n"
        "        if self.steps == 3 and os.environ['RANK'] == '1':\n"
        "            threading.Event().wait()\n"
        "        return super().step(*given, **named)\n"
    )
    asked = ["+preset=ddp", *SMALL, "optimizer=torch", "optimizer.type=mine.Standing", "run_dir=run"]
    launch = ["launch=deepspeed", "launch.num_gpus=2", "distributed.timeout_minutes=0.1"]
    done = start(tmp_path, "runner", *asked, *launch)
    assert done.returncode == 1
    log = tmp_path / "run" / "logs" / "rank_1.log"
    said = (tmp_path / "run" / "logs" / "failure.txt").read_text()
    assert said.startswith("error: step 3: waited 0.1 minutes for rank 1 in vain")
    assert str(log) in said
    assert "raise distributed.timeout_minutes" in said
    assert "mine.py" in log.read_text()
    assert said.strip() in done.stderr
    assert "Traceback" not in done.stderr
    assert not processes(tmp_path / "run")
