"""OpenRLHF: its experience maker with our advantages, here and in a worker of Ray.

Its engine vLLM and its kernels of flash-attn need a GPU: empty modules stand for them.
"""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

if importlib.util.find_spec("openrlhf") is None:
    pytest.skip("openrlhf is not installed: make adapters", allow_module_level=True)
pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.slow]

EMPTY = "vllm/inputs vllm/sampling_params vllm/utils flash_attn/bert_padding flash_attn/utils/distributed"
ANY_NAME = """
def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return None
"""


@pytest.fixture(scope="module")
def without_gpu(tmp_path_factory) -> Path:
    """A folder with modules that need a GPU, empty."""
    folder = tmp_path_factory.mktemp("modules")
    for name in EMPTY.split():
        for part in [Path(name), *Path(name).parents][:-1]:
            (folder / part).mkdir(parents=True, exist_ok=True)
            (folder / part / "__init__.py").write_text(ANY_NAME)
    return folder


def output(code: list[str], folder: Path) -> str:
    """What a process with the empty modules prints."""
    done = subprocess.run(
        [sys.executable, *code],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_their_maker_has_our_advantages_and_its_own_penalty(without_gpu) -> None:
    script = str(Path(__file__).with_name("openrlhf_maker.py"))
    (line,) = re.findall("advantages: (.*)", output([script], without_gpu))
    # returns-to-go of the others' turns: 4, 7, 7; 1, 1, 7, 7; 1, 1, 4, 7
    assert json.loads(line) == [
        [1 - 6 - 1, 0, 1 - 6, 0],
        [4 - 4, 4 - 4, 0, 0],
        [7 - 13 / 4, 0, 0, 0],
        [7 - 13 / 4, 0, 0, 0],
    ]


SCRIPT = """
import ray
ray.init(
    num_cpus=1,
    include_dashboard=False,
    runtime_env={
        "worker_process_setup_hook": "arena_credit.hooks.openrlhf.install",
        "env_vars": {"ARENA_CREDIT": "mars_loo(discount=0.9)"},
    },
)

@ray.remote
def module():
    from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker
    return RemoteExperienceMaker.compute_advantages_and_returns.__module__

print("module:", ray.get(module.remote()))
"""


def test_the_setup_hook_reaches_the_workers_of_ray(without_gpu) -> None:
    printed = output(["-c", SCRIPT], without_gpu)
    assert "module: arena_credit.hooks.openrlhf" in printed
