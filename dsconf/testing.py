"""For a team's own tests: assert that its configurations are valid.

```python
import pytest
from dsconf.testing import assert_valid, configs_in

@pytest.mark.parametrize("path", configs_in("configs"), ids=str)
def test_config(path):
    assert_valid(path, world_size=8)
```
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dsconf.api import validate
from dsconf.diagnostic import Severity
from dsconf.files import configs_in
from dsconf.report import Style
from dsconf.report.text import full
from dsconf.rules.rule import Reader
from dsconf.source import Document, read_file

if TYPE_CHECKING:
    from dsconf.api import Source

__all__ = ["assert_valid", "configs_in"]

_FAILS: Mapping[Severity, tuple[Severity, ...]] = {
    "error": ("error",),
    "warning": ("error", "warning"),
    "info": ("error", "warning", "info"),
}


def assert_valid(
    source: Source,
    *,
    fail_on: Severity = "error",
    world_size: int | None = None,
    reader: Reader = "deepspeed",
    training_args: Source | None = None,
    job: Mapping[str, Any] | None = None,
) -> None:
    """Fail with everything that is wrong with a configuration in a file or a mapping.

    `fail_on`: the least severity that fails. For the other arguments see `dsconf.validate`.

    Raises:
        AssertionError: something of that severity was found; the text is what `dsconf validate` prints.
        JobError: a fact about the job is unknown or has a value that it cannot have.
        TrainingArgsError: the file of training arguments cannot be understood.
        OSError: a file cannot be read.
    """
    found = validate(source, world_size=world_size, reader=reader, training_args=training_args, job=job)
    wrong = [item for item in found if item.severity in _FAILS[fail_on]]
    if wrong:
        document = Document("", "", None, (), ()) if isinstance(source, Mapping) else read_file(source)
        raise AssertionError("\n" + "\n".join(full(item, document, Style(), origin=item.pointer) for item in wrong))
