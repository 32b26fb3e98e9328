"""Snapshots of an adapter play in the learner's engine, each as an adapter of its own."""

import pytest
import torch

from arena_envs.extras import is_installed

if not is_installed("vllm"):
    pytest.skip(
        "needs vLLM in an environment of its own: make engine", allow_module_level=True
    )

from peft import LoraConfig

from arena_trainers.lm.backends.vllm import EngineAdapters

pytestmark = pytest.mark.filterwarnings("default")  # vLLM and what it imports warn

MAX_LIVE = 2


@pytest.fixture
def matched(make_trainer):
    """Makes trainers of an adapter against its past selves."""

    def make(**overrides):
        past = {"past_selves": {"every": 1, "max_live": MAX_LIVE}}
        lora = LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM")
        return make_trainer(peft_config=lora, **{"opponents": past, **overrides})

    return make


@pytest.fixture
def requests(monkeypatch):
    """The requests of all adapters that were loaded, and what the engine held after each."""
    found, put = [], EngineAdapters.put

    def listening(self, name, weights):
        request = put(self, name, weights)
        found.append((request, self.requests.llm.llm_engine.list_loras()))
        return request

    monkeypatch.setattr(EngineAdapters, "put", listening)
    return found


def said(policy, prompts):
    replies = policy.generate(prompts, range(len(prompts)))
    return [(r.token_ids, r.logprobs) for r in replies]


def test_learner_and_snapshots_generate_in_one_engine(matched, played, requests):
    trainer = matched()
    played.check_in_step(played.trained(trainer))  # so the learner plays itself
    learner, store = trainer.policy, trainer.matching.store
    prompts = played.prompts_of(learner)
    alone = said(learner, prompts)
    assert sorted(store.steps) == [0, 1, 2, 3]
    for step in (0, 1, 2, 3, 0):  # more than are live: some are loaded again
        (past,) = trainer.matching.policies((f"self@{step}",))
        replies = past.generate(prompts, range(len(prompts)))
        with past.context():
            played.assert_logprobs_of_the_loss(past, replies)
        with pytest.raises(AssertionError):  # the learner's weights are others
            played.assert_logprobs_of_the_loss(learner, replies)
        assert said(learner, prompts) == alone
    numbers = [request.lora_int_id for request, _ in requests]
    assert numbers == list(range(1, len(requests) + 1))
    assert len({request.lora_name for request, _ in requests}) == len(requests)
    assert all(len(held) <= MAX_LIVE + 1 for _, held in requests)
    engine = store.adapters.requests.llm.llm_engine
    names = ["self", *(f"self@{step}" for step in store._live)]
    held = {store.adapters.get(name).lora_int_id for name in names}
    assert engine.list_loras() == held
    store.keep([], [])
    assert engine.list_loras() == {store.adapters.get("self").lora_int_id}
    assert said(learner, prompts) == alone


def test_a_resumed_run_ends_with_the_same_weights(matched, tmp_path):
    options = {"max_steps": 3, "save_strategy": "steps", "save_steps": 2}
    whole = matched(output_dir=str(tmp_path / "whole"), **options)
    whole.train()
    resumed = matched(output_dir=str(tmp_path / "resumed"), **options)
    resumed.train(resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-2"))
    found = resumed.model.state_dict()
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(found[name], tensor), name
