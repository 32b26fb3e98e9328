"""Monte Carlo tree search over information states, for hidden information."""

import random
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import log, sqrt
from typing import Any

from arena_envs.bots.mcts import check_search, rollout
from arena_envs.game import CHANCE, TERMINAL, AnyGame, sample_chance


@dataclass(frozen=True)
class ISMCTS:
    """Information-set Monte Carlo tree search.

    Every simulation starts from a random state that the seat cannot tell from the true one
    (`Game.resample`). Nodes are information states of the seat to move. The bot knows no
    more than its seat. It infers nothing from the actions of others: all states are drawn
    as `resample` draws them. Ties in visits are broken at random. Cowling, Powley and
    Whitehouse, *Information Set Monte Carlo Tree Search* (2012), with one tree per player.

    Args:
        num_simulations: per action.
        exploration: c in Q + c √(ln N / n) for returns from -1 to 1; it is scaled to the
            game's returns.

    Raises:
        ValueError: a number is out of range.
        NotImplementedError: when it plays, the game hides information and has no
            `resample`.
    """

    num_simulations: int = 100
    exploration: float = 2.0

    def __post_init__(self) -> None:
        check_search(self.num_simulations, self.exploration)

    def __call__(self, game: AnyGame, state: Any, rng: random.Random) -> Any:
        return self.best(game, state, game.legal_actions(state), rng)

    def best(
        self, game: AnyGame, state: Any, legal: Sequence[Any], rng: random.Random
    ) -> Any:
        """The best of some legal actions."""
        if len(legal) == 1:
            return legal[0]
        seat = game.current_player(state)
        scale = self.exploration * (game.max_return - game.min_return) / 2
        nodes: dict[Hashable, _Node] = {}
        for _ in range(self.num_simulations):
            drawn = game.resample(state, seat, rng)
            _simulate(game, drawn, legal, nodes, scale, rng)
        root = nodes[seat, game.information_state(state, seat)]
        most = max(root.visits)
        return rng.choice([a for a, n in root.by_action(legal) if n == most])


class _Node:
    """Visits and returns of the actions of an information state, in a random order.

    The order breaks ties between equal bounds.
    """

    __slots__ = ("num_visits", "order", "totals", "visits")

    def __init__(self, num_actions: int, rng: random.Random) -> None:
        self.num_visits = 0
        self.visits = [0] * num_actions
        self.totals = [0.0] * num_actions
        self.order = list(range(num_actions))
        rng.shuffle(self.order)

    def by_action(self, legal: Sequence[Any]) -> list[tuple[Any, int]]:
        """Each action with its number of visits."""
        visits = zip(self.order, self.visits, strict=True)
        return [(legal[index], number) for index, number in visits]

    def choose(self, scale: float) -> int:
        """A place in the order."""
        if self.num_visits < len(self.order):
            return self.num_visits
        spread = scale * sqrt(log(self.num_visits))
        bounds = [
            total / visits + spread / sqrt(visits)
            for total, visits in zip(self.totals, self.visits, strict=True)
        ]
        return bounds.index(max(bounds))


def _simulate(
    game: AnyGame,
    state: Any,
    roots: Sequence[Any],
    nodes: dict[Hashable, _Node],
    scale: float,
    rng: random.Random,
) -> None:
    path: list[tuple[_Node, int, int]] = []
    is_new = False
    while not is_new and (player := game.current_player(state)) != TERMINAL:
        if player == CHANCE:
            state = game.apply(state, sample_chance(game, state, rng))
            continue
        key = (player, game.information_state(state, player))
        legal = game.legal_actions(state) if path else roots
        is_new = key not in nodes
        if is_new:
            nodes[key] = _Node(len(legal), rng)
        choice = nodes[key].choose(scale)
        path.append((nodes[key], choice, player))
        state = game.apply(state, legal[nodes[key].order[choice]])
    returns = rollout(game, state, rng)
    for node, choice, player in path:
        node.num_visits += 1
        node.visits[choice] += 1
        node.totals[choice] += returns[player]
