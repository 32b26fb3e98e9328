"""A vLLM server on a CPU, in a process of its own."""

import os
import runpy
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

from arena_trainers.cli.serve_policy import server_command
from arena_trainers.lm.backends.server import JSONServer, ServerError

HERE = Path(__file__).parent
SHIM = SimpleNamespace(**runpy.run_path(str(HERE / "server_shim.py")))


class Process:
    """A server as `arena serve policy` starts it, with the shim."""

    def __init__(self, folder, log, *options):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.folder, self.log, self.options = folder, log, options
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self):
        variables, command = server_command(str(self.folder), lora_r=8)
        command += ["--host", "127.0.0.1", "--port", str(self.port), *SHIM.OPTIONS]
        command += self.options
        paths = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
        variables |= {**SHIM.SETTINGS, "PYTHONPATH": paths}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, *command],
                env=os.environ | variables,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        server, begun = JSONServer(self.url, timeout=30), time.monotonic()
        while True:
            try:
                server.get("/health")
                return
            except ServerError:
                assert self.process.poll() is None, self.log.read_text()[-3000:]
                assert time.monotonic() - begun < 300, self.log.read_text()[-3000:]
                time.sleep(0.5)

    def send(self, signal_number):
        os.killpg(self.process.pid, signal_number)

    def kill(self):
        self.send(signal.SIGKILL)
        self.process.wait()
