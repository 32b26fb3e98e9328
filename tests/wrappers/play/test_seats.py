"""Prompt options per seat: policies that read different prompts meet."""

import json
import pickle
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

import arena_envs
from arena_wrappers import (
    Episode,
    HumanPolicy,
    PromptOptions,
    PromptWrapper,
    RandomPolicy,
    Reply,
    SeatEnv,
    TurnRequest,
    messages,
    play,
    replay,
)
from arena_wrappers.prompts import seat_options

BARE = PromptOptions("bare", rules=False)
BOXED = PromptOptions("boxed", show_legal_actions=False)
TALKING = PromptOptions("bracket", history="transcript")


class Reader(RandomPolicy):
    """Plays at random, carries prompt options, and keeps what it was asked."""

    def __init__(self, prompt: Any, name: str = "reader") -> None:
        self.prompt, self.name = prompt, name
        self.asked: list[TurnRequest] = []

    def act(self, requests: Sequence[TurnRequest]) -> list[Reply]:
        self.asked += requests
        return super().act(requests)

    def action_probs(
        self, requests: Sequence[TurnRequest]
    ) -> list[tuple[list[float], float]]:
        self.asked += requests
        return super().action_probs(requests)


class Saying(Reader):
    """Says the same whatever it is asked."""

    def act(self, requests: Sequence[TurnRequest]) -> list[Reply]:
        self.asked += requests
        return [Reply(self.name) for _ in requests]


def kuhn(**options: Any) -> PromptWrapper:
    return PromptWrapper(arena_envs.make("kuhn_poker"), **options)


def test_two_policies_with_different_options_meet_and_their_episodes_replay() -> None:
    first, second = Reader(BARE), Reader(BOXED)
    episodes = play(kuhn, [first, second], range(12))
    for policy, options in ((first, BARE), (second, BOXED)):
        assert len(policy.asked) >= 12
        for asked in policy.asked:
            wanted = messages(asked.game, asked.state, asked.seat, options)
            assert asked.messages == wanted
            assert asked.reply_format == options.reply_format
    for episode in episodes:
        assert all(turn.invalid is None for turn in episode.turns)
        assert [seat_options(episode.prompt, seat) for seat in range(2)] == [
            BARE,
            BOXED,
        ]
        assert replay(episode) == episode
        read = Episode.from_json(episode.to_json())
        assert replay(read).to_json() == episode.to_json()
        swapped = {"0": episode.prompt["seats"]["1"], "1": episode.prompt["seats"]["0"]}
        with pytest.raises(ValueError, match="turn 0"):
            replay(replace(episode, prompt={**episode.prompt, "seats": swapped}))


def test_a_policy_takes_its_options_into_every_seat() -> None:
    policy, other = Reader(BARE), Reader(None)
    for seats in ([policy, other], [other, policy]):
        play(lambda: kuhn(reply_format="boxed"), seats, range(4))
    assert {(r.seat, r.reply_format) for r in policy.asked} == {
        (0, "bare"),
        (1, "bare"),
    }
    assert {r.reply_format for r in other.asked} == {"boxed"}


def test_a_seat_that_the_wrapper_names_keeps_its_options() -> None:
    policy = Reader(BARE)
    (episode,) = play(lambda: kuhn(seats={1: BOXED}), policy, [0])
    assert {(r.seat, r.reply_format) for r in policy.asked} == {
        (0, "bare"),
        (1, "boxed"),
    }
    assert seat_options(episode.prompt, 1) == BOXED


def test_one_seat_has_a_transcript_and_the_other_none() -> None:
    first, second = Reader(TALKING), Reader(BARE)
    episodes = play(
        lambda: PromptWrapper(arena_envs.make("tic_tac_toe")), [first, second], range(2)
    )
    assert {len(r.messages) for r in first.asked if r.turn == 2} == {2 + 2 * 2}
    assert {len(r.messages) for r in second.asked} == {1}
    for episode in episodes:
        assert replay(episode) == episode


def test_each_reply_is_read_by_the_options_of_its_seat() -> None:
    lax = Saying(PromptOptions(parsing="tolerant"), "I pass.")
    strict = Saying(PromptOptions(parsing="strict"), "I pass.")
    (episode,) = play(kuhn, [lax, strict], [0])
    assert [turn.invalid for turn in episode.turns] == [None, "format"]
    assert episode.forfeited_by == 1


def test_a_record_is_flat_where_all_seats_are_alike() -> None:
    (episode,) = play(kuhn, Reader(BARE), [0])
    flat = kuhn(reply_format="bare", rules=False).prompt_options
    assert episode.prompt == flat
    assert "seats" not in flat
    assert replay(episode) == episode


@pytest.mark.parametrize("seats", [{}, {0: BARE}, {0: BARE, 1: TALKING}])
def test_the_arguments_of_a_wrapper_make_it_again(seats: Any) -> None:
    env = kuhn(parsing="tolerant", seats=seats, max_retries=3)
    again = kuhn(**json.loads(json.dumps(env.prompt_options)))
    for copy in (again, pickle.loads(pickle.dumps(env)), env.clone()):
        copy.reset(seed=1)
        assert copy.prompt_options == env.prompt_options
        for seat in range(2):
            assert copy.options_of(seat) == env.options_of(seat)


@pytest.mark.parametrize(
    ("seats", "message"),
    [
        ({2: BARE}, "want seats from 0 to 1, got 2"),
        ({"x": BARE}, "want seats from 0 to 1, got 'x'"),
        ([BARE, BARE], "want seats as a mapping of options"),
        ({0: "bare"}, "want PromptOptions of seat 0, got 'bare'"),
        ({0: {"formt": 1}}, "seat 0 has no option 'formt'; known are reply_format"),
        ({0: {"rule": 1}}, "seat 0 has no option 'rule'; did you mean 'rules'"),
        ({0: {"rules": 1}}, "want rules as True or False, got 1"),
        ({0: {"history": "all"}}, "unknown history 'all'"),
        ({0: {"reply_format": ["bare"]}}, "want the name of a reply format"),
    ],
)
def test_options_of_seats_that_cannot_be_are_refused(seats: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kuhn(seats=seats)


def test_a_policy_whose_prompt_is_no_options_is_refused() -> None:
    with pytest.raises(TypeError, match="'reader': want PromptOptions or None"):
        play(kuhn, Reader("You play poker."), [0])


def test_an_opponent_of_a_seat_env_reads_its_own_prompt() -> None:
    opponent = Reader(BOXED)
    env = SeatEnv(lambda: arena_envs.make("kuhn_poker"), 1, opponent)
    env.reset(seed=0)
    (asked,) = opponent.asked
    assert asked.messages == messages(asked.game, asked.state, 0, BOXED)
    assert env.env.forfeited_by is None
    with pytest.raises(ValueError, match="'reader' with 'transcript'"):
        SeatEnv(lambda: arena_envs.make("kuhn_poker"), 1, Reader(TALKING))


def test_who_gives_hints_reads_its_own_prompt() -> None:
    advisor, lines = Reader(BOXED), iter(["?", "pass", "pass"])
    person = HumanPolicy(advisor, lambda _: next(lines), lambda _: None)
    play(kuhn, [person, RandomPolicy()], [0])
    (asked,) = advisor.asked
    assert asked.messages == messages(asked.game, asked.state, 0, BOXED)
