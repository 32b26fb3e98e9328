"""Runs every command and Python block of the documentation, as a new user would.

    python tests/packaging/check_docs.py            # all blocks; takes half an hour
    python tests/packaging/check_docs.py README.md  # those of one page

The last commit is cloned, an environment is made by the README's own commands (`make train`
makes it), and the blocks of each page run one after the other from the clone's root. Where a
command names something that a reader has (a model), it is put in place first. All
blocks are run, whichever fail; the exit status is then 1.

A comment above a block says how it runs: `<!-- run: no, REASON -->` leaves it out,
`<!-- run: slow -->` leaves it out of the fast tests alone (`tests/test_readme.py`), and
`<!-- run: short -->` does so, too, and gives each training of the block four steps (eight where
it names their number) with replies of at most 16 tokens, a warm start of ten, and eight
episodes of evaluation.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md",
    "docs/index.md",
    "docs/training.md",
    "docs/watch.md",
    "docs/play.md",
    "docs/replay.md",
    "docs/measure.md",
    "docs/behaviour.md",
    "docs/tasks.md",
    "docs/rewards.md",
    "docs/loops.md",
    "docs/own-game.md",
    "docs/talk.md",
    "docs/frameworks.md",
    "docs/one-gpu.md",
    "docs/scaling.md",
    "docs/papers.md",
    "docs/evaluation.md",
    "docs/endpoints.md",
    "docs/improve.md",
    "docs/deploy.md",
    "docs/web.md",
    "docs/questions.md",
    "docs/credit/guide.md",
    "docs/credit/library.md",
    "docs/credit/check.md",
    "docs/credit/hooks.md",
    "docs/openspiel.md",
    "docs/textarena.md",
    "CONTRIBUTING.md",
)
MAX_SECONDS = 1800  # of a block
TYPED = "1\n" * 200  # to whatever asks: the first legal action
_BLOCK = re.compile(
    r"(?:<!-- run: (?P<how>[^>]*) -->\n)?```(?P<language>sh|bash|python)\n(?P<code>.*?)```",
    re.DOTALL,
)
PREPARE = """\
from pathlib import Path
import arena_envs
from arena_trainers.runs import tiny_model, tiny_tokenizer, words_of
from arena_wrappers import PromptOptions

words = []
for name in ("kuhn_poker", "tic_tac_toe", "mini_hanabi"):
    words += words_of(arena_envs.make_game(name), PromptOptions())
tokenizer = tiny_tokenizer(words)
folder = Path("path/to/model")
tiny_model(tokenizer).save_pretrained(folder)
tokenizer.save_pretrained(folder)
short = '{"reply_format": "bare", "rules": false, "max_new_tokens": 8}'
(folder / "arena_prompt.json").write_text(short)
"""


class Block(NamedTuple):
    """A block of code of a page."""

    page: str
    line: int
    how: str  # "", "slow", "short" or "no, REASON"
    language: str
    code: str

    @property
    def runs(self) -> bool:
        return not self.how.startswith("no")


def blocks(page: str) -> Iterator[Block]:
    """The blocks of a page that hold commands or Python, in their order."""
    text = (ROOT / page).read_text()
    for found in _BLOCK.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        language = "python" if found["language"] == "python" else "sh"
        yield Block(page, line, found["how"] or "", language, found["code"])


def shortened(code: str) -> str:
    """The commands, each training with few steps and short replies."""
    lines = []
    for line in code.replace("\\\n", " ").splitlines():
        command = line.partition(" #")[0]
        trains = re.search(r"\barena(_trainers)? train ", command)
        if trains and not re.search("--(dry-run|help)", command):
            command, named = re.subn(r"--max_steps \d+", "--max_steps 8", command)
            command += "" if named else " --max_steps 4"
            # a trainer on rows samples nothing, and has no options of play
            if not re.search("--(resume|trainer)", command):
                command += (
                    " --max_completion_length 16 --warm_start steps=10"
                    " --callbacks eval_episodes=8"
                )
        lines.append(command)
    return "\n".join(lines)


def as_program(found: list[Block]) -> str:
    """The Python blocks of a page as one program; doctests are checked."""
    lines = ["import doctest, sys", "names = {'__name__': 'page'}"]
    for block in found:
        if block.code.startswith(">>>"):
            lines.append(
                f"test = doctest.DocTestParser().get_doctest({block.code!r}, names, "
                f"{block.page!r}, None, {block.line})\n"
                "runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)\n"
                "runner.run(test, clear_globs=False)\n"
                "names.update(test.globs)\n"
                "if runner.failures: sys.exit(1)"
            )
        else:
            lines.append(
                f"exec(compile({block.code!r}, {block.page!r}, 'exec'), names)"
            )
    return "\n".join(lines)


def main(pages: list[str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        clone = Path(name) / "clone"
        run(["git", "clone", "--quiet", str(ROOT), str(clone)], Path(name), {})
        env = {
            "PATH": f"{clone / '.venv' / 'bin'}:{os.environ['PATH']}",
            "HF_HUB_CACHE": str(Path(name) / "cache"),
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
        }
        made = clone / ".venv" / ".dev"
        run(["make", str(made.relative_to(clone))], clone, env)
        python = str(clone / ".venv" / "bin" / "python")
        run([python, "-c", PREPARE], clone, env)
        failed = [at for page in pages for at in run_page(page, clone, env, python)]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")
    sys.stdout.write("every block runs\n")


def run_page(page: str, clone: Path, env: dict[str, str], python: str) -> list[str]:
    """Runs the blocks of a page in their order; where those stand that failed.

    Python blocks below commands run in a new process, after the Python blocks above these.
    """
    found = [block for block in blocks(page) if block.runs]
    code: list[Block] = []
    failed = []
    for block, then in zip_longest(found, found[1:]):
        if block.language == "python":
            code.append(block)
            if then and then.language == "python":
                continue
            command = [python, "-c", as_program(code)]
        else:
            text = shortened(block.code) if block.how == "short" else block.code
            # a plan is printed, and ends with 2 where the machine lacks the model or a GPU
            plans = re.compile(r"(\barena train [^#\n]*--dry-run\b[^#\n]*)")
            text = plans.sub(r"\1 || test $? = 2 ", text)
            command = ["bash", "-euo", "pipefail", "-c", text]
        began = time.monotonic()
        why = complaint(command, clone, env)
        seconds = time.monotonic() - began
        at = f"{page}:{block.line}"
        sys.stdout.write(f"{at}: {why or 'runs'}, {seconds:.0f} s\n")
        sys.stdout.flush()
        failed += [at] if why else []
    return failed


def run(command: list[str], cwd: Path, env: dict[str, str]) -> None:
    if why := complaint(command, cwd, env):
        sys.exit(why)


def complaint(command: list[str], cwd: Path, env: dict[str, str]) -> str:
    """Runs a command; the exit status and the end of what it wrote where it fails, else ""."""
    outer = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env={**outer, **env},
            input=TYPED,
            capture_output=True,
            text=True,
            timeout=MAX_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"took over {MAX_SECONDS} s: {command[-1]}\n"
    if done.returncode == 0:
        return ""
    shown = f"{command[-1]}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return f"exit status {done.returncode}: {shown}"


if __name__ == "__main__":
    main(sys.argv[1:] or list(PAGES))
