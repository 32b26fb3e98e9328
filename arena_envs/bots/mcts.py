"""Monte Carlo tree search: `MCTS` where nothing is hidden, `ISMCTS` over information states."""

import random
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import log, sqrt
from statistics import fmean
from typing import Any

from arena_envs.game import (
    CHANCE,
    TERMINAL,
    AnyGame,
    AnyState,
    sample_chance,
)


@dataclass(frozen=True)
class _TreeSearch:
    """The options of both searches, which are checked."""

    num_simulations: int = 100
    exploration: float = 2.0

    def __post_init__(self) -> None:
        if self.num_simulations < 1:
            raise ValueError(
                f"want num_simulations of 1 or more, got {self.num_simulations}"
            )
        if not self.exploration >= 0:
            raise ValueError(f"want exploration of 0 or more, got {self.exploration}")


@dataclass(frozen=True)
class MCTS(_TreeSearch):
    """Upper confidence trees with random rollouts and exact values (MCTS-Solver).

    Every simulation descends by the largest Q + c √(ln N / n), adds one node, and plays to
    the end at random. Returns at the end of the game are exact. They are backed up
    where the children determine them, so the end of a game is played exactly. Each seat
    maximises its own return; chance is sampled. Ties are broken at random.

    Kocsis and Szepesvári, *Bandit Based Monte-Carlo Planning* (2006); Winands et al.,
    *Monte-Carlo Tree Search Solver* (2008).

    Args:
        num_simulations: per action.
        exploration: c for returns from -1 to 1; it is scaled to the game's returns.

    Raises:
        ValueError: a number is out of range; when it plays, the game hides information.
    """

    def __call__(self, game: AnyGame, state: AnyState, rng: random.Random) -> Any:
        if game.information != "perfect" or game.simultaneous:
            raise ValueError(
                f"want a game of perfect information for MCTS, got {game!r}; use the "
                'bot "ismcts"'
            )
        legal = game.legal_actions(state)
        if len(legal) == 1:
            return legal[0]
        root = Node(game, state, TERMINAL)
        scale = self.exploration * (game.max_return - game.min_return) / 2
        for _ in range(self.num_simulations):
            _simulate(game, root, scale, rng)
            if root.proven:
                break
        return rng.choice(_best_actions(root))


class Node:
    """A node of the search tree.

    Attributes:
        state: the state.
        player: the seat to move, `CHANCE` or `TERMINAL`.
        mover: the seat that chose the action before this node.
        children: nodes by action, in the order in which they were tried.
        untried: actions without a node; None before the second visit.
        visits: number of simulations through this node.
        total: sum of the returns of `mover` in these.
        proven: exact returns with best play from here; () if they are unknown.
    """

    __slots__ = (
        "children",
        "mover",
        "player",
        "proven",
        "state",
        "total",
        "untried",
        "visits",
    )

    def __init__(self, game: AnyGame, state: AnyState, mover: int) -> None:
        self.state = state
        self.player = game.current_player(state)
        self.mover = mover
        self.children: dict[Any, Node] = {}
        self.untried: list[Any] | None = None
        self.visits = 0
        self.total = 0.0
        self.proven = tuple(game.returns(state)) if self.player == TERMINAL else ()


def rollout(game: AnyGame, state: AnyState, rng: random.Random) -> Sequence[float]:
    """Returns at the end of uniform random play."""
    current_player, legal_actions = game.current_player, game.legal_actions
    apply, draw = game.apply, rng.random
    while (player := current_player(state)) != TERMINAL:
        if player == CHANCE:
            state = apply(state, sample_chance(game, state, rng))
        else:
            legal = legal_actions(state)
            state = apply(state, legal[int(draw() * len(legal))])
    return game.returns(state)


def _simulate(game: AnyGame, root: Node, scale: float, rng: random.Random) -> None:
    node, path = root, [root]
    while not node.proven and (node.visits or node is root):
        node = _descend(game, node, scale, rng)
        path.append(node)
    returns = node.proven or rollout(game, node.state, rng)
    certain = bool(node.proven)
    for node in reversed(path):
        node.visits += 1
        if node.mover >= 0:
            node.total += returns[node.mover]
        if certain and not node.proven:
            certain = _prove(game, node)


def _descend(game: AnyGame, node: Node, scale: float, rng: random.Random) -> Node:
    """The child to go on with, new if one is untried."""
    children = node.children
    if node.player == CHANCE:
        action = sample_chance(game, node.state, rng)
        if action not in children:
            children[action] = Node(game, game.apply(node.state, action), CHANCE)
        return children[action]
    if node.untried is None:
        node.untried = list(game.legal_actions(node.state))
        rng.shuffle(node.untried)
    if node.untried:
        action = node.untried.pop()
        child = Node(game, game.apply(node.state, action), node.player)
        children[action] = child
        return child
    best, choice = float("-inf"), node
    player, spread = node.player, scale * sqrt(log(node.visits))
    for child in children.values():
        if child.proven:
            bound = child.proven[player]
        else:
            bound = child.total / child.visits + spread / sqrt(child.visits)
        if bound > best:
            best, choice = bound, child
    return choice


def _prove(game: AnyGame, node: Node) -> bool:
    """Whether the children determine the exact returns, which are then stored."""
    player = node.player
    if player == CHANCE:
        return False
    proven = [child.proven for child in node.children.values() if child.proven]
    best = max(proven, key=lambda returns: returns[player])
    all_known = not node.untried and len(proven) == len(node.children)
    if all_known or best[player] >= game.max_return:
        node.proven = best
    return bool(node.proven)


def _best_actions(root: Node) -> list[Any]:
    """The best proven actions, or the most visited ones if their mean return is larger."""
    player = root.player
    proven = {a: c.proven[player] for a, c in root.children.items() if c.proven}
    visits = {a: c.visits for a, c in root.children.items() if not c.proven}
    certain = _largest(proven)
    most_visited = _largest(visits)
    if not certain or not most_visited:
        return certain or most_visited
    mean = fmean(root.children[a].total / root.children[a].visits for a in most_visited)
    return certain if proven[certain[0]] >= mean else most_visited


def _largest(numbers: Mapping[Any, float]) -> list[Any]:
    """The keys of the largest number, in order."""
    best = max(numbers.values(), default=None)
    return [key for key, number in numbers.items() if number == best]


@dataclass(frozen=True)
class ISMCTS(_TreeSearch):
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

    def __call__(self, game: AnyGame, state: AnyState, rng: random.Random) -> Any:
        return self.best(game, state, game.legal_actions(state), rng)

    def best(
        self, game: AnyGame, state: AnyState, legal: Sequence[Any], rng: random.Random
    ) -> Any:
        """The best of some legal actions."""
        if len(legal) == 1:
            return legal[0]
        seat = game.current_player(state)
        scale = self.exploration * (game.max_return - game.min_return) / 2
        nodes: dict[Hashable, _Node] = {}
        for _ in range(self.num_simulations):
            sampled_state = game.resample(state, seat, rng)
            _sample_hidden(game, sampled_state, legal, nodes, scale, rng)
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


def _sample_hidden(
    game: AnyGame,
    state: AnyState,
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
