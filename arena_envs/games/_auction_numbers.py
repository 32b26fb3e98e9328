"""The auction in numbers: features of a seat, and measures of an episode."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena_envs.games import _auction_state as states
from arena_envs.games._auction_state import NOBODY, PHASES, State


def measured(game: Any, state: State) -> dict[str, float]:
    """Efficiency, revenue and overbids."""
    seats = range(game.num_players)
    best = had = paid = 0
    for item, (seat, price) in enumerate(state.sales):
        best += max(game.value(state, other, item) for other in seats)
        had += game.value(state, seat, item) if seat != NOBODY else 0
        paid += price
    over = [
        each.said.values[0] > game.value(state, each.seat, each.item)
        for each in state.past
        if each.said.move == "bid" and each.said.values[0]
    ]
    return {
        "efficiency": had / best if best else 1.0,
        "revenue": paid / (game.budget * game.num_players),
        "overbids": sum(over) / len(over) if over else 0.0,
    }


def features_of(game: Any, state: State, seat: int) -> NDArray[np.float32]:
    """What `Auction.features` returns."""
    n, whole = game.num_players, game.budget
    head = np.zeros(n + len(game.personas) + 6, np.float32)
    head[seat] = 1
    for persona in state.personas[seat : seat + 1]:
        head[n + persona] = 1
    head[n + len(game.personas) + PHASES.index(state.phase)] = 1
    head[-2:] = state.item, state.price / whole
    players = np.zeros((4, n), np.float32)
    players[0, state.mover] = 1
    if state.leader != NOBODY:
        players[1, state.leader] = 1
    players[2, list(state.dropped)] = 1
    players[3] = [states.left(state, other, whole) / whole for other in range(n)]
    items = np.zeros((len(game.items), 2 + 4 * n), np.float32)
    if len(state.personas) > seat:
        items[:, 0] = np.divide(game.values[state.personas[seat]], whole)
    for item, sale in enumerate(state.sales):
        items[item, 1] = sale.price / whole
        if sale.seat != NOBODY:
            items[item, 2 + sale.seat] = 1
    for item, _, other, said in states.known_events(state, seat):
        if said.message:
            items[item, 2 + n + other] = 1
        elif said.move == "bid":
            items[item, 2 + 2 * n + other] = 1
            items[item, 2 + 3 * n + other] = said.values[0] / whole
    return np.concatenate([head, players.ravel(), items.ravel()])
