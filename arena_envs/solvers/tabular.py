"""Tabular policies: their expected returns, best responses to them, and NashConv.

A table gives, for each (seat, information state) in which the seat is to move, the
probabilities of its legal actions. A game is arrays, for sweeps over all of its states at once:
they are enumerated at the first call and remembered.

States that are equal after the same number of actions are one node, so that the "tree" of
tic-tac-toe has 5,478 nodes and not 549,946. Nodes are numbered by layer: every edge leads
to a later layer, and all nodes of an information set share one. A policy is a vector with
one entry, called a column, for each (information set, legal action).

Sweeps over it compute reach probabilities and values of its nodes. Weights are
float64[num_edges], in the order of `Tree.source`. A policy is float64[num_columns]. Reach and
values are float64[num_nodes].
"""

from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Any, NamedTuple

from arena_envs.game import TERMINAL, AnyGame, Floats, InfosetKey, Ints, np
from arena_envs.solvers.enumeration import (
    MAX_STATES,
    Enumeration,
    InfosetTable,
    Memory,
    TooLarge,
    too_large,
    too_many_states,
)

MAX_TREES = 4  # kept in memory


class Layer(NamedTuple):
    """The nodes of a layer, the edges out of them and the edges into them.

    Attributes:
        nodes: all nodes.
        inner: the nodes that have edges.
        out_starts: where the edges of each inner node start within `out`.
        out: the edges out of the inner nodes.
        into: the edges into `nodes`, as part of `Tree.by_target`.
        into_starts: where the edges of each node start within `into`.
    """

    nodes: slice
    inner: Ints
    out_starts: Ints
    out: slice
    into: slice
    into_starts: Ints


class LayerBlock(NamedTuple):
    """The decisions of one seat in one layer.

    Attributes:
        edges: the edges that are actions of this seat.
        columns: the columns of its information sets here.
        starts: where those of each information set start within `columns`.
    """

    edges: Ints
    columns: slice
    starts: Ints


