"""A cache of the states that environments have met, and draws of chance outcomes.

Rules are pure functions of the state, so an environment asks them once for each state. In
small games all states are soon in the cache. The successors of a state are kept from the
second time that the state is played.
"""

import random
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from itertools import accumulate
from typing import Any, Literal
from weakref import WeakValueDictionary

from arena_envs.checks import short
from arena_envs.game import (
    CHANCE,
    MAX_TEXT,
    AnyAction,
    AnyGame,
    AnyState,
    IllegalAction,
    Mask,
    Vector,
    draw,
    legal_actions_of,
    np,
    possible_actions,
    possible_outcomes,
)

MAX_NODES = 10_000  # of a game
Content = Literal["all", "features", "text"]  # of an observation

VectorView = tuple[Vector, Mask | None]


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

    def __init__(self, game: AnyGame, state: AnyState) -> None:
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
        self.views: list[VectorView | None] = [None] * game.num_players
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

    def visit(self, state: AnyState) -> Node:
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

    def child(self, node: Node, action: AnyAction) -> Node:
        """The node after a legal action or a possible outcome."""
        child = node.children.get(action)
        if child is None:
            state = self.game.apply(node.state, action)
            if not node.played:  # in big games most states are met once
                node.played = True
                return self._nodes.get(state) or Node(self.game, state)
            child = node.children[action] = self.visit(state)
        return child

    def view(self, node: Node, seat: int) -> VectorView:
        """Features and action mask of a node for a seat; callers must not change them."""
        view = node.views[seat]
        if view is None:
            game, state = self.game, node.state
            mask = None
            if game.num_actions is not None:
                is_own = seat == node.player
                legal = node.legal if is_own else legal_actions_of(game, state, seat)
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
        """The observation of a seat at a node, as arrays of its own.

        Args:
            node: the node.
            seat: the seat.
            content: what the observation holds.
            may_act: whether the seat's episode goes on; if not, the mask is zero.
        """
        if content == "text":
            return self.text(node, seat)
        features, mask = node.views[seat] or self.view(node, seat)
        content_arrays: dict[str, Any] = {"observation": features.copy()}
        if mask is not None:
            content_arrays["action_mask"] = (
                mask.copy() if may_act else np.zeros_like(mask)
            )
        if content == "all":
            content_arrays["text"] = self.text(node, seat)
        return content_arrays


def parsed_action(game: AnyGame, node: Node, reply: AnyAction) -> Any:
    """The action that a text names in a language game; a legal action is returned as it is.

    Raises:
        IllegalAction: the text names no action or has more than `MAX_TEXT` characters.
        ValueError: `reply` is neither a text nor a legal action.
    """
    if not isinstance(reply, str):
        for action in node.legal:
            if type(reply) is type(action) and reply == action:
                return action
        raise ValueError(f"want a text as action, got {short(reply)}")
    if len(reply) > MAX_TEXT:
        raise IllegalAction(f"want at most {MAX_TEXT} characters, got {len(reply)}")
    return game.parse(node.state, reply)


@lru_cache(MAX_NODES)
def action_mask(num_actions: int, legal: tuple[int, ...]) -> Mask:
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


MAX_SEARCHED = 1_000  # states that are visited to count chance nodes


# cached numbers per seed: most games draw few, and the episodes of a group share their seed
NUM_FIRST = 4


@lru_cache(1024)
def first_numbers(seed: int) -> tuple[float, ...]:
    """The numbers with which the generator of a seed begins."""
    rng = random.Random(seed)
    return tuple(rng.random() for _ in range(NUM_FIRST))


class Chance:
    """Draws outcomes of chance nodes: the given ones first, then random ones.

    A generator is made only if a seed needs more than `NUM_FIRST` numbers: making one takes longer
    than an episode of a small game.

    Attributes:
        given: the outcomes that come next, in order.
    """

    __slots__ = ("_num_drawn", "_rng", "_seed", "_shared", "given")

    def __init__(self) -> None:
        self.given: tuple[Any, ...] = ()
        self._seed: int | None = None  # whose generator is not made yet
        self._num_drawn = 0  # of the numbers of this seed
        self._rng = random.Random()
        self._shared = False

    def seed(self, seed: int) -> None:
        """Starts the numbers anew."""
        self._seed, self._num_drawn = seed, 0

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
        return node.outcomes[draw(node.cumulative, self._number())]

    def _number(self) -> float:
        """The next number of the generator."""
        if self._seed is not None:
            if self._num_drawn < NUM_FIRST:
                self._num_drawn += 1
                return first_numbers(self._seed)[self._num_drawn - 1]
            self._rng, self._shared = random.Random(self._seed), False
            self._seed = None
            for _ in range(NUM_FIRST):
                self._rng.random()
        if self._shared:
            state = self._rng.getstate()
            # any seed will do, as setstate follows; entropy of the system is slower
            self._rng = random.Random(0)
            self._rng.setstate(state)
            self._shared = False
        return self._rng.random()

    def settle(self, graph: Graph, node: Node) -> tuple[Node, list[Any]]:
        """Plays chance until an agent is to move or the game is over."""
        outcomes: list[Any] = []
        while node.player == CHANCE:
            outcome = self.draw(node)
            outcomes.append(outcome)
            node = node.children.get(outcome) or graph.child(node, outcome)
        return node, outcomes

    def copy(self) -> "Chance":
        """A copy that draws the same outcomes; the first draw of either copies the generator."""
        chance = Chance.__new__(Chance)
        chance.given, chance._rng = self.given, self._rng
        chance._seed, chance._num_drawn = self._seed, self._num_drawn
        chance._shared = self._shared = True
        return chance


def given_outcomes(options: Mapping[str, Any] | None) -> tuple[Any, ...]:
    """The chance outcomes among the options of `reset`.

    Raises:
        ValueError: the options are no mapping, the outcomes no list, or a key is nearly
            `"chance"`, or is `"sample"`. Other keys are ignored, as PettingZoo's tests pass
            some.
    """
    if options is None or (type(options) is dict and not options):
        return ()
    if not isinstance(options, Mapping):
        raise ValueError(
            f"want options as a mapping such as {{'chance': [2, 0]}}, got {short(options)}"
        )
    for name in options:
        if name == "sample":
            raise ValueError(
                "option 'sample' of reset is one of SeatEnv, where opponents choose; leave it "
                "out, or make a SeatEnv"
            )
        if name != "chance" and get_close_matches(str(name), ["chance"]):
            raise ValueError(
                f"unknown option {short(name)} of reset; did you mean 'chance'?"
            )
    outcomes = options.get("chance", ())
    is_list = isinstance(outcomes, Sequence | np.ndarray) and not isinstance(
        outcomes, str
    )
    if not is_list:
        raise ValueError(
            f"want options['chance'] as a list of outcomes, got {short(outcomes)}; a single "
            "outcome is a list of one"
        )
    return tuple(outcomes)


def check_surplus(
    game: AnyGame, state: AnyState, num_drawn: int, num_left: int
) -> None:
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


def _most_draws(game: AnyGame, state: AnyState) -> int | None:
    """The most chance nodes between a state and the end; None in large games."""
    visited, most = set[Any](), 0
    ahead: list[tuple[Any, int]] = [(state, 0)]
    while ahead:
        state, num_draws = ahead.pop()
        if (state, num_draws) in visited:
            continue
        if len(visited) == MAX_SEARCHED:
            return None
        visited.add((state, num_draws))
        num_draws += game.current_player(state) == CHANCE
        most = max(most, num_draws)
        for action in possible_actions(game, state):
            ahead.append((game.apply(state, action), num_draws))
    return most
