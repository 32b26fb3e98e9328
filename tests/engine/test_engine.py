"""`use_vllm` on a CPU: log-probabilities, weights, seeds, and what stays with transformers."""

import itertools

import pytest

from arena_trainers.extras import is_installed

if not is_installed("vllm"):
    pytest.skip(
        "needs vLLM in an environment of its own: make engine", allow_module_level=True
    )

import torch
from trl.generation.vllm_generation import VLLMGeneration

import arena_envs
from arena_wrappers import PromptOptions, PromptWrapper, RandomPolicy, play

pytestmark = pytest.mark.filterwarnings("default")  # vLLM and what it imports warn
SHORT = PromptOptions("bare", rules=False)
DIFFERENCE = "sampling/sampling_logp_difference/max"


def prompts_of(policy, num_episodes=20):
    env = PromptWrapper(arena_envs.make("kuhn_poker"), "bare", rules=False)
    episodes = play(lambda: env, RandomPolicy(), range(num_episodes))
    return [policy.encode(turn.messages) for e in episodes for turn in e.turns]


def trained(trainer):
    """The logged metrics of each step of training."""
    trainer.train()
    return [record for record in trainer.state.log_history if "loss" in record]


def check_in_step(records):
    """Engine and loss agree on every log-probability, also after the weights moved."""
    assert len(records) == 4
    assert records[0]["grad_norm"] > 0.1
    assert all(record[DIFFERENCE] < 1e-5 for record in records), [
        record[DIFFERENCE] for record in records
    ]


def assert_logprobs_of_the_loss(policy, replies):
    for reply in replies:
        ids = torch.tensor([[*reply.prompt_ids, *reply.token_ids]])
        with torch.no_grad():
            logits = policy.model(input_ids=ids).logits[0].log_softmax(dim=-1)
        start = len(reply.prompt_ids) - 1
        expected = [float(logits[start + i, t]) for i, t in enumerate(reply.token_ids)]
        assert list(reply.logprobs) == pytest.approx(expected, abs=1e-5)


def test_the_engine_has_the_weights_before_it_plays(make_trainer):
    """Log-probabilities, ratios and the policy after the last step are those of the model."""
    trainer = make_trainer()
    records = trained(trainer)
    check_in_step(records)
    for record in records:
        for bound in ("min", "max"):
            ratio = record[f"sampling/importance_sampling_ratio/{bound}"]
            assert ratio == pytest.approx(1, abs=1e-4)
    prompts = prompts_of(trainer.policy)
    replies = trainer.policy.generate(prompts, range(len(prompts)))
    assert_logprobs_of_the_loss(trainer.policy, replies)


def test_without_the_weights_the_check_fails(make_trainer, monkeypatch):
    """The mutant of the test above: the engine keeps the weights that it began with."""
    trainer = make_trainer()
    monkeypatch.setattr(VLLMGeneration, "sync_weights", lambda self: None)
    records = trained(trainer)
    assert records[0][DIFFERENCE] < 1e-5
    assert all(record[DIFFERENCE] > 1e-2 for record in records[1:])
    with pytest.raises(AssertionError):
        check_in_step(records)


def test_weights_that_come_after_play_are_too_late(make_trainer):
    """As TRL does it by itself: play would be a step behind."""
    trainer = make_trainer()
    trainer.policy.backend.inner.refresh = lambda: None
    assert all(record[DIFFERENCE] > 1e-2 for record in trained(trainer)[1:])


def test_rows_of_several_turns_carry_their_logprobs(make_trainer):
    trainer = make_trainer(layout="trajectory", history="transcript")
    assert trainer.args.vllm_importance_sampling_mode == "token_truncate"
    check_in_step(trained(trainer))
    several = [
        row for row in trainer._rows if 0 in row.loss_mask and any(row.loss_mask)
    ]
    assert several
    for row in several:
        zero = [x == 0 for x in row.logprobs]
        assert zero == [not own for own in row.loss_mask]


def test_an_adapter_is_merged_into_what_the_engine_plays(make_trainer):
    from peft import LoraConfig

    lora = LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM")
    trainer = make_trainer(peft_config=lora)
    check_in_step(trained(trainer))


def test_an_opponents_adapter_plays_beside_the_engine(make_trainer, folder, tmp_path):
    """Of the same base as the learner's, it is swapped in and out between replies."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    options = {"r": 4, "target_modules": "all-linear", "task_type": "CAUSAL_LM"}
    model = AutoModelForCausalLM.from_pretrained(folder)
    other = get_peft_model(model, LoraConfig(**options, init_lora_weights=False))
    other.save_pretrained(tmp_path / "other")
    spec = f"lm:{tmp_path / 'other'}"
    trainer = make_trainer(
        peft_config=LoraConfig(**options), opponents=["self", spec], num_generations=8
    )
    assert trainer.games.opponents[spec].model is trainer.policy.model
    check_in_step(trained(trainer))


def test_replies_do_not_depend_on_the_batch(make_trainer):
    policy = make_trainer().policy
    prompts = prompts_of(policy)
    together = policy.generate(prompts, range(len(prompts)))
    apart = [policy.generate([p], [seed])[0] for seed, p in enumerate(prompts)]
    assert [r.token_ids for r in together] == [r.token_ids for r in apart]
    assert len({tuple(r.token_ids) for r in together}) > 10
    again = policy.generate(prompts[:1] * 20, range(20))
    assert len({tuple(r.token_ids) for r in again}) > 5
    assert {r.truncated for r in together} == {True, False}
    assert_logprobs_of_the_loss(policy, together)


def test_action_probabilities_and_exact_figures_are_of_the_transformers_model(
    make_trainer,
):
    from arena_trainers.evaluate import tabular
    from arena_trainers.lm.policy import LMPolicy

    trainer = make_trainer(max_steps=1)
    trainer.train()
    game = arena_envs.make_game("kuhn_poker")
    plain = LMPolicy(trainer.model, trainer.policy.tokenizer, max_new_tokens=3)
    found, illegal = tabular(trainer.policy, game, SHORT)
    expected, other = tabular(plain, game, SHORT)
    assert illegal == pytest.approx(other)
    for key, row in expected.items():
        assert list(found[key]) == pytest.approx(list(row))


def test_both_backends_draw_from_the_same_distribution(make_trainer):
    """First tokens of 2,000 replies of each: within 4 standard errors of a difference."""
    from arena_trainers.lm.policy import LMPolicy

    policy = make_trainer().policy
    plain = LMPolicy(policy.model, policy.tokenizer, max_new_tokens=1)
    prompts = prompts_of(policy, 1)[:1] * 2000
    firsts = [
        [reply.token_ids[0] for reply in one.generate(prompts, range(2000))]
        for one in (policy, plain)
    ]
    for token in set(itertools.chain(*firsts)):
        a, b = (first.count(token) / 2000 for first in firsts)
        share = (a + b) / 2
        assert abs(a - b) <= 4 * (share * (1 - share) * 2 / 2000) ** 0.5


def test_a_difference_in_precision_is_warned_about_once(make_trainer):
    with pytest.warns(UserWarning, match="vLLM generates in float32") as caught:
        make_trainer(bf16=True)
    assert sum("vLLM generates" in str(w.message) for w in caught) == 1
