"""`SeatSession`: messages and replies of some seats of a game."""

import json
import random
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate

import pytest

import arena_envs
from arena_envs import GameEnv
from arena_wrappers import (
    InvalidReply,
    NoReplyError,
    Reply,
    ScriptedPolicy,
    SeatSession,
    play,
    replay,
)

BARE = {"reply_format": "bare"}


def play_first(session: SeatSession) -> dict:
    """The info at the end of an episode in which the session plays the first legal action."""
    legal, done, info = session.info()["legal"], session.done, {}
    while not done:
        _, _, done, info = session.step(legal[0])
        legal = info["legal"]
    return info


def first_legal(request) -> str:
    return request.wrap(request.legal[0])


class Lost:
    """An endpoint that gives no reply from a turn on."""

    name = "lost"

    def __init__(self, first: int = 0) -> None:
        self.left = first

    def act(self, requests):
        self.left -= 1
        if self.left < 0:
            return [Reply("", error="connection cut") for _ in requests]
        return [Reply(request.legal[0]) for request in requests]


def test_replies_are_read_in_their_format() -> None:
    session = SeatSession("tic_tac_toe", 0, "minimax", prompt={"reply_format": "boxed"})
    system, user = session.reset(seed=0)
    assert r"\boxed{...}" in system["content"]
    assert user["content"].startswith("You are X. You are to move.")
    messages, reward, done, info = session.step(r"Why not \boxed{B2}")
    assert (reward, done, info["invalid"]) == (0.0, False, None)
    assert session.episode.actions[0] == 4
    assert "X" in messages[-1]["content"]


def test_an_invalid_reply_forfeits_with_the_reason_and_leaves_the_state() -> None:
    session = SeatSession("kuhn_poker", prompt=BARE)
    session.reset(seed=0)
    before = session.state
    _, reward, done, info = session.step("raise")
    assert (reward, done) == (-2.0, True)
    assert info["invalid"] == "Write `pass` or `bet`."
    assert info["outcome"]["forfeited_by"] == 0
    assert session.state == before


def test_a_language_game_reads_messages() -> None:
    session = SeatSession("bargaining")
    session.reset(seed=0)
    *_, info = session.step("<answer>Half is fair. offer 50</answer>")
    assert info["invalid"] is None
    assert session.episode.turns[0].action == "Half is fair.\noffer 50"


def test_a_reply_may_be_tried_again_at_the_cost_of_the_penalty() -> None:
    prompt = {**BARE, "on_invalid": "retry", "penalty": 0.25}
    session = SeatSession("kuhn_poker", prompt=prompt)
    session.reset(seed=0)
    messages, reward, done, _ = session.step("raise")
    assert (reward, done) == (-0.25, False)
    assert messages[-1]["content"].endswith("Reply again.")
    assert isinstance(session.read("raise"), InvalidReply)
    assert session.read("bet") == 1


def test_the_record_is_that_of_play_with_the_same_replies(game) -> None:
    session = SeatSession(game, 0, "random", prompt={"penalty": 0.5}, name="scripted")
    wrap = "<answer>{}</answer>".format
    for seed in range(3):
        session.reset(seed)
        done, legal = session.done, session.info()["legal"]
        while not done:
            _, _, done, info = session.step(wrap(legal[0]))
            legal = info["legal"]
        others = ["random"] * (len(session.agents) - 1)
        (episode,) = play(
            lambda: GameEnv(game), [ScriptedPolicy(first_legal), *others], [seed]
        )
        assert session.episode == episode


def test_all_seats_are_played_in_turn(game) -> None:
    session = SeatSession(game, "all", (), prompt=BARE, max_turns=12)
    session.reset(seed=0)
    paid = dict(zip(session.agents, session.returns, strict=True))
    done, legal = session.done, session.info()["legal"]
    while not done:
        _, _, done, info = session.step(legal[-1])
        assert info["invalid"] is None
        legal = info["legal"]
        paid = {agent: paid[agent] + info["rewards"][agent] for agent in paid}
    assert list(paid.values()) == pytest.approx(session.returns)
    assert len(info["turn_rewards"]) == len(session.episode.turns)


def test_several_seats_of_three_meet_one_opponent() -> None:
    session = SeatSession("kuhn_poker", [0, 2], "random", prompt=BARE, num_players=3)
    session.reset(seed=1)
    seats = []
    done = False
    while not done:
        seats.append(session.seat)
        *_, done, _ = session.step("bet")
    assert set(seats) == {0, 2}
    assert {turn.seat for turn in session.episode.turns} == {0, 1, 2}
    with pytest.raises(ValueError, match="want 2 opponents, one per other seat, got 1"):
        SeatSession("kuhn_poker", 0, ["random"], num_players=3)
    with pytest.raises(ValueError, match="want seat from 0 to 1, got 2"):
        SeatSession("kuhn_poker", 2)


def test_a_random_seat_depends_on_the_seed_alone() -> None:
    session = SeatSession("kuhn_poker", "random", prompt=BARE)
    seats = []
    for seed in (*range(8), *range(8)):
        session.reset(seed, options={"sample": len(seats)})
        seats.append(session.seat)
    assert seats[:8] == seats[8:]
    assert set(seats) == {0, 1}


