"""Checks of messages: only their audience learns of them, and texts keep their limit."""

import random
from bisect import bisect_left
from typing import Any

from arena_envs.game import (
    CHANCE,
    MAX_TEXT,
    TERMINAL,
    AnyAction,
    AnyGame,
    AnyState,
    IllegalAction,
    possible_actions,
)
from arena_envs.scenes import scene_of
from arena_envs.testing.sample import Episode, Sample, demand, difference, view

MAX_EXCHANGES = 40  # messages that are exchanged for others
MAX_FOLLOWED = 8  # states after an exchange that are compared
MAX_MESSAGE = 4_096  # characters of the longest message that is tried
MESSAGES = (
    "Quince and saffron.",
    "A rather longer remark about walnuts, with 0 1 2 3 4 5 6 7 8 9 for games of numbers!",
)
LONG = "\U000e0041"  # `quoted` shows it as 12 characters


def check_messages(sample: Sample) -> None:
    """Only its audience learns of a message, and no legal action has the words of a message.

    Exchanges one message of an episode for another.
    """
    game, rng = sample.game, random.Random(0)
    if game.num_actions is not None:
        return
    places = [
        (episode, index)
        for episode in sample.episodes
        for index, (state, _) in enumerate(episode)
        if game.current_player(state) >= 0
    ]
    for episode, index in rng.sample(places, min(len(places), MAX_EXCHANGES)):
        state, action = episode[index]
        utterances = [_with_message(game, state, action, words) for words in MESSAGES]
        if None in utterances or utterances[0] == utterances[1]:
            continue
        outside: set[int] = set()
        if audience := getattr(utterances[0], "audience", ()):
            seats = set(range(game.num_players))
            outside = seats - {game.current_player(state), *audience}
        first, second = (game.apply(state, each) for each in utterances)
        _follow(game, first, second, outside, episode[index + 1 :], rng)


def _follow(
    game: AnyGame,
    first: AnyState,
    second: AnyState,
    outside: set[int],
    remainder: Episode,
    rng: random.Random,
) -> None:
    """Compares what seats are shown after two messages, while both episodes go on alike."""
    for step in range(MAX_FOLLOWED):
        player = game.current_player(first)
        if game.current_player(second) != player:  # words may end a game, as in taboo
            return
        if player != CHANCE:
            for seat in outside:
                _compare_heard(game, first, second, seat)
        for action in game.legal_actions(first):
            text = game.action_text(first, action)
            demand(
                not any(words in text for words in MESSAGES),
                "no legal action has the words of a message",
                text,
                fix="Make legal_actions give a finite core of utterances without messages.",
            )
        if player == TERMINAL:
            return
        actions = possible_actions(game, first)
        action = remainder[step][1] if step < len(remainder) else None
        if action not in actions:
            action = rng.choice(actions)
        if action not in possible_actions(game, second):
            return
        first, second = game.apply(first, action), game.apply(second, action)


def _compare_heard(game: AnyGame, first: AnyState, second: AnyState, seat: int) -> None:
    if game.current_player(first) == TERMINAL and game.returns(first) != game.returns(
        second
    ):
        return  # the words decided how the game ended, which a seat may be told
    keys = [game.information_state(state, seat) for state in (first, second)]
    rule = "a message is in no information state of a seat outside its audience"
    demand(
        keys[0] == keys[1],
        rule,
        *keys,
        fix="Remove messages that a seat does not read from what it knows and is shown.",
    )
    first_view, second_view = view(game, first, seat), view(game, second, seat)
    rule = "a message shows in no text, features or mask of a seat outside its audience"
    demand(
        first_view == second_view,
        f"{rule}; got {difference(first_view, second_view)}",
        fix="Remove messages that a seat does not read from what it knows and is shown.",
    )
    alike = scene_of(game, first, seat) == scene_of(game, second, seat)
    rule = "a message shows in no scene of a seat outside its audience"
    demand(
        alike,
        rule,
        seat,
        fix="Remove messages that a seat does not read from what it knows and is shown.",
    )


def check_long_talk(sample: Sample) -> None:
    """A text keeps its limit when all players say as much as they can.

    Plays the longest episode of the sample again, each utterance with the longest message.
    """
    game, rng = sample.game, random.Random(0)
    if game.num_actions is not None:
        return
    state = game.initial_state()
    for _, action_of_episode in max(sample.episodes, key=len):
        if game.current_player(state) == TERMINAL:
            return
        actions = possible_actions(game, state)
        action = (
            action_of_episode if action_of_episode in actions else rng.choice(actions)
        )
        if game.current_player(state) >= 0:
            action = _at_length(game, state, action)
        state = game.apply(state, action)
        for seat in range(game.num_players):
            length = len(game.observe(state, seat))
            rule = (
                f"a text has at most {MAX_TEXT} characters after the longest messages"
            )
            fix = "Show fewer of the latest messages, or make the longest one shorter."
            demand(length <= MAX_TEXT, rule, length, fix=fix)


def _at_length(game: AnyGame, state: AnyState, action: AnyAction) -> Any:
    """The action with the longest message that the game reads, if it reads any."""

    def is_refused(length: int) -> bool:
        return _with_message(game, state, action, LONG * length) is None

    most = bisect_left(range(1, MAX_MESSAGE + 1), True, key=is_refused)
    return _with_message(game, state, action, LONG * most) if most else action


def _with_message(game: AnyGame, state: AnyState, action: AnyAction, words: str) -> Any:
    """The action with these words as its message; None where the game reads none."""
    text = game.action_text(state, action)
    for reply in (f"{words}\n{text}", f"{text}: {words}"):
        try:
            return game.parse(state, reply)
        except IllegalAction:
            continue
    return None
