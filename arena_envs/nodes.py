"""A cache of the states that environments have met, with what the rules say of each.

Rules are pure functions of the state, so an environment asks them once for each state. In
small games all states are soon in the cache. The successors of a state are kept from the
second time that the state is played.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from arena_envs.checks import short
from arena_envs.game import CHANCE, AnyGame, IllegalAction, legal_actions_of
from arena_envs.sampling import possible_outcomes
from arena_envs.spaces import MAX_TEXT, Content

MAX_NODES = 10_000  # of a game

View = tuple[NDArray[np.float32], NDArray[np.int8] | None]


class Node:
    """A state and what the rules say of it.

    Attributes:
        state: the state.
        player: the seat to move, `CHANCE` or `TERMINAL`.
        legal: legal actions, ascending.
        returns: what each seat has been paid so far.
        outcomes: at a chance node, the outcomes that can happen.
        cumulative: their probabilities, summed up to and including each.
        played: whether an action was played here.
        children: nodes by action, from the second action that is played here.
        views: by seat, features and action mask; None until somebody asks.
        texts: by seat, the observed text; None until somebody asks.
        legal_texts: canonical texts of the legal actions; None until somebody asks.
    """

    __slots__ = (
        "children",
        "cumulative",
        "legal",
        "legal_texts",
        "outcomes",
        "played",
        "player",
        "returns",
        "state",
        "texts",
        "views",
    )

    def __init__(self, game: AnyGame, state: Any) -> None:
        self.state = state
        self.player = game.current_player(state)
        self.legal = tuple(game.legal_actions(state)) if self.player >= 0 else ()
        self.returns = tuple(game.returns(state))
        self.outcomes: Sequence[Any] = ()
        self.cumulative: Sequence[float] = ()
        if self.player == CHANCE:
            self.outcomes, chances = map(
                list, zip(*game.chance_outcomes(state), strict=True)
            )
            if not all(chances):
                possible = possible_outcomes(game, state)
                self.outcomes, chances = map(list, zip(*possible, strict=True))
            self.cumulative = list(accumulate(chances))
        self.played = False
        self.children: dict[Any, Node] = {}
        self.views: list[View | None] = [None] * game.num_players
        self.texts: list[str | None] = [None] * game.num_players
        self.legal_texts: tuple[str, ...] | None = None


class Graph:
    """The nodes of a game, linked by actions.

    At `MAX_NODES` nodes the graph starts again with the root alone. Environments keep the
    nodes that they stand on.

    Attributes:
        game: the rules.
        root: the node of the initial state.
    """

    def __init__(self, game: AnyGame) -> None:
        self.game = game
        self._nodes: dict[Any, Node] = {}
        self.root = self.visit(game.initial_state())

    def visit(self, state: Any) -> Node:
        """The node of a state."""
        node = self._nodes.get(state)
        if node is None:
            if len(self._nodes) >= MAX_NODES:
                for old in list(self._nodes.values()):  # other threads add nodes
                    old.children.clear()  # else a node in use keeps its successors in memory
                self._nodes.clear()
                self.root = self.visit(self.root.state)
            node = self._nodes[state] = Node(self.game, state)
        return node

    def child(self, node: Node, action: Any) -> Node:
        """The node after a legal action or a possible outcome."""
        child = node.children.get(action)
        if child is None:
            state = self.game.apply(node.state, action)
            if not node.played:  # in big games most states are met once
                node.played = True
                return self._nodes.get(state) or Node(self.game, state)
            child = node.children[action] = self.visit(state)
        return child

    def view(self, node: Node, seat: int) -> View:
        """Features and action mask of a node for a seat; callers must not change them."""
        view = node.views[seat]
        if view is None:
            game, state = self.game, node.state
            mask = None
            if game.num_actions is not None:
                own = seat == node.player
                legal = node.legal if own else legal_actions_of(game, state, seat)
                mask = action_mask(game.num_actions, tuple(legal))
            view = node.views[seat] = (game.features(state, seat), mask)
        return view

    def text(self, node: Node, seat: int) -> str:
        """The text of a node for a seat."""
        text = node.texts[seat]
        if text is None:
            text = node.texts[seat] = self.game.observe(node.state, seat)
        return text

    def legal_texts(self, node: Node) -> tuple[str, ...]:
        """Canonical texts of the legal actions of a node, in their order."""
        texts = node.legal_texts
        if texts is None:
            game, state = self.game, node.state
            texts = tuple(game.action_text(state, action) for action in node.legal)
            node.legal_texts = texts
        return texts

    def observation(
        self, node: Node, seat: int, content: Content, may_act: bool
    ) -> dict[str, Any] | str:
        """What a seat observes at a node, as arrays of its own.

        Args:
            node: the node.
            seat: the seat.
            content: what the observation holds.
            may_act: whether the seat's episode goes on; if not, the mask is zero.
        """
        if content == "text":
            return self.text(node, seat)
        features, mask = node.views[seat] or self.view(node, seat)
        seen: dict[str, Any] = {"observation": features.copy()}
        if mask is not None:
            seen["action_mask"] = mask.copy() if may_act else np.zeros_like(mask)
        if content == "all":
            seen["text"] = self.text(node, seat)
        return seen


def parsed_action(game: AnyGame, node: Node, said: Any) -> Any:
    """The action that a text names in a language game; a legal action is returned as it is.

    Raises:
        IllegalAction: the text names no action or has more than `MAX_TEXT` characters.
        ValueError: `said` is neither a text nor a legal action.
    """
    if not isinstance(said, str):
        for action in node.legal:
            if type(said) is type(action) and said == action:
                return action
        raise ValueError(f"want a text as action, got {short(said)}")
    if len(said) > MAX_TEXT:
        raise IllegalAction(f"want at most {MAX_TEXT} characters, got {len(said)}")
    return game.parse(node.state, said)


@lru_cache(MAX_NODES)
def action_mask(num_actions: int, legal: tuple[int, ...]) -> NDArray[np.int8]:
    """int8[n], 1 for each legal action; callers must not change it, since equal masks are one array."""
    mask = np.zeros(num_actions, np.int8)
    mask[list(legal)] = 1
    return mask


# with repr, because equal games can have different texts (0.0 and -0.0, 1 and True)
_graphs: WeakValueDictionary[tuple[type, AnyGame, str], Graph] = WeakValueDictionary()


def graph_of(game: AnyGame) -> Graph:
    """The graph of a game; environments of equal games share one while any of them exists."""
    key = (type(game), game, repr(game))
    try:
        graph = _graphs.get(key)
    except TypeError:  # a parameter is not hashable
        return Graph(game)
    if graph is None:
        graph = _graphs[key] = Graph(game)
    return graph