def test_a_saved_episode_goes_on_as_the_first_does(game) -> None:
    def session() -> SeatSession:
        return SeatSession(game, 0, "random", prompt=BARE)

    first, second = session(), session()
    first.reset(seed=4)
    if not first.done:
        first.step(first.info()["legal"][0])
    saved = json.loads(json.dumps(first.save()))
    second.restore(saved)
    if not first.done:
        play_first(first)
        play_first(second)
    assert first.episode == second.episode


def test_a_restored_episode_asks_no_policy_for_old_replies() -> None:
    first = SeatSession("tic_tac_toe", 1, Lost(2), prompt=BARE)
    first.reset(seed=0)
    first.step("b2")
    again = SeatSession("tic_tac_toe", 1, Lost(0), prompt=BARE)
    again.restore(first.save())
    assert again.episode == first.episode
    with pytest.raises(NoReplyError, match="connection cut"):
        again.step("c3")


@pytest.mark.parametrize(
    "saved", [None, {}, {"seed": 1, "seats": [0], "replies": [3]}, {"seed": "x"}]
)
def test_what_is_no_save_is_refused(saved) -> None:
    with pytest.raises(ValueError, match="want"):
        SeatSession("kuhn_poker").restore(saved)


def test_a_save_of_another_game_is_refused() -> None:
    session = SeatSession("kuhn_poker", prompt=BARE)
    save = {"seed": 1, "seats": [0], "replies": ["pass"] * 9}
    with pytest.raises(ValueError, match="want at most 2 replies"):
        session.restore(save)
    with pytest.raises(ValueError, match=r"save of the seats \[0\], got one of \[1\]"):
        session.restore({**save, "seats": [1]})
    with pytest.raises(ValueError, match=r"call reset\(\)"):
        session.step("pass")


def test_a_lost_episode_raises_and_another_can_start() -> None:
    session = SeatSession("kuhn_poker", 0, Lost(), prompt=BARE)
    session.reset(seed=0)
    with pytest.raises(NoReplyError, match="connection cut"):
        session.step("bet")
    with pytest.raises(ValueError, match=r"call reset\(\)"):
        session.step("bet")
    assert session.reset(seed=0)


def test_an_opponent_that_replies_badly_forfeits() -> None:
    session = SeatSession("kuhn_poker", 1, ScriptedPolicy(["fold?"]))
    session.reset(seed=0)
    assert session.done
    _, reward, done, info = session.step("whatever")
    assert (reward, done) == (0.0, True)
    assert info["outcome"]["forfeited_by"] == 0


def test_credit_is_given_for_own_turns_on_request() -> None:
    def sums(episode):
        return list(accumulate(turn.reward for turn in episode.turns))

    session = SeatSession("iterated_prisoners_dilemma", prompt=BARE, credit=sums)
    session.reset(seed=0)
    info = play_first(session)
    assert info["credit"] == sums(session.episode)[::2]
    assert sum(info["turn_rewards"]) == session.returns[0]
    plain = SeatSession("kuhn_poker", prompt=BARE)
    plain.reset(seed=0)
    assert "credit" not in play_first(plain)


def test_sessions_in_threads_play_as_one_by_one() -> None:
    def episode(seed: int):
        session = SeatSession("leduc_poker", "random", "random", prompt=BARE)
        session.reset(seed)
        play_first(session)
        return session.episode

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(episode, range(8))) == list(map(episode, range(8)))


def test_seeds_continue_from_the_last_given_one() -> None:
    session = SeatSession("kuhn_poker", prompt=BARE)
    deals = []
    for _ in range(2):
        session.reset(seed=5)
        deals.append([session.reset()[-1]["content"] for _ in range(9)])
    assert deals[0] == deals[1]
    assert len(set(deals[0])) > 1


def test_a_session_leaves_the_global_generator() -> None:
    before = random.getstate()
    session = SeatSession("kuhn_poker", "random", prompt=BARE)
    session.reset()
    play_first(session)
    assert random.getstate() == before


def test_the_rules_and_parameters_may_be_given() -> None:
    game = arena_envs.make_game("tic_tac_toe")
    session = SeatSession(game, prompt=BARE, max_turns=1)
    session.reset(seed=0)
    *_, done, info = session.step("a1")
    assert done
    assert info["truncated"]


def test_a_session_that_runs_none_says_so() -> None:
    session = SeatSession("kuhn_poker")
    with pytest.raises(ValueError, match=r"call reset\(\)"):
        session.step("bet")
    with pytest.raises(ValueError, match="'self' is the model that trains"):
        SeatSession("kuhn_poker", opponents="self")
    session.reset(seed=0)
    with pytest.raises(TypeError, match="want a text as reply, got 1"):
        session.step(1)


def test_a_recorded_session_is_replayed() -> None:
    session = SeatSession("leduc_poker", 1, "random", prompt=BARE)
    session.reset(seed=3)
    play_first(session)
    assert replay(session.episode) == session.episode
