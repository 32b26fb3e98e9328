"""`PromptWrapper`: messages in, raw text out, and what an invalid reply costs whom."""

import copy
import json
import pickle
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import arena_envs
from arena_envs import GameEnv
from arena_wrappers import PromptOptions, PromptWrapper, messages
from arena_wrappers.play import MAX_REFUSED

texts = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["bet", "pass", "pay 1", "pay 2", "yes", "1", "<answer>bet</answer>"]
    ),
)
same_fixture = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30
)


def kuhn(**options):
    return PromptWrapper(arena_envs.make("kuhn_poker"), "bare", **options)


def roll(env, replies):
    """Says the replies one after another; what happened, as data."""
    seen = []
    for reply in replies:
        if not env.agents or env.terminations[env.agent_selection]:
            break
        agent = env.agent_selection
        seen.append((agent, env.observe(agent)))
        env.step(reply)
        seen.append((env.rewards, env.reward_parts, env.infos))
    return seen, env.env.returns, env.env.actions


def random_reply(env, rng):
    return rng.choice(env.legal_texts()) if rng.random() < 0.8 else "nonsense"


def test_observation_is_the_prompt_of_the_state(make_env):
    env = PromptWrapper(make_env())
    env.reset(seed=3)
    for seat, agent in enumerate(env.possible_agents):
        state = env.env.game_state
        want = messages(env.env.game, state, seat, PromptOptions())
        assert env.observe(agent) == want
        assert env.observation_space(agent).contains(env.observe(agent))
        assert env.action_space(agent).contains("any text, \ud800 too")


def test_the_standard_loop_of_pettingzoo_runs(make_env):
    """Its `api_test` does not: it asks every observation for a numpy dtype."""
    env = PromptWrapper(make_env(), on_invalid="random", penalty=0.5, parsing="strict")
    env.reset(seed=0)
    totals = dict.fromkeys(env.possible_agents, 0.0)
    fined = dict.fromkeys(env.possible_agents, 0.0)
    for agent in env.agent_iter():
        observation, reward, terminated, truncated, _ = env.last()
        assert env.observation_space(agent).contains(observation)
        totals[agent] += reward
        over = terminated or truncated
        fined[agent] += 0.0 if over else 0.5
        env.step(None if over else env.action_space(agent).sample())
        for values in (env.rewards, env.infos, env._cumulative_rewards):
            assert list(values) == env.agents
    for agent, game_return in zip(totals, env.env.returns, strict=True):
        assert totals[agent] == pytest.approx(game_return - fined[agent])


def test_what_a_caller_does_to_a_prompt_stays_with_the_caller():
    env = kuhn()
    env.reset(seed=0)
    prompt = env.observe("player_0")
    want = copy.deepcopy(prompt)
    prompt[0]["content"] += " (seen)"
    prompt.append({"role": "user", "content": "?"})
    env.legal_texts().append("cheat")
    assert env.observe("player_0") == want
    assert env.legal_texts() == ["pass", "bet"]


def test_valid_replies_pay_what_the_game_pays(make_env):
    for seed in range(10):
        plain, env = make_env(), PromptWrapper(make_env(), "bare")
        plain.reset(seed=seed)
        env.reset(seed=seed)
        rng = random.Random(seed)
        while not any(plain.terminations.values()):
            reply = rng.choice(env.legal_texts())
            agent = env.agent_selection
            game, state = plain.game, plain.game_state
            action = reply if game.num_actions is None else game.parse(state, reply)
            plain.step(action)
            env.step(reply)
            assert env.rewards == plain.rewards
            assert env.reward_parts == {
                a: {"game": r} for a, r in plain.rewards.items()
            }
            assert env._cumulative_rewards == plain._cumulative_rewards
            assert env.infos[agent] == {}


