"""Many files are validated on all cores, with the same outcome as one by one."""

from __future__ import annotations

from pathlib import Path

from dsconf.check import check
from dsconf.many import check_files
from dsconf.rules.rule import Context
from dsconf.source import read_file


def test_many_files_give_what_each_gives_alone_and_in_their_order(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.json" for number in range(300)]
    for number, path in enumerate(paths):
        path.write_text('{"train_batch_size": %d, "zero_optimization": {"stage": %d}}' % (number, number % 5))
    paths[7].unlink()
    context = Context(world_size=2)
    found = list(check_files(paths, context))
    assert found[7] == f"{paths[7]}: no such file or directory"
    for path, item in zip(paths, found, strict=True):
        if path.exists():
            assert not isinstance(item, str)
            assert (item[0].filename, tuple(item[1])) == (str(path), check(read_file(path), context).diagnostics)
