"""What DeepSpeed's launcher reads before anything trains: hostfile, filters and environment file.

They are read as `deepspeed/launcher/runner.py` of DeepSpeed 0.19.8 reads them, and judged by rules of their own
(`DL...`), which `dsconf explain` knows like the others.
"""

from dsconf.launcher.env_file import EnvFile, read_env_file
from dsconf.launcher.hostfile import Hostfile, read_hostfile
from dsconf.launcher.resources import Request, Resources, resolve
from dsconf.launcher.rules import RULES, find_rule

__all__ = [
    "RULES",
    "EnvFile",
    "Hostfile",
    "Request",
    "Resources",
    "find_rule",
    "read_env_file",
    "read_hostfile",
    "resolve",
]