class Tree:
    """All states of a game.

    Attributes:
        num_players: number of seats.
        num_nodes: number of states.
        keys: (seat, information state) of each information set, by seat and layer.
        states: one state of each information set.
        widths: number of legal actions of each information set.
        offsets: first column of each information set, and the number of all columns.
        players: of each node, the seat to move, `CHANCE` or `TERMINAL`.
        payoffs: float64[num_nodes, num_players], returns at the end, zero elsewhere.
        source, target: the nodes of each edge; edges are sorted by source.
        column: column of each edge, or the number of all columns at chance edges.
        chance: probability of each chance edge; 1 at others.
        by_target: the edges, sorted by target.
        sorted_source: the sources of these.
        layers: the layers in order.
        decisions: by seat, the edges that are its actions.
        blocks: by seat, what it decides in each layer where it does.
        infosets: by seat, its part of `keys`.
        columns: by seat, its part of the columns.
    """

    def __init__(self, game: AnyGame, max_states: int = MAX_STATES) -> None:
        enumeration = Enumeration(game, max_states)
        self.num_players = game.num_players
        self.num_nodes = len(enumeration.players)
        layer = enumeration.layers()
        node_order = np.argsort(layer, kind="stable")
        rank = np.argsort(node_order)
        layer, infoset = layer[node_order], np.array(enumeration.infosets)[node_order]
        self.players: Ints = np.array(enumeration.players)[node_order]
        self.payoffs = np.zeros((self.num_nodes, self.num_players))
        self.payoffs[rank[np.array(enumeration.players) == TERMINAL]] = (
            enumeration.payoffs
        )

        depths = np.zeros(len(enumeration.keys), np.intp)
        depths[infoset[infoset >= 0]] = layer[infoset >= 0]
        seats = np.array([seat for seat, _ in enumeration.keys], np.intp)
        order = np.lexsort((depths, seats))
        self.keys: list[InfosetKey] = [enumeration.keys[i] for i in order]
        self.states: list[Any] = [enumeration.states[i] for i in order]
        widths = [len(enumeration.actions[i]) for i in order]
        self.widths: Ints = np.array(widths, np.intp)
        self.offsets: Ints = np.append(0, np.cumsum(self.widths)).astype(np.intp)
        self._add_edges(enumeration, rank, np.append(np.argsort(order), -1)[infoset])

        self.layers = self._group_layers(layer)
        ends = np.searchsorted(seats[order], np.arange(self.num_players + 1))
        self.infosets = [slice(*part) for part in pairwise(ends)]
        self.columns = [slice(*part) for part in pairwise(self.offsets[ends])]
        movers = self.players[self.source]
        self.decisions = [np.flatnonzero(movers == s) for s in range(self.num_players)]
        self.blocks = [
            self._group_decisions(seat, depths[order], layer)
            for seat in range(self.num_players)
        ]

    @property
    def num_columns(self) -> int:
        """Number of (information set, legal action)."""
        return int(self.offsets[-1])

    def vector(self, table: InfosetTable) -> Floats:
        """A table as float64[num_columns].

        Raises:
            ValueError: an information state is missing, or its row does not fit.
        """
        rows = [table.get(key) for key in self.keys]
        for key, row, width in zip(self.keys, rows, self.widths, strict=True):
            if row is None or len(row) != width:
                raise ValueError(
                    f"want {width} probabilities for information state {key}, got {row}"
                )
        flat = chain.from_iterable(row for row in rows if row is not None)
        policy = np.fromiter(flat, np.float64, self.num_columns)
        sums = np.add.reduceat(policy, self.offsets[:-1]) if rows else policy
        wrong = np.abs(sums - 1) > 1e-4
        wrong |= np.isnan(sums)
        if rows:
            wrong |= np.minimum.reduceat(policy, self.offsets[:-1]) < 0
        for i in np.flatnonzero(wrong):
            raise ValueError(
                f"want probabilities that sum to 1 for information state {self.keys[i]}, "
                f"got {rows[i]}"
            )
        return policy

    def table(self, policy: Floats) -> dict[InfosetKey, list[float]]:
        """A vector as table."""
        values, ends = policy.tolist(), self.offsets.tolist()
        return {key: values[ends[i] : ends[i + 1]] for i, key in enumerate(self.keys)}

    def _add_edges(self, enumeration: Enumeration, rank: Ints, infoset: Ints) -> None:
        source = rank[np.array(enumeration.source, np.intp)]
        order = np.argsort(source, kind="stable")
        self.source: Ints = source[order]
        self.target: Ints = rank[np.array(enumeration.target, np.intp)][order]
        self.by_target = np.argsort(self.target, kind="stable")
        self.sorted_source = self.source[self.by_target]
        self.chance = np.array(enumeration.chance)[order]
        first = self.offsets[infoset[self.source]]
        column = first + np.array(enumeration.slots, np.intp)[order]
        decided = infoset[self.source] >= 0
        self.column: Ints = np.where(decided, column, self.num_columns)

    def _group_layers(self, layer: Ints) -> list[Layer]:
        bounds = np.arange(layer[-1] + 2)
        sorted_target = self.target[self.by_target]
        return [
            Layer(
                slice(*nodes),
                *np.unique(self.source[slice(*out)], return_index=True),
                slice(*out),
                slice(*into),
                np.unique(sorted_target[slice(*into)], return_index=True)[1],
            )
            for nodes, out, into in zip(
                pairwise(np.searchsorted(layer, bounds)),
                pairwise(np.searchsorted(layer[self.source], bounds)),
                pairwise(np.searchsorted(layer[sorted_target], bounds)),
                strict=True,
            )
        ]

    def _group_decisions(
        self, seat: int, depths: Ints, layer: Ints
    ) -> dict[int, LayerBlock]:
        infosets = self.infosets[seat]
        edges = self.decisions[seat]
        edge_layers = layer[self.source[edges]]
        blocks = {}
        for number in np.unique(depths[infosets]).tolist():
            bounds = np.searchsorted(depths[infosets], [number, number + 1])
            first, last = (infosets.start + bounds).tolist()
            columns = slice(self.offsets[first], self.offsets[last])
            starts = self.offsets[first:last] - columns.start
            blocks[number] = LayerBlock(edges[edge_layers == number], columns, starts)
        return blocks


