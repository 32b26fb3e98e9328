"""Which adapters vLLM does not play; how it plays the others is in tests/engine."""

from types import SimpleNamespace

import pytest
from peft import LoraConfig, VeraConfig
from torch import nn

from arena_trainers.engines import with_adapters
from arena_trainers.lm.backends.vllm import check_vllm_adapter
from arena_trainers.matchmaking import make_matchmaker
from arena_trainers.runs.checks.preflight import check_lora

ENGINE = SimpleNamespace(
    use_vllm=True,
    vllm_mode="colocate",
    opponents="past_selves",
    roles={},
    agent="planner_worker",
    learner_starts=lambda model: [model],
    model_init_kwargs=None,
    deepspeed=None,
)
JOB = SimpleNamespace(lora_r=0, model="tiny", hidden_size=16, num_layers=1)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (LoraConfig(use_dora=True), "plain LoRA adapter for vLLM, got use_dora = True"),
        (LoraConfig(rank_pattern={"q_proj": 4}), "got rank_pattern = "),
        (LoraConfig(modules_to_save=["lm_head"]), "got modules_to_save = "),
        (LoraConfig(bias="all"), "got bias = 'all'"),
        (LoraConfig(init_lora_weights="pissa"), "got init_lora_weights = 'pissa'"),
        (LoraConfig(r=1024), "want a LoRA rank from 1 to 512 for vLLM, got 1024"),
        (VeraConfig(), "plain LoRA adapter for vLLM, got peft_type = "),
    ],
)
def test_adapters_that_vllm_plays_otherwise_than_peft_are_refused(config, message):
    with pytest.raises(ValueError, match=message):
        check_vllm_adapter(config)
    options = {"lora_alpha": 3, "use_rslora": True, "init_lora_weights": False}
    check_vllm_adapter(LoraConfig(r=16, target_modules=["q_proj"], **options))


@pytest.mark.parametrize("roles", [{}, {0: {}, 1: {}}])
def test_snapshots_and_learners_of_all_weights_are_refused(roles):
    message = "only where LoRA adapters are trained.*; give --lora r=16"
    given = SimpleNamespace(**{**vars(ENGINE), "roles": roles})
    with pytest.raises(ValueError, match=message):
        check_lora(JOB, given)
    past = make_matchmaker("past_selves")
    with (
        pytest.raises(ValueError, match=message),
        with_adapters(given, past, "folder", [None]),
    ):
        pytest.fail("an engine was built")
    check_lora(JOB, SimpleNamespace(**{**vars(ENGINE), "opponents": "random"}))


def test_an_adapter_that_vllm_does_not_play_names_its_role():
    roles = {"planner": {"lora_r": 8}, "worker": {"lora_r": 1024}}
    several = SimpleNamespace(
        **{**vars(ENGINE), "opponents": "self", "roles": roles}, sync_ref_model=False
    )
    check_lora(JOB, several)
    configs = [LoraConfig(r=8), LoraConfig(r=1024)]
    with (
        pytest.raises(ValueError, match=r"roles\['worker'\]: want a LoRA rank from 1"),
        with_adapters(several, None, "folder", configs),
    ):
        pytest.fail("an engine was built")


def test_a_model_without_a_folder_is_refused():
    past = make_matchmaker("past_selves")
    with (
        pytest.raises(ValueError, match=r"want the path of the model.*got a Linear"),
        with_adapters(ENGINE, past, nn.Linear(1, 1), [LoraConfig()]),
    ):
        pytest.fail("an engine was built")
