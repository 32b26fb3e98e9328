"""Several learners in one engine: each role, or seat, samples from its own adapter."""

import copy
from dataclasses import replace

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

SEATS = {0: {"lora_r": 4}, 1: {"lora_r": 2}}
LORA = {"r": 4, "lora_alpha": 8, "target_modules": "all-linear"}


def players(trainer):
    """The policy of each learner, by name."""
    return trainer.matching.learner.models


def greedy(policy):
    """The policy at temperature 0, by the engine and by transformers."""
    cold = copy.copy(policy)
    cold.sampling = replace(policy.sampling, temperature=0.0)
    plain = copy.copy(cold)
    plain.run_on(policy.model, policy.context)
    return cold, plain


def check_own_adapter(trainer, name, played):
    """Replies have the log-probabilities of the learner's adapter, and of no other."""
    policy, others = players(trainer)[name], {*players(trainer)} - {name}
    prompts = played.prompts_of(policy)
    replies = policy.generate(prompts, range(len(prompts)))
    with policy.context():
        played.assert_logprobs_of_the_loss(policy, replies)
    for other in others:
        with players(trainer)[other].context(), pytest.raises(AssertionError):
            played.assert_logprobs_of_the_loss(policy, replies)
    for cold, plain in [greedy(policy)]:
        found, expected = (
            p.generate(prompts, range(len(prompts))) for p in (cold, plain)
        )
        assert [r.token_ids for r in found] == [r.token_ids for r in expected]
    return [r.token_ids for r in found]


def test_each_learner_samples_from_its_own_adapter(make_trainer, played):
    """Before training, where a difference is planted, and after it."""
    trainer = make_trainer(roles=SEATS)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for p in trainer.learners.weights[1]:
            p += 0.1 * torch.randn(p.shape, generator=generator)
    first = {
        name: check_own_adapter(trainer, name, played) for name in players(trainer)
    }
    assert first["seat_0"] != first["seat_1"]
    before = [[p.detach().clone() for p in own] for own in trainer.learners.weights]
    played.check_in_step(played.trained(trainer))
    for old, own in zip(before, trainer.learners.weights, strict=True):
        assert not all(map(torch.equal, old, own))
    for name in players(trainer):
        check_own_adapter(trainer, name, played)
    engine = trainer.vllm_generation.llm.llm_engine
    adapters = trainer.policy.backend.inner.adapters
    held = {adapters.get(name).lora_int_id for name in players(trainer)}
    assert len(held) == 2
    assert engine.list_loras() == held


def test_an_adapter_that_stays_behind_is_noticed(make_trainer, played, monkeypatch):
    """The mutant of the test above: the engine keeps the first weights of one seat."""
    put = EngineAdapters.put

    def once(self, name, weights):
        kept = self.get(name) if name == "seat_1" else None
        return kept or put(self, name, weights)

    monkeypatch.setattr(EngineAdapters, "put", once)
    played.check_first_weights_stay(played.trained(make_trainer(roles=SEATS)))


def test_a_resumed_run_ends_with_the_same_weights(make_trainer, tmp_path):
    """Of an agent whose roles train in turn."""
    roles = {"planner": {"lora_r": 2}, "worker": {"lora_r": 4}}
    options = {"roles": roles, "agent": "planner_worker", "max_steps": 3}
    options |= {"save_strategy": "steps", "save_steps": 2, "update": {"alternate": 2}}
    whole = make_trainer(output_dir=str(tmp_path / "whole"), **options)
    whole.train()
    resumed = make_trainer(output_dir=str(tmp_path / "resumed"), **options)
    resumed.train(resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-2"))
    found = resumed.model.state_dict()
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(found[name], tensor), name


def test_one_learner_trains_as_a_run_with_one_adapter(make_trainer, played):
    """There TRL merges the adapter into the engine's weights."""
    options = {"opponents": ["self", "random"], "max_steps": 2}
    lora = LoraConfig(**LORA, task_type="CAUSAL_LM")
    plain = make_trainer(peft_config=lora, **options)
    own = make_trainer(roles={0: {"lora_r": 4}}, **options)
    for trainer in (plain, own):
        played.check_in_step(played.trained(trainer), 2)
    (mine,) = own.learners.weights
    theirs = [p for n, p in plain.model.named_parameters() if "lora_" in n]
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=0)