_trees = Memory[Tree](MAX_TREES)
_refused = Memory[list[int]](100)  # a limit that each game is known to exceed


def game_tree(game: AnyGame, max_states: int = MAX_STATES) -> Tree:
    """The tree of a game; those of the last few games are remembered.

    Raises:
        TooLarge: the game has more states than `max_states`.
    """
    exceeded = _refused.recall(game, lambda: [0])
    if max_states <= exceeded[0]:
        raise too_many_states(game, max_states)
    try:
        tree = _trees.recall(game, lambda: Tree(game, max_states))
    except TooLarge:
        exceeded[0] = max_states
        raise
    if tree.num_nodes > max_states:
        raise too_large(game, f"{tree.num_nodes} states", f"max_states={max_states}")
    return tree


def uniform_policy(tree: Tree) -> Floats:
    """The policy that plays each legal action with the same probability."""
    policy: Floats = 1 / np.repeat(tree.widths, tree.widths)
    return policy


def normalise(tree: Tree, policy: Floats) -> Floats:
    """Rows scaled to sum to 1; uniform where they are zero."""
    sums = np.repeat(np.add.reduceat(policy, tree.offsets[:-1]), tree.widths)
    scaled = uniform_policy(tree)
    np.divide(policy, sums, out=scaled, where=sums > 0)
    return scaled


def edge_weights(tree: Tree, policy: Floats, seats: Sequence[int]) -> Floats:
    """Probability of each edge if chance and these seats alone decided, others 1."""
    factors = np.ones(tree.num_columns + 1)
    for seat in seats:
        factors[tree.columns[seat]] = policy[tree.columns[seat]]
    weights: Floats = tree.chance * factors[tree.column]
    return weights


def reach_of(tree: Tree, weights: Floats) -> Floats:
    """Sum over the paths to each node of the product of their weights."""
    reach = np.ones(tree.num_nodes)
    sorted_weights = weights[tree.by_target]
    for layer in tree.layers[1:]:
        part = reach[tree.sorted_source[layer.into]] * sorted_weights[layer.into]
        reach[layer.nodes] = np.add.reduceat(part, layer.into_starts)
    return reach


def values_of(tree: Tree, weights: Floats, seat: int) -> Floats:
    """Expected return of a seat from each node on, by the weights of the edges."""
    values = tree.payoffs[:, seat].copy()
    for layer in reversed(tree.layers):
        if len(layer.inner):
            part = weights[layer.out] * values[tree.target[layer.out]]
            values[layer.inner] = np.add.reduceat(part, layer.out_starts)
    return values


def best_response_of(tree: Tree, policy: Floats, seat: int) -> tuple[float, Floats]:
    """Value of a seat's best response, and the policy with it in place.

    At each information set I the seat takes the first action with the largest
    Σ_{h ∈ I} π₋ᵢ(h) v(ha), with π₋ᵢ the probability that chance and the others
    reach h.
    """
    others = [s for s in range(tree.num_players) if s != seat]
    weights = edge_weights(tree, policy, others)
    reach = reach_of(tree, weights)
    values = tree.payoffs[:, seat].copy()
    policy = policy.copy()
    for number, layer in reversed(list(enumerate(tree.layers))):
        block = tree.blocks[seat].get(number)
        if block:
            edges, columns = block.edges, block.columns
            part = reach[tree.source[edges]] * values[tree.target[edges]]
            local = tree.column[edges] - columns.start
            gains = np.zeros(columns.stop - columns.start)
            np.add.at(gains, local, part)
            choice = _first_maxima(gains, block.starts)
            policy[columns] = choice
            weights[edges] = choice[local]
        if len(layer.inner):
            part = weights[layer.out] * values[tree.target[layer.out]]
            values[layer.inner] = np.add.reduceat(part, layer.out_starts)
    return float(values[0]), policy