@pytest.mark.parametrize("on_invalid", ["forfeit", "retry", "random"])
@same_fixture
@given(replies=st.lists(texts, max_size=12), seed=st.integers(0, 5))
def test_a_rule_break_never_changes_another_seats_reward(
    make_env, on_invalid, replies, seed
):
    """What the others are paid is the game's own reward, to the last bit."""
    env = PromptWrapper(make_env(), "bare", on_invalid=on_invalid)
    env.reset(seed=seed)
    for reply in replies:
        if env.terminations[env.agent_selection]:
            break
        agent, before = env.agent_selection, env.env.returns
        num_bad = env.env.num_bad
        env.step(reply)
        now = env.env.returns
        for seat, other in enumerate(env.possible_agents):
            parts = env.reward_parts[other]
            assert parts["game"] == now[seat] - before[seat]
            assert env.rewards[other] == sum(parts.values())
            if other != agent:
                assert set(parts) == {"game"}
                assert env.infos[other] == {}
                if env.env.num_bad != num_bad:
                    assert env.env.forfeited_by is None


def test_a_bad_reply_of_one_of_three_seats_is_a_default_action_that_costs(tolls):
    env = PromptWrapper(GameEnv(tolls), "bare", penalty=0.25)
    env.reset(seed=0, options={"chance": [1]})
    for reply in ["pay 2", "pay 1", "steal"]:
        env.step(reply)
    assert (env.played, env.env.actions[-1]) == (0, 0)  # the first legal action
    assert env.env.returns == (-2.0, 1.0, 2.0 - 4.0)  # a tenth of the range
    assert env.rewards == {"player_0": 0.0, "player_1": 0.0, "player_2": -4.25}
    assert env.reward_parts["player_2"] == {"game": -4.0, "format": -0.25}
    assert env.infos["player_2"] == {"invalid_reply": "illegal"}
    assert not any(env.terminations.values())
    assert (env.env.forfeited_by, env.env.num_bad) == (None, (0, 0, 1))


def test_what_was_handed_out_stays_as_it_was_when_play_goes_on(make_env):
    """Also of a copy, whichever of the two goes on."""
    rng = random.Random(0)
    env = PromptWrapper(make_env(), "bare", on_invalid="random")
    env.reset(seed=1)
    while not env.terminations[env.agent_selection]:
        handed_out = (env.rewards, env.reward_parts, env.infos)
        expected = copy.deepcopy(handed_out)
        twin = env.clone()
        env.step(random_reply(env, rng))
        assert handed_out == expected == (twin.rewards, twin.reward_parts, twin.infos)
        after = copy.deepcopy((env.rewards, env.reward_parts, env.infos))
        twin.step(random_reply(twin, rng))
        assert (env.rewards, env.reward_parts, env.infos) == after


def test_retry_tells_the_reason_and_asks_again():
    env = kuhn(on_invalid="retry", max_retries=2, penalty=0.5)
    env.reset(seed=0)
    first = env.observe("player_0")
    state = env.env.game_state
    env.step("raise")
    assert env.agent_selection == "player_0"
    assert env.env.game_state == state
    assert env.observe("player_0") == [
        *first,
        {"role": "assistant", "content": "raise"},
        {"role": "user", "content": "Write `pass` or `bet`. Reply again."},
    ]
    assert env.rewards == {"player_0": -0.5, "player_1": 0.0}
    assert len(env.observe("player_1")) == 2  # of the other's attempts it reads nothing
    env.step("bet")
    assert env.reward_parts["player_0"] == {"game": 0.0}
    assert env.agent_selection == "player_1"
    assert len(env.observe("player_0")) == 2
    assert env.last()[1] == 0.0


@pytest.mark.parametrize("history", ["state", "transcript"])
def test_a_refused_reply_of_any_length_and_alphabet_leaves_a_readable_prompt(history):
    env = kuhn(on_invalid="retry", history=history)
    env.reset(seed=0)
    env.step("\ud800" + "x" * 300_000 + "\ud83d\ude00 raise")
    prompt = env.observe("player_0")
    assert env.observation_space("player_0").contains(prompt)
    refused = prompt[-2]["content"]
    assert len(refused) <= MAX_REFUSED
    assert refused.startswith("\ufffdxxx")
    assert "x\n[...]\nx" in refused
    assert refused.endswith("x\U0001f600 raise")
    json.dumps(prompt, ensure_ascii=False).encode()
    env.step("\n" * 200_000 + "bet")
    env.step("bet")
    prompt = env.observe("player_0")
    assert env.observation_space("player_0").contains(prompt)
    json.dumps(prompt, ensure_ascii=False).encode()


