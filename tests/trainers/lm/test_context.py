"""A prompt with its reply stays inside of the model's context."""

import pytest
from transformers import GPT2Config, MambaConfig, Qwen3Config

import arena_envs
from arena_trainers import TurnGRPOConfig
from arena_trainers.lm import LMPolicy, context_length
from arena_trainers.lm.chat import chat_of
from arena_trainers.runs import check_context
from arena_trainers.train import GamePlan
from arena_wrappers import PromptWrapper, RandomPolicy, play


def yarn(**options):
    rope = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4, **options}
    return Qwen3Config(max_position_embeddings=100, rope_parameters=rope)


@pytest.mark.parametrize(
    ("config", "length"),
    [
        (GPT2Config(n_positions=640), 640),
        (Qwen3Config(max_position_embeddings=100), 100),
        (yarn(), 400),
        (yarn(original_max_position_embeddings=50), 200),
        (MambaConfig(), None),
    ],
)
def test_the_length_is_that_of_the_positions(config, length):
    assert context_length(config) == length


@pytest.fixture
def short(policy):
    """Makes the policy of a model with a short context."""

    def make(length, **options):
        config = policy.model.config
        config.max_position_embeddings = length
        return LMPolicy(policy.model, policy.tokenizer, max_new_tokens=4, **options)

    return make


def test_a_reply_is_cut_at_the_end_of_the_context_and_a_full_one_gets_none(short):
    prompts = [[5] * size for size in (3, 6, 7, 8, 9)]
    speaker, free = short(8), short(1000)
    replies = speaker.generate(prompts, range(5))
    wanted = free.generate(prompts, range(5))
    for reply, whole, most in zip(replies, wanted, (4, 2, 1), strict=False):
        assert list(reply.token_ids) == list(whole.token_ids)[:most]
        assert reply.truncated == (
            whole.truncated or len(reply.token_ids) < len(whole.token_ids)
        )
    assert [reply.instead for reply in replies[:3]] == [None] * 3
    assert [reply.instead for reply in replies[3:]] == ["context_length"] * 2
    assert replies[3].invalid.reason == "context_length"


def test_a_smaller_limit_of_an_engine_holds(short):
    assert short(1000, max_context=50).max_context == 50
    assert short(20, max_context=50).max_context == 20


def test_an_episode_that_outgrows_the_context_ends_with_invalid_turns(short):
    def env():
        inner = arena_envs.make("iterated_prisoners_dilemma")
        return PromptWrapper(
            inner, "bare", rules=False, history="transcript", on_invalid="random"
        )

    (episode,) = play(env, [short(60), RandomPolicy()], range(1))
    turns = [turn for turn in episode.turns if turn.seat == 0]
    assert episode.lost is None
    assert turns[0].invalid != "context_length"
    assert turns[-1].invalid == "context_length"
    assert turns[-1].detail == "The prompt is longer than the model's context."
    assert all(turn.action is not None for turn in turns)


def test_actions_that_do_not_fit_have_no_probability(short, kuhn_env):
    speaker = short(1000)
    asked = []

    class Spy(RandomPolicy):
        def act(self, requests):
            asked.extend(requests)
            return super().act(requests)

    play(kuhn_env, Spy(), range(1))
    size = len(speaker.prompt_ids(asked[0]))
    ((probs, illegal),) = speaker.action_probs(asked[:1])
    assert illegal < 1.0
    speaker.max_context = size + 1  # room for the end of the reply alone
    ((probs, illegal),) = speaker.action_probs(asked[:1])
    assert illegal == 1.0
    assert probs == pytest.approx([1 / len(probs)] * len(probs))


@pytest.fixture
def measured(settings, tokenizer):
    """Lines of the check of prompts before a run, for a context of so many tokens."""

    def check(limit, **options):
        args = TurnGRPOConfig(**{**settings, "history": "transcript", **options})
        return check_context(
            chat_of(tokenizer, args), limit, [GamePlan("kuhn_poker", args)], args
        )

    return check


def test_a_run_whose_prompts_must_outgrow_the_context_is_refused(measured):
    with pytest.raises(
        ValueError, match=r"kuhn_poker that leave room in the context of 9 tokens, got"
    ):
        measured(9)


def test_a_run_whose_prompts_may_outgrow_the_context_says_in_how_many(measured):
    """The first seat reads a second prompt where the other one bets."""
    (line,) = measured(30)
    assert "random episodes of kuhn_poker prompts outgrow the context of 30" in line


def test_replies_that_the_context_cuts_are_announced(measured):
    (line,) = measured(100, max_completion_length=90)
    assert "before max_completion_length 90" in line
    assert measured(10_000) == []
    assert measured(None) == []
