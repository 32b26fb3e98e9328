"""Checks of what seats know: nothing hidden shows, nothing needed is missing or forgotten."""

import random
from collections.abc import Iterator
from typing import Any

from arena_envs.game import CHANCE, AnyGame
from arena_envs.sampling import possible_actions
from arena_envs.testing.sample import Episode, Sample, demand, random_episode, view

MAX_CHANGES = 40  # actions of an episode that are exchanged for others
MAX_DRAWS = 200  # after which resample should have drawn something else
MAX_PAIRS = 200  # of states with the same text
MAX_OUTCOMES = 6  # of a chance node, followed
MAX_DEPTH = 3  # chance nodes in a row, followed


def check_knowledge(sample: Sample) -> None:
    """The information state determines the view and, with perfect recall, the past."""
    game = sample.game
    seen: dict[Any, Any] = {}
    for episode in sample.episodes:
        pasts: list[tuple[Any, ...]] = [()] * game.num_players
        for state, action in episode:
            player = game.current_player(state)
            for seat in range(game.num_players):
                if player == CHANCE:  # nobody looks while chance has the turn
                    continue
                key = game.information_state(state, seat)
                shown = view(game, state, seat)
                rule = "one information state has one text, features and legal actions"
                known = seen.setdefault((seat, key), shown)
                demand(known == shown, rule, _difference(known, shown))
                if seat == player:
                    text, features, _ = shown
                    known = seen.setdefault((seat, features, "text"), text)
                    rule = "features tell apart what the text tells the seat to move"
                    demand(known == text, rule, known, text)
                if game.information == "imperfect" and seat == player:
                    past = pasts[seat]
                    known = seen.setdefault((seat, key, "past"), past)
                    rule = "one information state has one past of the seat (perfect recall)"
                    demand(known == past, rule, key)
                    pasts[seat] = (key, action)  # the key stands for what came before


def check_resampling(sample: Sample) -> None:
    """States that a seat cannot tell apart look alike to it, and can be played on."""
    game, rng = sample.game, random.Random(0)
    for state in sample.states():
        player = game.current_player(state)
        for seat in range(game.num_players):
            drawn = game.resample(state, seat, rng)
            rule = "resample leaves the seat to move as it is"
            demand(game.current_player(drawn) == player, rule, drawn)
            key = game.information_state(state, seat)
            rule = "resample keeps the information state of the seat"
            found = game.information_state(drawn, seat)
            demand(found == key, rule, found, key)
            shown, again = view(game, state, seat), view(game, drawn, seat)
            rule = "nothing that resample redraws shows in text, features or mask"
            demand(shown == again, rule, _difference(shown, again))
            if game.information == "perfect":
                rule = "a perfect-information game has nothing to resample"
                demand(drawn == state, rule, drawn)
    if game.information == "perfect":
        return
    for state in sample.states(5):
        for seat in range(game.num_players):
            drawn = game.resample(state, seat, random.Random(1))
            again = game.resample(state, seat, random.Random(1))
            demand(
                drawn == again, "resample draws from the given generator alone", again
            )
            random_episode(game, drawn, random.Random(2))


def check_hidden(sample: Sample) -> None:
    """What a seat cannot know does not show, and resample draws it anew.

    Found by exchanging one action of an episode for another, which resample has no part in.
    """
    game, rng = sample.game, random.Random(0)
    hidden = []
    for episode in sample.episodes[:5]:
        indices = range(len(episode) - 1)
        for index in rng.sample(indices, min(len(indices), MAX_CHANGES)):
            for state, twin in _twins(game, episode, index, rng):
                for seat in range(game.num_players):
                    keys = [game.information_state(s, seat) for s in (state, twin)]
                    if keys[0] == keys[1]:
                        hidden.append((state, twin, seat))
    for state, twin, seat in hidden[:1000]:
        rule = "in a perfect-information game each state has its own information state"
        demand(game.information == "imperfect", rule, state, twin)
        shown, again = view(game, state, seat), view(game, twin, seat)
        rule = "what a seat cannot know shows in no text, features or mask"
        demand(shown == again, rule, _difference(shown, again))
    for state, twin, seat in hidden[:20]:
        draws = (game.resample(state, seat, rng) for _ in range(MAX_DRAWS))
        rule = "resample draws other states, too, where a seat cannot tell them apart"
        demand(any(drawn != state for drawn in draws), rule, state, twin)


