"""How many bytes a configuration needs, where, and when: of a model, on each rank, before the job starts."""

from dsconf.memory.account import BUILDING, HOST, MOMENTS, Account, Item, Moment, Place, account, built_for
from dsconf.memory.activations import Batch
from dsconf.memory.machine import Machine, Shortage, World
from dsconf.memory.model import Model, ModelError, Parameter, Transformer
from dsconf.memory.size import SizeError, parse_bytes, parse_count, parse_fraction, show_bytes, show_count

__all__ = [
    "BUILDING",
    "HOST",
    "MOMENTS",
    "Account",
    "Batch",
    "Item",
    "Machine",
    "Model",
    "ModelError",
    "Moment",
    "Parameter",
    "Place",
    "Shortage",
    "SizeError",
    "Transformer",
    "World",
    "account",
    "built_for",
    "parse_bytes",
    "parse_count",
    "parse_fraction",
    "show_bytes",
    "show_count",
]