@pytest.mark.parametrize("history", ["state", "transcript"])
def test_changing_an_observation_does_not_change_the_environment(history):
    env = kuhn(on_invalid="retry", history=history)
    env.reset(seed=0)
    for reply in ("raise", "pass", "bet"):
        before = copy.deepcopy(env.observe("player_0"))
        for message in env.observe("player_0"):
            message["content"] = "obey"
        assert env.observe("player_0") == before
        env.step(reply)


def test_retry_ends_in_forfeit():
    env = kuhn(on_invalid="retry", max_retries=2)
    env.reset(seed=0)
    for number in range(3):
        assert not env.terminations["player_0"], number
        env.step("raise")
    assert env.env.forfeited_by == 0
    assert env.env.returns == (-2.0, 2.0)


def test_retries_are_counted_anew_at_each_decision(tolls):
    env = PromptWrapper(GameEnv(tolls), "bare", on_invalid="retry", max_retries=1)
    env.reset(seed=0)
    for _ in range(7):
        env.step("steal")
        env.step("pay 1")
    assert env.env.forfeited_by is None
    assert env.terminations["player_0"]


def test_random_plays_a_legal_action_and_fines():
    played = set()
    for seed in range(20):
        env = kuhn(on_invalid="random", penalty=0.5)
        env.reset(seed=seed)
        env.step("raise")
        played.add(env.played)
        assert env.env.actions[-1] == env.played
        assert env.rewards == {"player_0": -0.5, "player_1": 0.0}
        assert env.infos["player_0"] == {"invalid_reply": "illegal"}
    assert played == {0, 1}


def test_random_actions_follow_from_the_seed():
    def actions(seed):
        env = kuhn(on_invalid="random")
        env.reset(seed=seed)
        return roll(env, ["?"] * 5)

    assert [actions(seed) for seed in range(9)] == [actions(seed) for seed in range(9)]


def test_unseeded_wrappers_differ():
    def actions():
        env = PromptWrapper(arena_envs.make("tic_tac_toe"), on_invalid="random")
        env.reset()
        return tuple(roll(env, ["?"] * 9)[2])

    assert len({actions() for _ in range(20)}) > 1


@pytest.mark.parametrize("outcomes", [5, [9], [0, 1, 2]])
def test_refused_options_leave_the_running_episode(outcomes):
    env = kuhn(on_invalid="retry")
    env.reset(seed=0)
    env.step("raise")
    before = env.observe("player_0")
    with pytest.raises(ValueError, match="want"):
        env.reset(seed=1, options={"chance": outcomes})
    assert env.observe("player_0") == before
    env.step("bet")


def test_raise_changes_nothing():
    env = kuhn(on_invalid="raise")
    env.reset(seed=0)
    before = pickle.dumps(env)
    with pytest.raises(ValueError, match="player_0: illegal: Write `pass`"):
        env.step("raise")
    assert pickle.dumps(env) == before
    env.step("bet")
    assert env.agent_selection == "player_1"


def test_transcript_keeps_this_seats_whole_conversation(tolls):
    env = PromptWrapper(GameEnv(tolls), "bare", history="transcript")
    env.reset(seed=0)
    first = env.observe("player_0")
    for reply in ["pay 1", "pay 2", "pay 0"]:
        env.step(reply)
    prompt = env.observe("player_0")
    assert [m["role"] for m in prompt] == ["system", "user", "assistant", "user"]
    assert prompt[:2] == first
    assert prompt[2]["content"] == "pay 1"
    assert "Paid: [1, 2, 0]" in prompt[3]["content"]
    env.reset(seed=0)
    assert env.observe("player_0") == first


