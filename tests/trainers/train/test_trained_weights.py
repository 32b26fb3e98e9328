"""Weights that are trained are float32, and a log says which share of them moved."""

import pytest
import torch
from transformers import TrainerControl, TrainerState

from arena_trainers.lm import lora_config
from arena_trainers.runs import load_recipe
from arena_trainers.runs.checks.preflight import check
from arena_trainers.train.trained_weights import MOVED, MovedWeights, prepare_weights

HALF = {"model_init_kwargs": {"dtype": "bfloat16"}, "bf16": True}


def moved_by_adamw(dtype, learning_rate):
    """The figures after a step of AdamW on weights of 0.02."""
    model = torch.nn.Linear(64, 64, bias=False).to(dtype)
    torch.nn.init.constant_(model.weight, 0.02)
    moved, optimizer = MovedWeights(model), torch.optim.AdamW(model.parameters())
    optimizer.param_groups[0]["lr"] = learning_rate
    event = None, TrainerState(), TrainerControl()
    moved.on_train_begin(*event)
    model(torch.ones(1, 64, dtype=dtype)).sum().backward()
    optimizer.step()
    moved.on_optimizer_step(*event, optimizer=optimizer)
    return moved.figures()


def test_an_update_of_one_millionth_moves_float32_and_not_bfloat16():
    assert moved_by_adamw(torch.float32, 1e-6) == {MOVED: 1.0}
    with pytest.warns(UserWarning, match="0.00% of the trained weights"):
        assert moved_by_adamw(torch.bfloat16, 1e-6) == {MOVED: 0.0}


def test_a_step_without_learning_rate_counts_nothing():
    assert moved_by_adamw(torch.float32, 0.0) == {}


def test_weights_that_are_trained_in_half_precision_are_refused(make_trainer):
    with pytest.raises(ValueError, match=r"got bfloat16.*--lora r=16.*dtype: float32"):
        make_trainer(**HALF)


def test_all_weights_move_at_the_learning_rate_of_full_tuning(make_trainer):
    trainer = make_trainer(bf16=True, learning_rate=1e-6, max_steps=2, logging_steps=1)
    trainer.train()
    shares = [logs[MOVED] for logs in trainer.state.log_history if "loss" in logs]
    assert len(shares) == 2
    assert min(shares) > 0.9


def test_an_adapter_and_the_network_of_values_are_float32_on_a_half_base(make_trainer):
    trainer = make_trainer(
        **HALF,
        peft_config=lora_config(4, None, ["all-linear"]),
        credit="gae",
        critic="tokens",
        within_turn="values",
    )
    weights = list(trainer.model.named_parameters())
    trained = {weight.dtype for _, weight in weights if weight.requires_grad}
    frozen = {weight.dtype for _, weight in weights if not weight.requires_grad}
    values = {weight.dtype for weight in trainer.tokens.network.parameters()}
    assert (trained, frozen, values) == (
        {torch.float32},
        {torch.bfloat16},
        {torch.float32},
    )


def test_an_adapter_in_half_precision_becomes_float32(policy):
    from peft import get_peft_model

    model = get_peft_model(policy.model, lora_config(4, None, ["all-linear"]))
    model.to(torch.bfloat16)  # as TRL makes it of a quantized model
    prepare_weights(model, 1e-4)
    for name, weight in model.named_parameters():
        is_adapter = "lora_" in name
        assert weight.dtype == (torch.float32 if is_adapter else torch.bfloat16)


@pytest.mark.parametrize("roles", [{}, {0: {}, 1: {}}])
def test_the_preflight_refuses_half_precision_without_an_adapter(roles, tmp_path):
    full = {"lora_r": 0, "lora_alpha": None, "learning_rate": 1e-6, "roles": roles}
    given = load_recipe("qwen3-0.6b") | full | {"use_vllm": False, "model": "tiny"}
    given |= {"warm_start_steps": 0, "on_invalid": "random", "use_cpu": True}
    with pytest.raises(ValueError, match=r"got bfloat16, which rounds .* of 1e-06"):
        check(given, tmp_path / "run", resume=False)
    given["model_init_kwargs"] = {"dtype": "float32"}
    check(given, tmp_path / "run", resume=False)
