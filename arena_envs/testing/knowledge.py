"""Checks of what seats know: nothing hidden shows, and nothing that a seat knew is forgotten."""

import random
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from arena_envs.game import (
    CHANCE,
    AnyAction,
    AnyGame,
    AnyState,
    possible_actions,
)
from arena_envs.testing.sample import (
    RandomEpisode,
    Sample,
    demand,
    difference,
    random_episode,
    view,
)

T = TypeVar("T")

MAX_CHANGES = 40  # actions of an episode that are exchanged for others
MAX_DRAWS = 200  # calls of resample, one of which has to draw another state


def check_complete(sample: Sample) -> None:
    """The game has the methods that hidden information needs."""
    for state in sample.states(1):
        for seat in range(sample.game.num_players):
            sample.game.information_state(state, seat)
            sample.game.resample(state, seat, random.Random(0))


def check_knowledge(sample: Sample) -> None:
    """The information state determines the view and, with perfect recall, the past."""
    game = sample.game
    first_views: dict[Any, Any] = {}
    for episode in sample.episodes:
        pasts: list[tuple[Any, ...]] = [()] * game.num_players
        for state, action in episode:
            player = game.current_player(state)
            if player == CHANCE:  # no seat observes a chance node
                continue
            for seat in range(game.num_players):
                key = game.information_state(state, seat)
                seat_view = view(game, state, seat)
                first_view = first_views.setdefault((seat, key), seat_view)
                demand(
                    first_view == seat_view,
                    "states with one information state have the same text, features and legal actions; "
                    f"got {difference(first_view, seat_view)}",
                    fix="Add what differs to information_state, or do not show it to this seat.",
                )
            if player >= 0:
                _check_features(game, state, player, first_views)
                if game.information == "imperfect":
                    _check_past(game, state, player, pasts[player], first_views)
                    key = game.information_state(state, player)
                    pasts[player] = (key, action)  # the key stands for the earlier past


def _check_features(
    game: AnyGame, state: AnyState, seat: int, first_views: dict[Any, Any]
) -> None:
    text, features, _ = view(game, state, seat)
    first_text = first_views.setdefault((seat, features, "text"), text)
    demand(
        first_text == text,
        "features tell apart what the text tells the seat to move; "
        f"got {difference((first_text,), (text,))}",
        fix="Put what differs between these texts into features.",
    )


def _check_past(
    game: AnyGame,
    state: AnyState,
    seat: int,
    past: tuple[AnyAction, ...],
    first_views: dict[Any, Any],
) -> None:
    key = game.information_state(state, seat)
    demand(
        first_views.setdefault((seat, key, "past"), past) == past,
        "one information state has one past of the seat (perfect recall)",
        key,
        fix="Put the seat's own actions, and what it has seen, into information_state.",
    )


def check_resampling(sample: Sample) -> None:
    """States that a seat cannot tell apart look alike to it, and can be played on."""
    game, rng = sample.game, random.Random(0)
    for state in sample.states():
        for seat in range(game.num_players):
            twin = game.resample(state, seat, rng)
            if twin is not state:
                _check_draw(game, state, seat, twin)
    if game.information == "perfect":
        return
    for state in sample.states(5):
        for seat in range(game.num_players):
            twin = game.resample(state, seat, random.Random(1))
            second_twin = game.resample(state, seat, random.Random(1))
            demand(
                twin == second_twin,
                "resample draws from the given generator alone",
                second_twin,
                fix="Draw with the argument rng.",
            )
            random_episode(game, twin, random.Random(2))


def _check_draw(game: AnyGame, state: AnyState, seat: int, twin: AnyState) -> None:
    rule = "resample does not change the seat to move"
    alike = game.current_player(twin) == game.current_player(state)
    demand(alike, rule, twin, fix="Redraw only what the seat cannot see.")
    key, twin_key = (game.information_state(s, seat) for s in (state, twin))
    rule = "resample keeps the information state of the seat"
    demand(
        twin_key == key,
        rule,
        twin_key,
        key,
        fix="Redraw only what the seat cannot see.",
    )
    seat_view, twin_view = view(game, state, seat), view(game, twin, seat)
    rule = "resample keeps the text, features and mask of the seat; got "
    demand(
        seat_view == twin_view,
        rule + difference(seat_view, twin_view),
        fix="Redraw only what the seat cannot see.",
    )
    demand(
        twin == state or game.information == "imperfect",
        "a perfect-information game has nothing to resample",
        twin,
        fix="Return the given state, or declare information = 'imperfect'.",
    )


