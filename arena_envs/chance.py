"""Draws of chance outcomes for an environment, given or random."""

import random
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

from arena_envs.checks import short
from arena_envs.game import CHANCE, AnyGame
from arena_envs.nodes import Graph, Node
from arena_envs.sampling import draw, possible_actions

MAX_SEARCHED = 1_000  # states that are visited to count chance nodes


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
            self._rng = random.Random(
                0
            )  # a fixed seed is faster than entropy of the system; setstate follows
            self._rng.setstate(state)
            self._shared = False
        return node.outcomes[draw(node.cumulative, self._rng.random())]

    def settle(self, graph: Graph, node: Node) -> tuple[Node, list[Any]]:
        """Plays chance until an agent is to move or the game is over."""
        drawn: list[Any] = []
        while node.player == CHANCE:
            outcome = self.draw(node)
            drawn.append(outcome)
            node = graph.child(node, outcome)
        return node, drawn

    def copy(self) -> "Chance":
        """A copy that draws the same outcomes; the first draw of either copies the generator."""
        other = Chance.__new__(Chance)
        other.given, other._rng = self.given, self._rng
        other._shared = self._shared = True
        return other


def given_outcomes(options: Mapping[str, Any] | None) -> tuple[Any, ...]:
    """The chance outcomes among the options of `reset`.

    Raises:
        ValueError: the options are no mapping, the outcomes no list, or a key is nearly
            `"chance"`, or is `"sample"`. Other keys are ignored, as PettingZoo's tests pass
            some.
    """
    if options is not None and not isinstance(options, Mapping):
        raise ValueError(
            f"want options as a mapping such as {{'chance': [2, 0]}}, got {short(options)}"
        )
    for name in options or ():
        if name == "sample":
            raise ValueError(
                "option 'sample' of reset is one of SeatEnv, where opponents choose; leave it "
                "out, or make a SeatEnv"
            )
        if name != "chance" and get_close_matches(str(name), ["chance"]):
            raise ValueError(
                f"unknown option {short(name)} of reset; did you mean 'chance'?"
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
    """Refuses more chance outcomes than an episode can draw.

    The limit is `Game.max_chance_nodes`. If that is None, it is counted in games of at most
    `MAX_SEARCHED` states; larger games accept any number.

    Args:
        game: the rules.
        state: the first state in which a seat is to move, or the last one.
        num_drawn: outcomes drawn before it.
        num_left: given outcomes that were not drawn.

    Raises:
        ValueError: an episode has fewer chance nodes.
    """
    if not num_left:
        return
    most = getattr(game, "max_chance_nodes", None)
    if most is None:
        more = _most_draws(game, state)
        most = None if more is None else num_drawn + more
    if most is not None and num_drawn + num_left > most:
        raise ValueError(
            f"want at most {most} chance outcomes, got {num_drawn + num_left}: give "
            "fewer outcomes"
        )


def _most_draws(game: AnyGame, state: Any) -> int | None:
    """The most chance nodes between a state and the end; None in large games."""
    seen, most = set[Any](), 0
    ahead: list[tuple[Any, int]] = [(state, 0)]
    while ahead:
        state, num_draws = ahead.pop()
        if (state, num_draws) in seen:
            continue
        if len(seen) == MAX_SEARCHED:
            return None
        seen.add((state, num_draws))
        num_draws += game.current_player(state) == CHANCE
        most = max(most, num_draws)
        for action in possible_actions(game, state):
            ahead.append((game.apply(state, action), num_draws))
    return most
