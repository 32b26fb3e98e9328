"""The fast commands and Python blocks of the README do what they say.

`tests/packaging/check_docs.py` runs the slow ones, too, and those of the other pages.
"""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = runpy.run_path(str(ROOT / "tests" / "packaging" / "check_docs.py"))
as_program, blocks = SCRIPT["as_program"], SCRIPT["blocks"]
README = (ROOT / "README.md").read_text()


def test_python_blocks_run():
    pytest.importorskip("trl")
    found = [block for block in blocks("README.md") if block.language == "python"]
    assert found
    run([sys.executable, "-c", as_program(found)], ROOT)


def test_fast_commands_run(tmp_path):
    pytest.importorskip("trl")
    fast = [b for b in blocks("README.md") if b.language == "sh" and not b.how]
    assert fast
    for block in fast:
        run(["bash", "-euo", "pipefail", "-c", block.code], tmp_path)


def test_the_first_commands_need_no_extra(tmp_path):
    """What `pip install .` does not install is hidden."""
    extras = ("chess", "jinja2", "matplotlib", "openskill", "scipy", "torch", "trl")
    hidden = f"import sys\nsys.modules.update(dict.fromkeys({extras}))\n"
    (tmp_path / "sitecustomize.py").write_text(hidden)
    first = next(b for b in blocks("README.md") if b.language == "sh").code
    install, *commands = first.splitlines()
    assert install == "pip install ."
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = f"export PYTHONPATH={':'.join(paths)}"
    for command in commands:
        run(["bash", "-c", f"{env}; yes 1 | {command}"], tmp_path)


def test_links_lead_to_files_of_the_repository():
    links = re.findall(r"\]\((?!https?://)([^)#]+)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_targets_of_the_makefile_exist():
    makefile = (ROOT / "Makefile").read_text()
    named = re.findall(r"^make (\w+)|`make (\w+)", README, re.MULTILINE)
    assert named
    for target in {first or second for first, second in named}:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_blocks_run_in_their_order_whichever_fail(tmp_path, capsys):
    page = tmp_path / "page.md"
    blocks = [("sh", "false"), ("python", "open('a', 'w')"), ("sh", "mv a b")]
    page.write_text("".join(f"```{name}\n{code}\n```\n" for name, code in blocks))
    failed = SCRIPT["run_page"](str(page), tmp_path, {}, sys.executable)
    assert failed == [f"{page}:1"]
    assert (tmp_path / "b").exists()
    assert "exit status 1: false" in capsys.readouterr().out
    page.write_text("A page without blocks.\n")
    assert SCRIPT["run_page"](str(page), tmp_path, {}, sys.executable) == []


def test_a_plan_that_the_machine_refuses_does_not_fail_its_block(tmp_path):
    page = tmp_path / "page.md"
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "arena").write_text('#!/bin/sh\nexit "$STATUS"\n')
    (folder / "arena").chmod(0o755)
    page.write_text("```sh\narena train spiral --dry-run  # a plan\ntrue\n```\n")
    for status, failed in (("2", []), ("1", [f"{page}:1"])):
        env = {"PATH": f"{folder}:{os.environ['PATH']}", "STATUS": status}
        assert SCRIPT["run_page"](str(page), tmp_path, env, sys.executable) == failed


def test_trainings_of_a_short_block_have_few_steps():
    lines = """arena train tic_tac_toe --seed 0  # a minute
arena train --resume run \\
    --max_steps 800
arena train spiral --dry-run
arena eval random nim"""
    found = [" ".join(line.split()) for line in SCRIPT["shortened"](lines).split("\n")]
    assert found == [
        "arena train tic_tac_toe --seed 0 --max_steps 4 --max_completion_length 16 "
        "--warm_start steps=10 --callbacks eval_episodes=8",
        "arena train --resume run --max_steps 8",
        "arena train spiral --dry-run",
        "arena eval random nim",
    ]


def run(command, folder):
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
