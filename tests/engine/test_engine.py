"""`use_vllm` on a CPU: log-probabilities, weights, seeds, and what stays with transformers."""

import itertools

import pytest

from arena_envs.extras import is_installed

if not is_installed("vllm"):
    pytest.skip(
        "needs vLLM in an environment of its own: make engine", allow_module_level=True
    )

from trl.generation.vllm_generation import VLLMGeneration

import arena_envs

pytestmark = pytest.mark.filterwarnings("default")  # vLLM and what it imports warn


def test_the_engine_has_the_weights_before_it_plays(make_trainer, played):
    played.check_trained_weights_play(make_trainer())


def test_without_the_weights_the_check_fails(make_trainer, played, monkeypatch):
    """The mutant of the test above: the engine keeps the weights that it began with."""
    trainer = make_trainer()
    monkeypatch.setattr(VLLMGeneration, "sync_weights", lambda self: None)
    played.check_first_weights_stay(played.trained(trainer))


def test_weights_that_come_after_play_are_too_late(make_trainer, played):
    """As TRL does it by itself: play would be a step behind."""
    trainer = make_trainer()
    trainer.policy.backend.inner.refresh = lambda: None
    records = played.trained(trainer)[1:]
    assert all(record[played.DIFFERENCE] > 1e-2 for record in records)


def test_rows_of_several_turns_carry_their_logprobs(make_trainer, played):
    trainer = make_trainer(layout="trajectory", history="transcript")
    assert trainer.args.vllm_importance_sampling_mode == "token_truncate"
    played.check_in_step(played.trained(trainer))
    several = [
        row for row in trainer._rows if 0 in row.loss_mask and any(row.loss_mask)
    ]
    assert several
    for row in several:
        zero = [x == 0 for x in row.logprobs]
        assert zero == [not own for own in row.loss_mask]


def test_an_adapter_is_merged_into_what_the_engine_plays(make_trainer, played):
    from peft import LoraConfig

    lora = LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM")
    trainer = make_trainer(peft_config=lora)
    played.check_in_step(played.trained(trainer))


def test_an_opponents_adapter_plays_beside_the_engine(
    make_trainer, played, folder, tmp_path
):
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
    played.check_in_step(played.trained(trainer))


def test_replies_do_not_depend_on_the_batch(make_trainer, played):
    policy = make_trainer().policy
    played.check_replies_apart(policy)
    prompts = played.prompts_of(policy)
    again = policy.generate(prompts[:1] * 20, range(20))
    assert len({tuple(r.token_ids) for r in again}) > 5


def test_records_are_those_of_lockstep(make_trainer, played):
    """Turns of different episodes do not wait for each other, and nothing else changes."""
    from arena_wrappers import PromptWrapper, play_plans
    from arena_wrappers.play import plans_of
    from arena_wrappers.play.schedule import Scheduler, _numbered

    policy = make_trainer().policy
    env = PromptWrapper(
        arena_envs.make("kuhn_poker"), "bare", rules=False, on_invalid="random"
    )
    plans = plans_of(lambda: env, [policy, policy], range(12), [0])
    continuous, llm = play_plans(plans), policy.backend.inner.requests.llm
    assert not llm.llm_engine.has_unfinished_requests()
    lockstep = _numbered(dict(Scheduler(None, None).in_lockstep(plans, None)))
    for episode, other in zip(continuous, lockstep, strict=True):
        assert [t.token_ids for t in episode.turns] == [
            t.token_ids for t in other.turns
        ]


def test_the_engines_own_random_numbers_repeat_no_reply(make_trainer, played):
    policy = make_trainer(seeds="engine").policy
    prompts = played.prompts_of(policy)
    first, second = (policy.generate(prompts, range(len(prompts))) for _ in range(2))
    assert [r.token_ids for r in first] != [r.token_ids for r in second]
    played.assert_logprobs_of_the_loss(policy, second)


def test_action_probabilities_and_exact_figures_are_of_the_transformers_model(
    make_trainer, played
):
    from arena_eval import tabular
    from arena_trainers.lm import LMPolicy

    trainer = make_trainer(max_steps=1)
    trainer.train()
    game = arena_envs.make_game("kuhn_poker")
    plain = LMPolicy(trainer.model, trainer.policy.tokenizer, max_new_tokens=3)
    found, illegal = tabular(trainer.policy, game, played.SHORT)
    expected, other = tabular(plain, game, played.SHORT)
    assert illegal == pytest.approx(other)
    for key, row in expected.items():
        assert list(found[key]) == pytest.approx(list(row))


def test_both_backends_draw_from_the_same_distribution(make_trainer, played):
    """First tokens of 2,000 replies of each: within 4 standard errors of a difference."""
    from arena_trainers.lm import LMPolicy

    policy = make_trainer().policy
    plain = LMPolicy(policy.model, policy.tokenizer, max_new_tokens=1)
    prompts = played.prompts_of(policy, 1)[:1] * 2000
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
