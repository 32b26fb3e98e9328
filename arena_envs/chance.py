"""Where an environment's chance comes from."""

import random
from bisect import bisect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from arena_envs.checks import short
from arena_envs.game import CHANCE, AnyGame
from arena_envs.nodes import Graph, Node

MAX_SEARCHED = 1_000  # states, for chance nodes to come


class Chance:
    """Draws outcomes of chance nodes: the given ones first, then random ones.

    Attributes:
        given: the outcomes that come next, in order.
    """

    __slots__ = ("_rng", "_shared", "given")

    def __init__(self) -> None:
        self.given: tuple[Any, ...] = ()
        self._rng = random.Random()
        self._shared = False

    def seed(self, seed: int) -> None:
        """Starts the generator anew."""
        self._rng = random.Random(seed)
        self._shared = False

    def draw(self, node: Node) -> Any:
        """The next outcome.

        Raises:
            ValueError: the given outcome cannot happen at this node.
        """
        if self.given:
            if self.given[0] not in node.outcomes:
                raise ValueError(
                    f"want a chance outcome among {node.outcomes}, "
                    f"got {short(self.given[0])}"
                )
            outcome = node.outcomes[node.outcomes.index(self.given[0])]
            self.given = self.given[1:]
            return outcome
        if self._shared:
            state = self._rng.getstate()
            self._rng = random.Random(0)  # any seed is quicker than asking the system
            self._rng.setstate(state)
            self._shared = False
        index = bisect(node.cumulative, self._rng.random())
        return node.outcomes[min(index, len(node.outcomes) - 1)]  # rounding: sum < 1

    def settle(self, graph: Graph, node: Node) -> tuple[Node, list[Any]]:
        """Plays chance until an agent is to move or the game is over."""
        drawn: list[Any] = []
        while node.player == CHANCE:
            outcome = self.draw(node)
            drawn.append(outcome)
            node = graph.child(node, outcome)
        return node, drawn

    def copy(self) -> "Chance":
        """One that draws the same; the generator is copied by whoever draws first."""
        other = Chance.__new__(Chance)
        other.given, other._rng = self.given, self._rng
        other._shared = self._shared = True
        return other


def given_outcomes(options: Mapping[str, Any] | None) -> tuple[Any, ...]:
    """The chance outcomes among the options of `reset`.

    Raises:
        ValueError: the options are no mapping, or the outcomes no list.
    """
    if options is not None and not isinstance(options, Mapping):
        raise ValueError(
            f"want options as a mapping such as {{'chance': [2, 0]}}, got {short(options)}"
        )
    given = (options or {}).get("chance", ())
    is_list = isinstance(given, Sequence | np.ndarray) and not isinstance(given, str)
    if not is_list:
        raise ValueError(
            f"want options['chance'] as a list of outcomes, got {short(given)}; a single "
            "outcome is a list of one"
        )
    return tuple(given)


def check_surplus(game: AnyGame, state: Any, num_drawn: int, num_left: int) -> None:
    """Refuses given outcomes of which some can never be drawn.

    Raises:
        ValueError: no way from a state to the end has `num_left` chance nodes.
    """
    most = _most_draws(game, state, num_left) if num_left else 0
    if most < num_left:
        raise ValueError(
            f"want at most {num_drawn + most} chance outcomes, got {num_drawn + num_left}: "
            "the game draws no more"
        )


def _most_draws(game: AnyGame, state: Any, wanted: int) -> int:
    """The most chance nodes on a way from a state to the end, counted up to `wanted`.

    Exact for games of at most `MAX_SEARCHED` states from here on. In larger ones it is
    `wanted` if so many random steps meet a chance node at all, else 0.
    """
    rng, seen, most = random.Random(0), set[Any](), 0
    ahead: list[tuple[Any, Any, int]] = [(state, None, 0)]
    while ahead:
        state, action, num_draws = ahead.pop()
        if action is not None:
            state = game.apply(state, action)
        if (state, num_draws) in seen:
            continue
        seen.add((state, num_draws))
        actions = list(game.legal_actions(state))
        if game.current_player(state) == CHANCE:
            actions, num_draws = [game.chance_outcomes(state)[0][0]], num_draws + 1
        most = max(most, num_draws)
        if most == wanted:
            return wanted
        if len(seen) == MAX_SEARCHED:
            return wanted if most else 0
        rng.shuffle(actions)
        ahead += [(state, action, num_draws) for action in actions]
    return most
