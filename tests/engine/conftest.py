"""A tiny model, and trainers whose learner is played by vLLM."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="session", autouse=True)
def _cpu_engine():
    runpy.run_path(str(HERE / "on_cpu.py"))["prepare"]()


@pytest.fixture(scope="session")
def played():
    """What tests of an engine and of a server share."""
    return SimpleNamespace(**runpy.run_path(str(HERE.with_name("played_by_vllm.py"))))


@pytest.fixture(scope="session")
def folder(played, tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    played.save_model(path)
    return path


@pytest.fixture
def make_trainer(played, folder, tmp_path):
    """Makes trainers with `use_vllm`; options override the settings."""
    from arena_trainers import TurnGRPOConfig, TurnGRPOTrainer

    own = {"output_dir": str(tmp_path / "out"), **played.IN_TESTS}
    own |= {"vllm_max_model_length": 512, "vllm_gpu_memory_utilization": 0.1}

    def make(peft_config=None, **overrides):
        args = TurnGRPOConfig(**{**played.SETTINGS, **own, **overrides})
        return TurnGRPOTrainer(str(folder), args, peft_config=peft_config)

    return make
