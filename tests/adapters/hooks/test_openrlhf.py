"""OpenRLHF: its experience maker with our advantages, here and in a worker of Ray.

Its engine vLLM and its kernels of flash-attn need a GPU: empty modules stand for them.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

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


def test_their_maker_has_our_advantages_and_its_own_penalty(
    without_gpu, monkeypatch
) -> None:
    monkeypatch.syspath_prepend(without_gpu)
    import torch
    from openrlhf.trainer.ppo_utils import experience_maker
    from openrlhf.trainer.ppo_utils.experience import Experience

    from arena_credit.hooks.openrlhf import use

    use("mars_loo")
    use("mars_loo")  # once more changes nothing
    args = SimpleNamespace(
        algo=SimpleNamespace(
            advantage=SimpleNamespace(
                estimator="reinforce", gamma=1.0, no_std_norm=False
            )
        ),
        rollout=SimpleNamespace(n_samples_per_prompt=2),
        reward=SimpleNamespace(
            clip_range=None, overlong_buffer_len=None, stop_properly_penalty_coef=None
        ),
    )
    maker = object.__new__(experience_maker.RemoteExperienceMaker)
    maker.strategy = SimpleNamespace(args=args)
    maker.advantage_estimator = "reinforce"
    maker.kl_ctl = SimpleNamespace(value=0.5)
    monkeypatch.setattr(experience_maker, "apply_length_penalties", lambda *_: None)

    def made(index: int, reward: float, mask: list[int], kl: list[float]) -> Any:
        return Experience(
            index=[index],
            rewards=torch.tensor([reward]),
            action_mask=torch.tensor([mask]),
            kl=torch.tensor([kl]),
            info={},
        )

    # the second row of the prompt comes first; its first turn is penalized by 0.5 · 2
    experiences = [
        made(1, 1.0, [1, 0, 1, 0], [2.0, 0, 0, 0]),
        made(0, 4.0, [1, 1, 0, 0], [0.0, 0, 0, 0]),
        made(2, 7.0, [1, 0, 0, 0], [0.0, 0, 0, 0]),
        made(3, 7.0, [1, 0, 0, 0], [0.0, 0, 0, 0]),
    ]
    made_again = maker.compute_advantages_and_returns(experiences)
    found = [(e.advantages * e.action_mask)[0].tolist() for e in made_again]
    # returns-to-go of the others' turns: 4, 7, 7; 1, 1, 7, 7; 1, 1, 4, 7
    assert found == [
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
    env = {**os.environ, "PYTHONPATH": str(without_gpu)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert "module: arena_credit.hooks.openrlhf" in done.stdout, done.stderr[-2000:]
