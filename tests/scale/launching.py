"""Runs `script.py` in two processes, as accelerate's configurations say."""

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def launch(sharding, models, out, runs):
    """Runs the script, and waits for its end.

    Args:
        sharding: `"ddp"`, `"fsdp2"`, `"zero2"` or `"zero3"`.
        models: folder of the models `tied` and `untied`.
        out: folder for the results.
        runs: the settings of each run, by name; see the script.
    """
    import trl

    configs = Path(trl.__file__).parent / "accelerate_configs"
    command = [sys.executable, "-m", "accelerate.commands.launch"]
    command += {
        "ddp": ["--multi_gpu"],
        "fsdp2": [
            *("--config_file", configs / "fsdp2.yaml"),
            *("--fsdp_cpu_ram_efficient_loading", "false"),
        ],
        "zero2": ["--config_file", configs / "zero2.yaml"],
        # its own file: layers this small would else stay whole
        "zero3": ["--use_deepspeed", "--deepspeed_config_file", HERE / "zero3.json"],
    }[sharding]
    command += ["--num_processes", "2", "--mixed_precision", "no"]
    command += ["--main_process_port", "0", HERE / "script.py", sharding, models, out]
    environment = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    if sharding.startswith("zero"):
        environment["DS_ACCELERATOR"] = "cpu"
    done = subprocess.run(
        [*map(str, command), json.dumps(runs)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]


def records(folder):
    """What each process saw."""
    return [json.loads((folder / f"rank{n}.json").read_text()) for n in (0, 1)]
