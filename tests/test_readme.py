"""The Python blocks of the README run, one after the other, and say what they claim."""

import doctest
import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(), re.DOTALL)


def test_python_blocks_run():
    pytest.importorskip("trl")
    names: dict[str, object] = {}
    found = blocks("python")
    assert len(found) >= 3
    for block in found:
        if block.startswith(">>>"):
            runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
            test = doctest.DocTestParser().get_doctest(block, names, "README", None, 0)
            runner.run(test, clear_globs=False)
            names.update(test.globs)
            assert runner.failures == 0
        else:
            exec(compile(block, "README", "exec"), names)


def test_the_two_commands_are_targets_of_the_makefile():
    makefile = (README.parent / "Makefile").read_text()
    for target in ("train", "test"):
        assert f"make {target}" in README.read_text()
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)