def check_hidden(sample: Sample) -> None:
    """Checks that hidden facts do not show, and that `resample` draws them anew.

    Exchanges one action of an episode for another, so it does not depend on `resample`.
    """
    game, rng = sample.game, random.Random(0)
    hidden = hidden_twins(sample, rng)
    for state, twin, seat in hidden[:1000]:
        demand(
            game.information == "imperfect",
            "in a perfect-information game each state has its own information state",
            state,
            twin,
            fix="Return the state as information_state, or declare 'imperfect'.",
        )
        seat_view, twin_view = view(game, state, seat), view(game, twin, seat)
        demand(
            seat_view == twin_view,
            "what a seat cannot know shows in no text, features or mask; got "
            + difference(seat_view, twin_view),
            fix="Do not show what differs, or put it into information_state.",
        )
    for state, twin, seat in hidden[:20]:
        draws = (game.resample(state, seat, rng) for _ in range(MAX_DRAWS))
        demand(
            any(draw != state for draw in draws),
            "resample also draws other states that the seat cannot tell from this one",
            state,
            twin,
            fix="Redraw all that the seat cannot see.",
        )


def hidden_twins(
    sample: Sample, rng: random.Random, num_episodes: int = 5
) -> list[tuple[Any, Any, int]]:
    """Pairs of different states of episodes, each with a seat that cannot tell them apart."""
    game, hidden = sample.game, []
    for episode in sample.episodes[:num_episodes]:
        indices = range(len(episode) - 1)
        for index in rng.sample(indices, min(len(indices), MAX_CHANGES)):
            for state, twin in _twins(game, episode, index, rng):
                for seat in range(game.num_players):
                    keys = [game.information_state(s, seat) for s in (state, twin)]
                    if keys[0] == keys[1]:
                        hidden.append((state, twin, seat))
    return hidden


def _twins(
    game: AnyGame, episode: RandomEpisode, index: int, rng: random.Random
) -> Iterator[tuple[Any, Any]]:
    """Pairs of decision states: of an episode, and after another action at `index`."""
    twin, action_of_episode = episode[index]
    others = [
        action for action in possible_actions(game, twin) if action != action_of_episode
    ]
    if not others:
        return
    twin = game.apply(twin, rng.choice(others))
    for state, action in episode[index + 1 :]:
        player = game.current_player(state)
        if game.current_player(twin) != player:
            return
        if player >= 0 and twin != state:
            yield state, twin
        if action not in possible_actions(game, twin):
            return
        twin = game.apply(twin, action)


MAX_PAIRS = 200  # of states with the same text
MAX_ACTIONS = 40  # of a pair
MAX_OUTCOMES = 6  # of a chance node, followed
MAX_DEPTH = 3  # chance nodes in a row, followed


def check_sufficiency(sample: Sample) -> None:
    """The text tells the seat to move what it can do and what can follow.

    In every game, states with the same text have the same legal actions. Returns and
    successors are compared in games of perfect information only. With imperfect information
    they also depend on what is hidden, and a text may leave out the seat's past, which
    `information_state` keeps (see `check_knowledge`). So in these games the check does not
    find a text without a public fact, such as the size of the pot.
    """
    game, num_pairs = sample.game, 0
    first_states: dict[tuple[int, str], Any] = {}
    for state in sample.states():
        seat = game.current_player(state)
        if seat < 0:
            continue
        text = game.observe(state, seat)
        first_state = first_states.setdefault((seat, text), state)
        if first_state == state or num_pairs == MAX_PAIRS:
            continue
        num_pairs += 1
        legal, second_legal = (
            list(game.legal_actions(first_state)),
            list(game.legal_actions(state)),
        )
        demand(
            legal == second_legal,
            "one text at a seat's turn has one set of legal actions",
            text,
            legal,
            second_legal,
            fix="Put into the text what decides which actions are legal.",
        )
        if game.information == "perfect":
            _check_same_play(game, text, first_state, state)


def _check_same_play(
    game: AnyGame, text: str, first: AnyState, second: AnyState
) -> None:
    """Two states with one text have the same returns, and so have their successors."""
    returns = [game.returns(state) for state in (first, second)]
    demand(
        returns[0] == returns[1],
        "one text of a perfect-information game has one return of each seat",
        text,
        *returns,
        fix="Put into the text what the seats have been paid.",
    )
    for action in list(game.legal_actions(first))[:MAX_ACTIONS]:
        follow = [_following(game, game.apply(s, action)) for s in (first, second)]
        demand(
            follow[0] == follow[1],
            "one text of a perfect-information game, and one action, lead to the same "
            "returns and texts",
            text,
            *first_unequal(follow[0], follow[1], ("", "")),
            fix="Put into the text what decides the difference.",
        )


def _following(game: AnyGame, state: AnyState, depth: int = 0) -> list[Any]:
    """All that seats are shown and paid next, chance outcomes with their probabilities."""
    if game.current_player(state) != CHANCE:
        seats = range(game.num_players)
        return [game.returns(state), *(game.observe(state, seat) for seat in seats)]
    follow: list[Any] = []
    for outcome, probability in game.chance_outcomes(state)[:MAX_OUTCOMES]:
        follow += [outcome, probability]
        if depth < MAX_DEPTH:
            follow += _following(game, game.apply(state, outcome), depth + 1)
    return follow


def first_unequal(
    first: Sequence[T], second: Sequence[T], default: tuple[T, T]
) -> tuple[T, T]:
    """The first entries that differ."""
    pairs = zip(first, second, strict=False)
    return next((pair for pair in pairs if pair[0] != pair[1]), default)