def test_transcript_keeps_the_attempts_too():
    env = kuhn(history="transcript", on_invalid="retry", rules=False)
    env.reset(seed=0, options={"chance": [0, 1]})
    for reply in ["raise", "pass", "bet"]:
        env.step(reply)
    roles = [m["role"] for m in env.observe("player_0")]
    assert roles == ["user", "assistant", "user", "assistant", "user"]


@pytest.mark.parametrize("copied", ["clone", "copy", "deepcopy", "pickle"])
@pytest.mark.parametrize(
    ("history", "on_invalid"),
    [("state", "forfeit"), ("transcript", "retry"), ("state", "random")],
)
def test_a_copy_in_mid_game_continues_identically(
    make_env, copied, history, on_invalid
):
    copies = {
        "clone": PromptWrapper.clone,
        "copy": copy.copy,
        "deepcopy": copy.deepcopy,
        "pickle": lambda env: pickle.loads(pickle.dumps(env)),
    }
    for seed in (0, 2, 5):
        env = PromptWrapper(make_env(), "bare", history=history, on_invalid=on_invalid)
        env.reset(seed=seed)
        rng = random.Random(seed)
        roll(env, [random_reply(env, rng) for _ in range(seed)])
        other = copies[copied](env)
        replies = [
            rng.choice(["pass", "bet", "pay 1", "yes", "1", "?"]) for _ in range(8)
        ]
        assert roll(env, replies) == roll(other, replies)
        for wrapper in (env, other):  # and so does the next, unseeded episode
            wrapper.reset()
        assert roll(env, replies) == roll(other, replies)


def test_a_clone_and_its_original_do_not_meet(tolls):
    env = PromptWrapper(
        GameEnv(tolls), "bare", history="transcript", on_invalid="retry"
    )
    env.reset(seed=0)
    roll(env, ["pay 1", "steal"])
    other = copy.copy(env)
    before = pickle.dumps(env)
    roll(other, ["pay 1", "steal", "pay 2", "steal", "steal", "steal"])
    assert pickle.dumps(env) == before


def test_global_randomness_is_left_alone(make_env):
    before = random.getstate(), np.random.get_state()[1].tolist()
    env = PromptWrapper(make_env(), on_invalid="random")
    env.reset(seed=0)
    roll(env, ["?"] * 20)
    env.reset()
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"history": "sate"}, "did you mean 'state'"),
        ({"on_invalid": "forfiet"}, "did you mean 'forfeit'"),
        ({"reply_format": "xml"}, "known are answer, bare"),
        ({"penalty": -1.0}, "at least 0"),
        ({"penalty": float("nan")}, "at least 0"),
        ({"penalty": float("inf")}, "finite"),
        ({"max_retries": -1}, "at least 0"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        PromptWrapper(arena_envs.make("kuhn_poker"), **options)


def test_only_game_envs_are_wrapped():
    with pytest.raises(TypeError, match="want a GameEnv, got PromptWrapper"):
        PromptWrapper(kuhn())


@pytest.mark.parametrize("action", [0, None, b"bet", ["bet"]])
def test_an_action_that_is_no_text_is_refused(action):
    env = kuhn()
    env.reset(seed=0)
    with pytest.raises(ValueError, match="want a text"):
        env.step(action)


def test_after_the_end_agents_play_none():
    env = kuhn()
    env.reset(seed=0)
    env.step("?")
    with pytest.raises(ValueError, match="can only play None"):
        env.step("bet")
    env.step(None)
    env.step(None)
    assert env.agents == []
    with pytest.raises(ValueError, match="reset"):
        env.step("bet")


def test_last_before_the_first_reset_asks_for_a_reset():
    with pytest.raises(ValueError, match=r"no episode is running: call reset\(\)"):
        PromptWrapper(arena_envs.make("nim")).last()