def _twins(
    game: AnyGame, episode: Episode, index: int, rng: random.Random
) -> Iterator[tuple[Any, Any]]:
    """Decision states of an episode beside those after another action at `index`."""
    twin, played = episode[index]
    others = [action for action in possible_actions(game, twin) if action != played]
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


def check_rounds(sample: Sample) -> None:
    """Where seats choose at once, nobody sees or is paid for a choice before its end."""
    game = sample.game
    if not game.simultaneous:
        return
    rng = random.Random(0)
    for episode in sample.episodes[:10]:
        seats = [p for s, _ in episode if (p := game.current_player(s)) >= 0]
        turns = [turn % game.num_players for turn in range(len(seats))]
        demand(
            seats == turns, "all seats choose in each round, in ascending order", seats
        )
        for state, _ in episode:
            if game.current_player(state) == 0:
                _check_round(game, state, rng)


def _check_round(game: AnyGame, start: Any, rng: random.Random) -> None:
    one = other = start
    for player in range(game.num_players):
        for seat in range(player, game.num_players):
            for state in (one, other):
                _check_alike(game, start, state, seat)
        paid = game.returns(start)
        rule = "nothing is paid before the end of a round"
        demand(game.returns(one) == paid, rule, game.returns(one))
        if player == game.num_players - 1:
            return
        action = rng.choice(game.legal_actions(one))
        chosen = game.apply(one, action)
        _check_alike(game, chosen, game.apply(other, action), player)
        one, other = chosen, game.apply(other, rng.choice(game.legal_actions(other)))


def check_sufficiency(sample: Sample) -> None:
    """The text tells the seat to move what it can do and what can follow.

    What follows is compared where information is perfect, which is where an information
    state may ignore history. With imperfect information it keeps the seat's past (perfect
    recall, see `check_knowledge`): a text may leave parts of that out, and what follows
    depends on hidden parts, too.
    """
    game, num_pairs = sample.game, 0
    seen: dict[tuple[int, str], Any] = {}
    for state in sample.states():
        seat = game.current_player(state)
        if seat < 0:
            continue
        text = game.observe(state, seat)
        known = seen.setdefault((seat, text), state)
        if known == state or num_pairs == MAX_PAIRS:
            continue
        num_pairs += 1
        legal, again = list(game.legal_actions(known)), list(game.legal_actions(state))
        rule = "one text at a seat's turn has one set of legal actions"
        demand(legal == again, rule, text, legal, again)
        if game.information == "imperfect":
            continue
        rule = "one text of a perfect-information game has one return of each seat"
        paid = [game.returns(s) for s in (known, state)]
        demand(paid[0] == paid[1], rule, text, *paid)
        for action in legal[:MAX_CHANGES]:
            follow = [_following(game, game.apply(s, action)) for s in (known, state)]
            rule = (
                "one text of a perfect-information game, and one action, lead to the same "
                "returns and texts"
            )
            demand(follow[0] == follow[1], rule, text, *_unequal(*follow))


def _following(game: AnyGame, state: Any, depth: int = 0) -> list[Any]:
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


def _unequal(one: list[Any], other: list[Any]) -> tuple[Any, Any]:
    """The first entries that differ."""
    return next(
        (pair for pair in zip(one, other, strict=False) if pair[0] != pair[1]), ("", "")
    )


def _check_alike(game: AnyGame, state: Any, other: Any, seat: int) -> None:
    shown, again = view(game, state, seat), view(game, other, seat)
    rule = "no text, features or mask shows another seat's choice of the running round"
    demand(shown == again, rule, _difference(shown, again))
    rule = "no information state shows another seat's choice of the running round"
    keys = [game.information_state(s, seat) for s in (state, other)]
    demand(keys[0] == keys[1], rule, *keys)


def _difference(shown: Any, again: Any) -> str:
    names = ("text", "features", "legal actions")
    for name, one, other in zip(names, shown, again, strict=True):
        if one != other:
            return f"two {name}: {one!r:.100} and {other!r:.100}"
    return "no difference"
