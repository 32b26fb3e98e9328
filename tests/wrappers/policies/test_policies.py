"""Policies: what they answer follows from the request alone."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import arena_envs
from arena_wrappers import (
    FORMATS,
    BotPolicy,
    PromptOptions,
    PromptWrapper,
    RandomPolicy,
    Reply,
    ScriptedPolicy,
    TurnRequest,
    make_policy,
    messages,
    parse_reply,
    play,
    turn_seed,
)
from arena_wrappers.policies.prompted import with_prompt
from arena_wrappers.policies.protocol import is_async, own_prompt
from arena_wrappers.prompts import legal_texts


def request_of(game, state, seed=0, turn=0, reply_format="answer"):
    seat = game.current_player(state)
    return TurnRequest(
        episode=0,
        turn=turn,
        seat=seat,
        game=game,
        state=state,
        messages=messages(game, state, seat, PromptOptions(reply_format)),
        context_ids=(),
        legal=legal_texts(game, state),
        seed=seed,
        reply_format=reply_format,
    )


@pytest.mark.parametrize("reply_format", FORMATS)
def test_random_replies_are_legal_and_follow_from_the_seed(game, walk, reply_format):
    requests = [
        request_of(game, state, seed, reply_format=reply_format)
        for seed, state in enumerate(walk(game, 0))
    ]
    policy = RandomPolicy()
    replies = policy.act(requests)
    assert policy.act(requests[::-1]) == replies[::-1]
    assert [policy.act([request])[0] for request in requests] == replies
    for request, reply in zip(requests, replies, strict=True):
        outcome = parse_reply(game, request.state, reply.text, reply_format)
        assert game.action_text(request.state, outcome) in request.legal


def test_random_play_is_uniform(tolls):
    state = tolls.apply(tolls.initial_state(), 0)
    requests = [request_of(tolls, state, seed) for seed in range(3000)]
    counts = Counter(reply.text for reply in RandomPolicy().act(requests))
    assert len(counts) == 3
    assert all(abs(count - 1000) < 120 for count in counts.values())  # 4.6 deviations
    assert RandomPolicy().action_probs(requests[:1]) == [([1 / 3] * 3, 0.0)]


def test_a_script_is_said_word_for_word(tolls):
    state = tolls.apply(tolls.initial_state(), 0)
    policy = ScriptedPolicy(["first", "second"], name="parrot")
    requests = [request_of(tolls, state, turn=turn) for turn in (1, 0)]
    assert policy.act(requests) == [Reply("second"), Reply("first")]
    assert policy.name == "parrot"
    with pytest.raises(IndexError, match="for turn 2, got a script of 2 replies"):
        policy.act([request_of(tolls, state, turn=2)])
    spoken = ScriptedPolicy(lambda request: f"seat {request.seat}")
    assert spoken.act(requests[:1]) == [Reply("seat 0")]


def test_a_bot_reads_states_and_draws_from_the_seed(game, walk):
    def bot(game, state, rng):
        return rng.choice(game.legal_actions(state))

    for seed, state in enumerate(walk(game, 3)):
        request = request_of(game, state, seed)
        (reply,) = BotPolicy(bot).act([request])
        want = random.Random(seed).choice(game.legal_actions(state))
        assert parse_reply(game, state, reply.text) == want


def test_seeds_of_turns_differ_in_every_argument():
    seeds = {
        turn_seed(seed, sample, turn, seat)
        for seed in (0, 1, 2**63, 2**64 - 1)
        for sample in range(3)
        for turn in range(3)
        for seat in range(3)
    }
    assert len(seeds) == 4 * 27
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_policies_have_names():
    assert isinstance(make_policy("random"), RandomPolicy)
    with pytest.raises(ValueError, match="no policy 'radom'; did you mean 'random'"):
        make_policy("radom")


def test_a_policy_of_a_module_needs_replies():
    with pytest.raises(ValueError, match="lacks a method act, got Event"):
        make_policy("threading:Event")


def test_a_function_of_a_module_is_a_policy(tmp_path, monkeypatch):
    code = "def choose(request):\n    return request.wrap(request.legal[0])\n"
    (tmp_path / "moves_of_mine.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    policy = make_policy("moves_of_mine:choose")
    (episode,) = play("kuhn_poker", [policy, "random"], [0])
    first = episode.turns[0]
    assert (first.policy, first.action) == ("moves_of_mine:choose", 0)


def test_a_request_wraps_an_answer_in_its_format():
    game = arena_envs.make_game("kuhn_poker")
    state = game.apply(game.apply(game.initial_state(), 0), 1)
    assert request_of(game, state).wrap("bet") == "<answer>bet</answer>"
    assert request_of(game, state, reply_format="bare").wrap("bet") == "bet"


def test_bots_are_policies_by_their_strings():
    game = arena_envs.make_game("kuhn_poker")
    state = game.apply(game.apply(game.initial_state(), 0), 1)
    for spec, want in (("first", "pass"), ("constant:1", "bet"), ("ismcts:9", None)):
        policy = make_policy(spec)
        assert policy.name == spec
        (reply,) = policy.act([request_of(game, state)])
        assert reply.text in ([f"<answer>{want}</answer>"] if want else reply.text)
    with pytest.raises(ValueError, match=r"no policy 'mtcs'; did you mean 'mcts'\?"):
        make_policy("mtcs")
    with pytest.raises(ValueError, match=r"known are .*, first, .*, lm"):
        make_policy("qqqqq:7")


def test_a_bot_that_knows_its_probabilities_tells_them():
    game = arena_envs.make_game("kuhn_poker")
    state = game.apply(game.apply(game.initial_state(), 2), 1)
    policy: Any = make_policy("cfr:500")
    ((probabilities, illegal),) = policy.action_probs([request_of(game, state)])
    assert sum(probabilities) == pytest.approx(1)
    assert illegal == 0
    assert not hasattr(make_policy("mcts"), "action_probs")


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("some_policies:Mine", "mine"),
        ("some_policies:Mine(yours)", "yours"),
        ("noisy:0.5(some_policies:Mine)", "noisy:0.5(some_policies:Mine)"),
    ],
)
def test_a_module_names_a_policy(spec, name, tmp_path, monkeypatch):
    (tmp_path / "some_policies.py").write_text(
        "from arena_wrappers import RandomPolicy\n\n"
        "class Mine(RandomPolicy):\n"
        "    def __init__(self, name='mine'):\n"
        "        self.name = name\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert make_policy(spec).name == name


class AnswersMany(RandomPolicy):
    """A policy of a class with `act_async`, which answers many requests in one call."""

    act_async = None


def test_a_policy_that_answers_many_requests_plays_with_a_text(tmp_path):
    Path(tmp_path, "text.txt").write_text("Bet with the king.")
    spec = f"text:{tmp_path}/text.txt(random)"
    prompt = own_prompt(make_policy(spec))
    assert prompt is not None
    assert prompt.persona == "Bet with the king."
    policy = with_prompt(AnswersMany(), {"persona": "Bet."}, {})
    assert not is_async(policy)
    env = PromptWrapper(arena_envs.make("kuhn_poker"))
    (episode,) = play(lambda: env, [policy, make_policy("random")], [0])
    assert episode.lost is None


def test_the_text_of_a_run_that_found_none_is_empty(tmp_path):
    Path(tmp_path, "text.txt").write_text("\n")
    prompt = own_prompt(make_policy(f"text:{tmp_path}/text.txt(random)"))
    assert prompt is not None
    assert prompt.persona == ""
