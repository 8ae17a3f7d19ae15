"""The rules about what the launcher is given, in the order of their codes."""

from __future__ import annotations

from dsconf.launcher.rule import Example, LauncherRule

_TWO = "worker-1 slots=2\nworker-2 slots=2\n"

bad_host_line = LauncherRule(
    "DL101",
    "bad-host-line",
    "error",
    "refused",
    "A line of the hostfile is not `HOST slots=NUMBER`.",
    "Each line names one host, then blanks, then slots= and the number of its accelerators, with no blank around the "
    "equals sign. Empty lines and lines that start with # are left out.",
    "launcher/runner.py:248",
    Example("worker-1 slots=2\nworker-2:2\n"),
    Example(_TWO),
    "Hostfile contains a bad entry",
)
duplicate_host = LauncherRule(
    "DL102",
    "duplicate-host",
    "error",
    "refused",
    "A host stands in the hostfile twice.",
    "The slots of a host are not added up: name each host once, with all its slots.",
    "launcher/runner.py:244",
    Example("worker-1 slots=2\nworker-1 slots=2\n"),
    Example("worker-1 slots=4\nworker-2 slots=2\n"),
    "Hostfile contains multiple entries",
)
no_hosts = LauncherRule(
    "DL103",
    "no-hosts",
    "error",
    "refused",
    "The hostfile names no host.",
    "A hostfile that exists must name a host; for a run on this machine alone, give no hostfile.",
    "launcher/runner.py:252",
    Example("# worker-1 slots=2\n"),
    Example(_TWO),
    "Hostfile is empty",
)
host_line_tail = LauncherRule(
    "DL104",
    "host-line-tail",
    "warning",
    "ignored",
    "What follows the number of slots is not read.",
    "A line is read up to the last digit of its number, so that slots=2.5 means 2, and max_slots= means nothing.",
    "launcher/runner.py:229",
    Example("worker-1 slots=2 max_slots=4\nworker-2 slots=2\n"),
    Example(_TWO),
)
host_without_slots = LauncherRule(
    "DL105",
    "host-without-slots",
    "warning",
    "ignored",
    "A host has no slots.",
    "Such a host is contacted and starts no process; as the first of the file it is the one that all others look for.",
    "launcher/runner.py:245",
    Example("worker-1 slots=2\nworker-2 slots=0\n"),
    Example(_TWO),
)
odd_host_name = LauncherRule(
    "DL106",
    "odd-host-name",
    "warning",
    "coerced",
    "A name of a host has a character that the launcher's filters or ssh take for something else.",
    "The name is taken as it stands, up to the first blank: a byte order mark becomes a part of it, a comma makes two "
    "hosts of it for pdsh, and --include and --exclude split at @ and at colons.",
    "launcher/runner.py:229",
    Example("worker-1,worker-2 slots=2\nworker-3 slots=2\n"),
    Example(_TWO),
)

