"""The server that the launcher starts, on a CPU: its command, with what vLLM needs there."""

import os
import runpy
import sys
from pathlib import Path

HERE = Path(__file__).parent

if __name__ == "__main__":
    shim = runpy.run_path(str(HERE / "server_shim.py"))
    paths = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    os.environ.update(shim["SETTINGS"] | {"PYTHONPATH": paths})
    from arena_trainers.cli.main import main

    sys.argv = ["arena", "serve", "policy", *sys.argv[1:], *shim["OPTIONS"]]
    main()