def _first_maxima(gains: Floats, starts: Ints) -> Floats:
    """1 at the first of the largest entries of each part, else 0."""
    widths = np.diff(np.append(starts, len(gains)))
    largest = np.repeat(np.maximum.reduceat(gains, starts), widths)
    hits = np.flatnonzero(gains >= largest)
    part = np.repeat(np.arange(len(starts)), widths)[hits]
    choice = np.zeros(len(gains))
    choice[hits[np.unique(part, return_index=True)[1]]] = 1
    return choice


class BestResponse(NamedTuple):
    """The most that a seat gains against the others, and the policy that gains it.

    Attributes:
        value: expected return of the seat.
        table: its policy, without chance: 1 at one action of each information state.
    """

    value: float
    table: dict[InfosetKey, list[float]]


def information_states(
    game: AnyGame, max_states: int = MAX_STATES
) -> dict[InfosetKey, Any]:
    """A state of each information state in which a seat is to move.

    Args:
        game: the rules.
        max_states: limit of the walk.

    Raises:
        TooLarge: the game has more states than `max_states`.

    >>> from arena_envs import make_game
    >>> len(information_states(make_game("kuhn_poker")))
    12
    """
    tree = game_tree(game, max_states)
    return dict(zip(tree.keys, tree.states, strict=True))


def uniform_table(
    game: AnyGame, max_states: int = MAX_STATES
) -> dict[InfosetKey, list[float]]:
    """The policy that plays each legal action with the same probability.

    Args:
        game: the rules.
        max_states: limit of the enumeration.

    Raises:
        TooLarge: the game has more states than `max_states`.
    """
    tree = game_tree(game, max_states)
    return tree.table(uniform_policy(tree))


def complete_table(
    game: AnyGame, table: InfosetTable, max_states: int = MAX_STATES
) -> dict[InfosetKey, list[float]]:
    """A table with uniform play where it has no row, as sampling solvers leave some out.

    Args:
        game: the rules.
        table: some rows.
        max_states: limit of the enumeration.

    Raises:
        TooLarge: the game has more states than `max_states`.
    """
    uniform = uniform_table(game, max_states)
    return {key: list(table.get(key, row)) for key, row in uniform.items()}


def expected_returns(
    game: AnyGame, table: InfosetTable, max_states: int = MAX_STATES
) -> tuple[float, ...]:
    """Expected return of each seat when all play by the table.

    Args:
        game: the rules.
        table: a row for each information state, of all seats.
        max_states: limit of the enumeration.

    Raises:
        TooLarge: the game has more states than `max_states`.
        ValueError: the table lacks an information state, or a row does not fit.

    >>> from arena_envs import make_game
    >>> game = make_game("kuhn_poker")
    >>> [round(value, 6) for value in expected_returns(game, uniform_table(game))]
    [0.125, -0.125]
    """
    tree = game_tree(game, max_states)
    seats = range(tree.num_players)
    weights = edge_weights(tree, tree.vector(table), seats)
    return tuple(float(values_of(tree, weights, seat)[0]) for seat in seats)


def action_values(
    game: AnyGame, table: InfosetTable, max_states: int = MAX_STATES
) -> dict[InfosetKey, list[float]]:
    """Expected return of the seat to move for each legal action, all playing by the table.

        Q(I, a) = Σ_{h ∈ I} π₋ᵢ(h) v(ha) / Σ_{h ∈ I} π₋ᵢ(h)

    with π₋ᵢ(h) the probability that chance and the others reach h. With perfect recall, it is
    in proportion to the probability of h given I. The value of I itself is the mean of its
    row, weighted by the table's.

    Args:
        game: the rules.
        table: a row for each information state, of all seats.
        max_states: limit of the enumeration.

    Returns:
        A row for each information state; NaN where the others never lead to it.

    Raises:
        ValueError: as for `expected_returns`.

    >>> from arena_envs import make_game
    >>> game = make_game("kuhn_poker")
    >>> action_values(game, uniform_table(game))[1, (1, 2, (1,))]  # a king after a bet
    [-1.0, 2.0]
    """
    tree = game_tree(game, max_states)
    policy, seats = tree.vector(table), range(tree.num_players)
    weights = edge_weights(tree, policy, seats)
    total, mass = np.zeros((2, tree.num_columns))
    for seat in seats:
        others = edge_weights(tree, policy, [s for s in seats if s != seat])
        edges = tree.decisions[seat]
        reach = reach_of(tree, others)[tree.source[edges]]
        worth = reach * values_of(tree, weights, seat)[tree.target[edges]]
        np.add.at(total, tree.column[edges], worth)
        np.add.at(mass, tree.column[edges], reach)
    unreached = np.full(tree.num_columns, np.nan)
    return tree.table(np.divide(total, mass, out=unreached, where=mass > 0))


