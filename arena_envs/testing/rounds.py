"""Checks of games in which all seats choose at the same time."""

import random
from typing import Any

from arena_envs.game import AnyGame
from arena_envs.testing.sample import Sample, demand, difference, view


def check_rounds(sample: Sample) -> None:
    """Where seats choose at once, nobody sees or is paid for a choice before its end."""
    game = sample.game
    if not game.simultaneous:
        return
    rng = random.Random(0)
    for episode in sample.episodes[:10]:
        seats = [p for s, _ in episode if (p := game.current_player(s)) >= 0]
        demand(
            seats == [turn % game.num_players for turn in range(len(seats))],
            "all seats choose in each round, in ascending order",
            seats,
            fix="Let every seat choose once in each round, or set simultaneous = False.",
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
        demand(
            game.returns(one) == game.returns(start),
            "nothing is paid before the end of a round",
            game.returns(one),
            fix="Pay after the last seat's choice, or set simultaneous = False.",
        )
        if player == game.num_players - 1:
            return
        action = rng.choice(game.legal_actions(one))
        chosen = game.apply(one, action)
        _check_alike(game, chosen, game.apply(other, action), player)
        one, other = chosen, game.apply(other, rng.choice(game.legal_actions(other)))


def _check_alike(game: AnyGame, state: Any, other: Any, seat: int) -> None:
    advice = "Show choices after the last seat's choice, or set simultaneous = False."
    shown, again = view(game, state, seat), view(game, other, seat)
    rule = "no text, features or mask shows another seat's choice of the running round"
    demand(shown == again, rule, difference(shown, again), fix=advice)
    rule = "no information state shows another seat's choice of the running round"
    keys = [game.information_state(s, seat) for s in (state, other)]
    demand(keys[0] == keys[1], rule, *keys, fix=advice)
