"""Failures of the main process, in two processes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import json, os, socket, sys, tempfile
from accelerate import PartialState
from arena_trainers.lm.backends.server import ServerError
from arena_trainers.processes import raised_everywhere

class Unsendable(Exception):
    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
rank = 0 if os.fork() else 1
place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
os.environ.update(place, RANK=str(rank), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE="2")
state = PartialState(cpu=True)
said = []
for error in (ServerError("gone"), OSError(28, "full", "f"), Unsendable("a", "b"), None):
    try:
        with raised_everywhere():
            if error is not None and state.is_main_process:
                raise error
    except Exception as found:
        said.append([type(found).__name__, str(found)])
with open(f"{sys.argv[1]}/rank{rank}.json", "w") as file:
    json.dump(said, file)
state.wait_for_everyone()
state.destroy_process_group()
if rank == 0:
    os.wait()
"""


@pytest.mark.slow  # two processes import torch
def test_all_processes_raise_the_type_and_message_of_the_main_one(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    words = [sys.executable, path, tmp_path]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    main, other = (
        json.loads(Path(tmp_path, f"rank{n}.json").read_text()) for n in (0, 1)
    )
    assert main[:2] == [["ServerError", "gone"], ["OSError", "[Errno 28] full: 'f'"]]
    assert other[:2] == main[:2]
    assert main[2:] == [["Unsendable", "a and b"]]
    assert other[2:] == [["RuntimeError", "Unsendable: a and b"]]