def best_response(
    game: AnyGame, table: InfosetTable, seat: int, max_states: int = MAX_STATES
) -> BestResponse:
    """The best that a seat can do while the others play by the table.

    At each information state I it takes the first action with the largest
    Σ_{h ∈ I} π₋ᵢ(h) v(ha), with π₋ᵢ the probability that chance and the others reach h.
    Perfect recall makes the recursion well founded.

    Args:
        game: the rules.
        table: a row for each information state; those of `seat` make no difference.
        seat: who responds.
        max_states: limit of the enumeration.

    Raises:
        ValueError: as for `expected_returns`, or there is no such seat.

    >>> from arena_envs import make_game
    >>> game = make_game("kuhn_poker")
    >>> response = best_response(game, uniform_table(game), 0)
    >>> response.value, response.table[0, (0, 2, (0, 1))]  # a king calls
    (0.5, [0.0, 1.0])
    """
    tree = game_tree(game, max_states)
    if seat not in range(tree.num_players):
        raise ValueError(f"want a seat from 0 to {tree.num_players - 1}, got {seat}")
    value, policy = best_response_of(tree, tree.vector(table), seat)
    rows = tree.table(policy)
    return BestResponse(value, {key: rows[key] for key in tree.keys if key[0] == seat})


def best_response_value(
    game: AnyGame, table: InfosetTable, seat: int, max_states: int = MAX_STATES
) -> float:
    """Expected return of a seat that plays best against the others' table.

    Args:
        game: the rules.
        table: as for `best_response`.
        seat: who responds.
        max_states: limit of the enumeration.

    Raises:
        ValueError: as for `best_response`.
    """
    return best_response(game, table, seat, max_states).value


def nash_conv(
    game: AnyGame, table: InfosetTable, max_states: int = MAX_STATES
) -> float:
    """Σᵢ (best response value of seat i - expected return of seat i); 0 at equilibrium.

    Lanctot et al., *A Unified Game-Theoretic Approach to Multiagent Reinforcement
    Learning* (2017), https://arxiv.org/abs/1711.00832.

    Args:
        game: the rules.
        table: a row for each information state, of all seats.
        max_states: limit of the enumeration.

    Raises:
        ValueError: as for `expected_returns`.

    >>> from arena_envs import make_game
    >>> game = make_game("kuhn_poker")
    >>> round(nash_conv(game, uniform_table(game)), 6)  # 11/12
    0.916667
    """
    tree = game_tree(game, max_states)
    policy, seats = tree.vector(table), range(tree.num_players)
    weights = edge_weights(tree, policy, seats)
    gains = [
        best_response_of(tree, policy, seat)[0] - values_of(tree, weights, seat)[0]
        for seat in seats
    ]
    return float(np.sum(gains))


def exploitability(
    game: AnyGame, table: InfosetTable, max_states: int = MAX_STATES
) -> float:
    """`nash_conv` per seat.

    Args:
        game: the rules.
        table: a row for each information state, of all seats.
        max_states: limit of the enumeration.

    Raises:
        ValueError: as for `expected_returns`.

    >>> from arena_envs import make_game
    >>> game = make_game("kuhn_poker")
    >>> round(exploitability(game, uniform_table(game)), 6)  # 11/24
    0.458333
    """
    return nash_conv(game, table, max_states) / game.num_players
