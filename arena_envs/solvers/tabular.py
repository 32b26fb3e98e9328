"""Tabular policies: their expected returns, best responses to them, and NashConv.

A table gives, for each (seat, information state) in which the seat is to move, the
probabilities of its legal actions. All states of a game are enumerated at the first call
and remembered; after that a call is a sweep over arrays.
"""

from typing import Any, NamedTuple

from arena_envs.game import AnyGame, np
from arena_envs.solvers.enumeration import MAX_STATES, Key, Table
from arena_envs.solvers.tree import (
    best_response_of,
    edge_weights,
    game_tree,
    reach_of,
    uniform_policy,
    values_of,
)


class BestResponse(NamedTuple):
    """The most that a seat gains against the others, and the policy that gains it.

    Attributes:
        value: expected return of the seat.
        table: its policy, without chance: 1 at one action of each information state.
    """

    value: float
    table: dict[Key, list[float]]


def information_states(game: AnyGame, max_states: int = MAX_STATES) -> dict[Key, Any]:
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
) -> dict[Key, list[float]]:
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
    game: AnyGame, table: Table, max_states: int = MAX_STATES
) -> dict[Key, list[float]]:
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
    game: AnyGame, table: Table, max_states: int = MAX_STATES
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
    game: AnyGame, table: Table, max_states: int = MAX_STATES
) -> dict[Key, list[float]]:
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
    game: AnyGame, table: Table, seat: int, max_states: int = MAX_STATES
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
    game: AnyGame, table: Table, seat: int, max_states: int = MAX_STATES
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


def nash_conv(game: AnyGame, table: Table, max_states: int = MAX_STATES) -> float:
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


def exploitability(game: AnyGame, table: Table, max_states: int = MAX_STATES) -> float:
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