include_with_exclude = LauncherRule(
    "DL201",
    "include-with-exclude",
    "error",
    "refused",
    "--include and --exclude are given together.",
    "Name either the slots to use or the slots to leave out.",
    "launcher/runner.py:308",
    Example(_TWO, options={"include": "worker-1@worker-2", "exclude": "worker-2:0"}),
    Example(_TWO, options={"include": "worker-1@worker-2:1"}),
    "mutually exclusive",
)
unknown_host = LauncherRule(
    "DL202",
    "unknown-host",
    "error",
    "refused",
    "A filter names a host that the hostfile does not have.",
    "Without a hostfile there is one host, localhost.",
    "launcher/runner.py:345",
    Example(_TWO, options={"include": "worker-1@worker-9"}),
    Example(_TWO, options={"include": "worker-1@worker-2"}),
    "not found in hostfile",
)
unknown_slot = LauncherRule(
    "DL203",
    "unknown-slot",
    "error",
    "refused",
    "A filter names a slot that its host does not have.",
    "Slots count from 0, up to one below the number after slots=.",
    "launcher/runner.py:331",
    Example(_TWO, options={"exclude": "worker-2:2"}),
    Example(_TWO, options={"exclude": "worker-2:1"}),
    "No slot '2' specified",
)
bad_filter = LauncherRule(
    "DL204",
    "bad-filter",
    "error",
    "refused",
    "A filter is not HOST[:SLOT,SLOT...] joined by @.",
    "Slots are single whole numbers with commas between them; there are no ranges, and no colon without slots.",
    "launcher/runner.py:275",
    Example(_TWO, options={"include": "worker-1@worker-2:0-1"}),
    Example(_TWO, options={"include": "worker-1@worker-2:0,1"}),
    "invalid literal for int()",
)
nothing_left = LauncherRule(
    "DL205",
    "nothing-left",
    "error",
    "refused",
    "The filter leaves no slot at all.",
    "The launcher does not check this, and fails when it looks for the first host.",
    "launcher/runner.py:484",
    Example("worker-1 slots=2\n", options={"exclude": "worker-1"}),
    Example(_TWO, options={"exclude": "worker-1:0"}),
    "list index out of range",
)
one_remote_host = LauncherRule(
    "DL206",
    "one-remote-host",
    "error",
    "coerced",
    "The one host that is left is not this machine, and the launcher would start the ranks on this machine.",
    "With a single host the launcher takes its local way: it starts the ranks where it was typed, without ssh, and "
    "they wait for an address that is not theirs. --force_multi sends them to that host.",
    "launcher/runner.py:537",
    Example(_TWO, options={"include": "worker-2:0"}),
    Example(_TWO, options={"include": "worker-1:0@worker-2:0"}),
)
filter_with_counts = LauncherRule(
    "DL207",
    "filter-with-counts",
    "error",
    "refused",
    "--num_nodes or --num_gpus stands next to a filter.",
    "The counts take the first hosts and the first slots; a filter names them. Use one of the two.",
    "launcher/runner.py:464",
    Example(_TWO, options={"include": "worker-1@worker-2", "num_gpus": 1}),
    Example(_TWO, options={"num_gpus": 1}),
    "Cannot specify num_nodes/gpus",
)
too_few_hosts = LauncherRule(
    "DL208",
    "too-few-hosts",
    "error",
    "ignored",
    "--num_nodes asks for more hosts than there are.",
    "With a hostfile the launcher silently takes all there are, and the run is smaller than asked for.",
    "launcher/runner.py:395",
    Example(_TWO, options={"num_nodes": 3}),
    Example(_TWO, options={"num_nodes": 2}),
)
too_few_slots = LauncherRule(
    "DL209",
    "too-few-slots",
    "error",
    "ignored",
    "--num_gpus asks for more slots than a host has.",
    "The launcher replaces the slots of every host without looking at slots=, and some ranks find no accelerator.",
    "launcher/runner.py:403",
    Example(_TWO, options={"num_gpus": 3}),
    Example(_TWO, options={"num_gpus": 2}),
)
whole_host_lost = LauncherRule(
    "DL210",
    "whole-host-lost",
    "warning",
    "ignored",
    "A filter names a host whole and once more with slots; only the slots count.",
    "The slots of all mentions are added up, and a mention without slots adds none.",
    "launcher/runner.py:289",
    Example(_TWO, options={"include": "worker-1@worker-2@worker-2:1"}),
    Example(_TWO, options={"include": "worker-1@worker-2:1"}),
)

unknown_launcher = LauncherRule(
    "DL301",
    "unknown-launcher",
    "error",
    "refused",
    "There is no such launcher.",
    "A run on one machine does not look at the name, so that the mistake only shows on many.",
    "launcher/runner.py:580",
    Example(_TWO, options={"launcher": "ssh"}),
    Example(_TWO, options={"launcher": "pdsh"}),
    "Unknown launcher",
)
launcher_without_filters = LauncherRule(
    "DL302",
    "launcher-without-filters",
    "error",
    "refused",
    "The launcher cannot use a part of the hosts or slots.",
    "OpenMPI, MPICH, Intel MPI and MVAPICH start on the whole hostfile; Slurm cannot choose slots by number.",
    "launcher/multinode_runner.py:152",
    Example(_TWO, options={"launcher": "openmpi", "exclude": "worker-2:0"}),
    Example(_TWO, options={"launcher": "pdsh", "exclude": "worker-2:0"}),
    "does not support worker include/exclusion",
)
uneven_hosts = LauncherRule(
    "DL303",
    "uneven-hosts",
    "error",
    "refused",
    "The launcher needs the same number of slots on every host.",
    "MPICH, Intel MPI, MVAPICH and Slurm place ranks by a number per host.",
    "launcher/multinode_runner.py:222",
    Example("worker-1 slots=2\nworker-2 slots=1\n", options={"launcher": "mpich"}),
    Example(_TWO, options={"launcher": "mpich"}),
    "requires same number of devices per node",
)
visible_devices_overridden = LauncherRule(
    "DL304",
    "visible-devices-overridden",
    "warning",
    "ignored",
    "CUDA_VISIBLE_DEVICES is set, and the launcher sets it anew for every rank.",
    "With a hostfile, a filter or a count the launcher gives each host the numbers of its slots, whatever the variable "
    "says where it is started; choose devices with --include.",
    "launcher/launch.py:172",
    Example(_TWO, environment={"CUDA_VISIBLE_DEVICES": "1"}),
    Example(_TWO, options={"include": "worker-1:1@worker-2:1"}),
)

