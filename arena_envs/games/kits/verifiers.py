r"""Verifiers of other packages, which read hostile answers, in a process of their own.

Some of them evaluate an answer as Python: reasoning-gym calls `eval`, and SymPy parses with it. So
the process may not start others, write files or open connections: it ends where an answer tries
to. It also ends when an answer takes more than `MAX_SECONDS` of CPU time, as 9^{9^{9^9}} would. In both
cases the answer scores 0, and the next one gets a new process. CPU time and not the clock, so that
a busy machine scores alike.
"""

import base64
import os
import pickle
import re
import sys
from functools import lru_cache
from subprocess import DEVNULL, PIPE, Popen
from threading import Lock, Timer
from typing import Any

from arena_envs.games.kits.answers import boxed
from arena_envs.registry import import_extra

MAX_SECONDS = 2.0  # CPU time of an answer; at most 9 seats answer in an episode
MAX_WAIT = 60.0  # seconds by the clock, for what waits and computes nothing

WORKER = r"""
import base64, os, pickle, signal, sys

out = os.fdopen(os.dup(1), "w")  # what a verifier prints goes nowhere
os.dup2(2, 1)
package = sys.argv[1]
FORBIDDEN = (
    "os.", "subprocess.", "socket.", "shutil.", "ctypes.", "pty.", "urllib.", "http.", "ftplib.",
    "smtplib.", "tempfile.", "sqlite3.", "mmap.", "fcntl.", "resource.", "signal.", "webbrowser.",
    "cpython.", "gc.", "winreg.", "_winapi.", "msvcrt.", "sys.addaudithook",
)
HARMLESS = ("os.listdir", "os.scandir", "os.fwalk", "os.walk")  # of imports


def guard(event, args):
    writes = event == "open" and isinstance(args[2], int) and args[2] & (
        os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    )
    if writes or (event.startswith(FORBIDDEN) and event not in HARMLESS):
        os._exit(3)


if package == "math_verify":
    from math_verify import parse, verify

    def score(right, answer):
        right, answer = (parse(f"${text}$", parsing_timeout=None) for text in (right, answer))
        return float(bool(right and verify(right, answer, timeout_seconds=None)))
else:
    import reasoning_gym

    def score(name, entry, answer):
        return float(reasoning_gym.get_score_answer_fn(name)(answer, entry))


print("ready", file=out, flush=True)
is_guarded = False
for line in sys.stdin:
    seconds, args = pickle.loads(base64.b64decode(line))
    if package == "reasoning_gym":
        reasoning_gym.get_score_answer_fn(args[0])  # imports what it needs
    signal.setitimer(signal.ITIMER_PROF, seconds)  # SIGPROF ends the process
    if not is_guarded:
        is_guarded = not sys.addaudithook(guard)
    try:
        paid = score(*args)
    except Exception:  # a stranger's verifier reads a hostile text
        paid = 0.0
    signal.setitimer(signal.ITIMER_PROF, 0)
    print(paid, file=out, flush=True)
"""


@lru_cache(2)
def _worker(package: str, pid: int) -> Popen[str]:
    """The process of a package, for this process and not for one that it was forked from.

    Raises:
        ModuleNotFoundError: the package is not installed; says what to install.
        RuntimeError: the package is installed and does not start.
    """
    import_extra(package, "questions")
    command = [sys.executable, "-B", "-P", "-c", WORKER, package]
    process = Popen(command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, text=True)
    if process.stdout is None or process.stdout.readline() != "ready\n":
        raise RuntimeError(
            f"want a process that imports {package} and has `parse` and `verify` of math-verify "
            "0.9, or `get_score_answer_fn` of reasoning-gym; install the extra questions again"
        )
    return process


_lock = Lock()


_NO_ANSWER = re.compile(r"\\n(?:e|eq)(?![a-z])|[\u2260!?]|\b(?:not|or|never|isn't)\b")
_CODE = re.compile(
    r"__|\b(?:exec|eval|compile|open|input|[gs]etattr|globals|vars)\s*\("
)


def math_verify_score(right: str, answer: str) -> float:
    r"""1 where math-verify finds two terms equal, else 0; of several boxes the last one counts.

    Raises:
        ModuleNotFoundError: the package is not installed; says what to install.
    """
    terms = [(boxed(text) or text).replace("$", "") for text in (right, answer)]
    if _NO_ANSWER.search(terms[1]) and not _NO_ANSWER.search(terms[0]):
        return 0.0
    return _paid("math_verify", _pickled(*terms))


def reasoning_gym_score(name: str, entry: Any, answer: str) -> float:
    """The score, from 0 to 1, that a generator of reasoning-gym gives to an answer.

    Raises:
        ModuleNotFoundError: the package is not installed; says what to install.
    """
    if _CODE.search(answer):
        return 0.0
    return _paid("reasoning_gym", _pickled(name, entry, answer))


def _pickled(*args: Any) -> str:
    return base64.b64encode(pickle.dumps((MAX_SECONDS, args))).decode()


@lru_cache(1024)
def _paid(package: str, line: str) -> float:
    """What a package pays for an answer, from 0 to 1; 0 if its process ends."""
    with _lock:
        process = _worker(package, os.getpid())
        late = Timer(MAX_WAIT, process.kill)
        late.start()
        try:
            print(line, file=process.stdin, flush=True)
            reply = process.stdout.readline() if process.stdout else ""
        except OSError:  # the process has ended
            reply = ""
        late.cancel()
        if not reply:
            process.kill()
            process.communicate()
            _worker.cache_clear()
    score = float(reply or 0)
    return min(max(score, 0.0), 1.0) if score == score else 0.0  # NaN
