"""A tiny model, and trainers whose learner is played by vLLM."""

import runpy
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def _cpu_engine():
    path = Path(__file__).with_name("on_cpu.py")
    runpy.run_path(str(path))["prepare"]()
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A saved model with heads of 32 numbers: vLLM on a CPU knows none of 16."""
    import arena_envs
    from arena_trainers.job.tiny import tiny_model, tiny_tokenizer, words_of
    from arena_trainers.lm.policy import LMPolicy
    from arena_wrappers import PromptOptions

    short = PromptOptions("bare", rules=False)
    tokenizer = tiny_tokenizer(words_of(arena_envs.make_game("kuhn_poker"), short))
    model = tiny_model(tokenizer, hidden_size=128, num_layers=1, seed=1)
    path = tmp_path_factory.mktemp("model")
    LMPolicy(model, tokenizer, prompt=short, max_new_tokens=3).save_pretrained(path)
    return path


@pytest.fixture
def make_trainer(folder, tmp_path):
    """Makes trainers with `use_vllm`; options override the settings."""
    from arena_trainers import TurnGRPOConfig, TurnGRPOTrainer

    settings = {
        "output_dir": str(tmp_path / "out"),
        "rules": False,
        "reply_format": "bare",
        "max_completion_length": 3,
        "on_invalid": "random",
        "max_steps": 4,
        "episodes_per_step": 16,
        "num_generations": 4,
        "learning_rate": 1e-2,
        "bf16": False,
        "gradient_checkpointing": False,
        "use_cpu": True,
        "report_to": "none",
        "disable_tqdm": True,
        "save_strategy": "no",
        "logging_steps": 1,
        "seed": 3,
        "use_vllm": True,
        "vllm_max_model_length": 512,
        "vllm_gpu_memory_utilization": 0.1,
    }

    def make(peft_config=None, **overrides):
        args = TurnGRPOConfig(**{**settings, **overrides})
        return TurnGRPOTrainer(str(folder), args, peft_config=peft_config)

    return make