env_line_without_value = LauncherRule(
    "DL401",
    "env-line-without-value",
    "error",
    "refused",
    "A line of the environment file has no equals sign.",
    "Every line is NAME=VALUE. Blank lines and comments are not known, so that a blank line ends the launch.",
    "launcher/runner.py:610",
    Example(_TWO, "NCCL_DEBUG=INFO\n\nNCCL_IB_DISABLE=1\n"),
    Example(_TWO, "NCCL_DEBUG=INFO\nNCCL_IB_DISABLE=1\n"),
    "not enough values to unpack",
)
env_comment = LauncherRule(
    "DL402",
    "env-comment",
    "error",
    "coerced",
    "A comment in the environment file comments out the command that each host is sent.",
    "The line becomes a part of one command line for the remote shell, which reads nothing after the #: nothing "
    "trains, and the launcher ends with status 0.",
    "launcher/multinode_runner.py:104",
    Example(_TWO, "# debug=on\nNCCL_DEBUG=INFO\n"),
    Example(_TWO, "NCCL_DEBUG=INFO\n"),
)
env_bad_name = LauncherRule(
    "DL403",
    "env-bad-name",
    "error",
    "ignored",
    "What stands before the equals sign is not a name of a variable.",
    "The remote shell refuses the name, says so among other lines, and goes on without the variable.",
    "launcher/multinode_runner.py:104",
    Example(_TWO, "NCCL-DEBUG=INFO\n"),
    Example(_TWO, "NCCL_DEBUG=INFO\n"),
)
env_shell_value = LauncherRule(
    "DL404",
    "env-shell-value",
    "error",
    "coerced",
    "The remote shell changes the value.",
    "A value with other characters than letters, digits and _@%+=:,./- is put into double quotes and nothing in it is "
    "escaped: quotes end it, and $, ` and \\ are the remote shell's.",
    "launcher/multinode_runner.py:39",
    Example(_TWO, 'GREETING="hello world"\n'),
    Example(_TWO, "GREETING=hello world\n"),
)
env_overridden = LauncherRule(
    "DL405",
    "env-overridden",
    "warning",
    "ignored",
    "The launcher sets this variable itself on every host.",
    "RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, LOCAL_SIZE, CROSS_RANK, CROSS_SIZE and "
    "CUDA_VISIBLE_DEVICES are worked out from the hosts and slots.",
    "launcher/launch.py:172",
    Example(_TWO, "CUDA_VISIBLE_DEVICES=1\n"),
    Example(_TWO, "NCCL_DEBUG=INFO\n"),
)
env_twice = LauncherRule(
    "DL406",
    "env-twice",
    "warning",
    "ignored",
    "The environment file sets a variable twice; the last one counts.",
    "Remove the line that is not meant.",
    "launcher/multinode_runner.py:41",
    Example(_TWO, "NCCL_DEBUG=INFO\nNCCL_DEBUG=WARN\n"),
    Example(_TWO, "NCCL_DEBUG=WARN\n"),
)

RULES: tuple[LauncherRule, ...] = (
    bad_host_line,
    duplicate_host,
    no_hosts,
    host_line_tail,
    host_without_slots,
    odd_host_name,
    include_with_exclude,
    unknown_host,
    unknown_slot,
    bad_filter,
    nothing_left,
    one_remote_host,
    filter_with_counts,
    too_few_hosts,
    too_few_slots,
    whole_host_lost,
    unknown_launcher,
    launcher_without_filters,
    uneven_hosts,
    visible_devices_overridden,
    env_line_without_value,
    env_comment,
    env_bad_name,
    env_shell_value,
    env_overridden,
    env_twice,
)


def find_rule(word: str) -> LauncherRule | None:
    """The rule with a code or a name, in any case."""
    folded = word.lower()
    return next((item for item in RULES if folded in (item.code.lower(), item.name)), None)
