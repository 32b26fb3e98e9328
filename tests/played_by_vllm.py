"""A tiny model, settings and checks for tests whose learner is played by vLLM."""

import pytest
import torch

import arena_envs
from arena_trainers.lm import LMPolicy
from arena_trainers.runs import tiny_model, tiny_tokenizer, words_of
from arena_wrappers import PromptOptions, PromptWrapper, RandomPolicy, play

SHORT = PromptOptions("bare", rules=False)
DIFFERENCE = "sampling/sampling_logp_difference/max"
SETTINGS = {
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
    "logging_steps": 1,
    "seed": 3,
    "use_vllm": True,
}
IN_TESTS = {"disable_tqdm": True, "save_strategy": "no"}


def save_model(path):
    """Saves a model with heads of 32 numbers: vLLM on a CPU knows none of 16."""
    torch.set_num_threads(1)
    tokenizer = tiny_tokenizer(words_of(arena_envs.make_game("kuhn_poker"), SHORT))
    model = tiny_model(tokenizer, hidden_size=128, num_layers=1, seed=1)
    LMPolicy(model, tokenizer, prompt=SHORT, max_new_tokens=3).save_pretrained(path)


def trained(trainer):
    """The logged metrics of each step of training."""
    trainer.train()
    return steps_of(trainer.state.log_history)


def steps_of(log):
    return [record for record in log if "loss" in record]


def check_in_step(records, num_steps=4):
    """vLLM and the loss agree on every log-probability, also after the weights moved."""
    assert len(records) == num_steps
    assert records[0]["grad_norm"] > 0.1
    assert all(record[DIFFERENCE] < 1e-5 for record in records), [
        record[DIFFERENCE] for record in records
    ]


def check_trained_weights_play(trainer):
    """Log-probabilities, ratios and the policy after the last step are those of the model."""
    records = trained(trainer)
    check_in_step(records)
    for record in records:
        for bound in ("min", "max"):
            ratio = record[f"sampling/importance_sampling_ratio/{bound}"]
            assert ratio == pytest.approx(1, abs=1e-4)
    prompts = prompts_of(trainer.policy)
    replies = trainer.policy.generate(prompts, range(len(prompts)))
    assert_logprobs_of_the_loss(trainer.policy, replies)


def check_first_weights_stay(records):
    """Of a mutant that skips the weights: the check above fails from step 2 on."""
    assert records[0][DIFFERENCE] < 1e-5
    assert all(record[DIFFERENCE] > 1e-2 for record in records[1:])
    with pytest.raises(AssertionError):
        check_in_step(records)


def check_replies_apart(policy):
    """Replies do not depend on the batch."""
    prompts = prompts_of(policy)
    together = policy.generate(prompts, range(len(prompts)))
    apart = [policy.generate([p], [seed])[0] for seed, p in enumerate(prompts)]
    assert [r.token_ids for r in together] == [r.token_ids for r in apart]
    assert len({tuple(r.token_ids) for r in together}) > 10
    assert {r.truncated for r in together} == {True, False}
    assert_logprobs_of_the_loss(policy, together)


def prompts_of(policy, num_episodes=20):
    env = PromptWrapper(arena_envs.make("kuhn_poker"), "bare", rules=False)
    episodes = play(lambda: env, RandomPolicy(), range(num_episodes))
    return [policy.encode(turn.messages) for e in episodes for turn in e.turns]


def assert_logprobs_of_the_loss(policy, replies):
    for reply in replies:
        ids = torch.tensor([[*reply.prompt_ids, *reply.token_ids]])
        with torch.no_grad():
            logits = policy.model(input_ids=ids).logits[0].log_softmax(dim=-1)
        start = len(reply.prompt_ids) - 1
        expected = [float(logits[start + i, t]) for i, t in enumerate(reply.token_ids)]
        assert list(reply.logprobs) == pytest.approx(expected, abs=1e-5)
