"""What the programs that read a ds_config.json before DeepSpeed do with it. Data; rules judge."""

from dsconf.readers.accelerate import ACCELERATE
from dsconf.readers.lightning import LIGHTNING
from dsconf.readers.profile import Arguments, Key, Note, Profile, Setting
from dsconf.readers.transformers import TRANSFORMERS

#: By the word that names the reader on the command line; DeepSpeed itself needs no profile.
PROFILES: dict[str, Profile] = {"transformers": TRANSFORMERS, "accelerate": ACCELERATE, "lightning": LIGHTNING}

__all__ = ["PROFILES", "Arguments", "Key", "Note", "Profile", "Setting"]
