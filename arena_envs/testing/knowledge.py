"""Checks of what seats know: nothing hidden shows, and nothing known is forgotten."""

import random
from typing import Any

from arena_envs.game import CHANCE, AnyGame
from arena_envs.testing.sample import Sample, demand, random_episode, view


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
