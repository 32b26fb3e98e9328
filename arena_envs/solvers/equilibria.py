"""Exact equilibria of zero-sum games and of small matrices, and best policies of a team.

Linear programs solve zero-sum games, and need scipy: the extra `solve`.
"""

import math
import random
from itertools import combinations, product
from typing import Any, NamedTuple

from arena_envs.checks import install_advice
from arena_envs.game import TERMINAL, AnyGame, ArrayLike, Floats, InfosetKey, np
from arena_envs.solvers.enumeration import MAX_STATES, about, too_large
from arena_envs.solvers.tabular import (
    Tree,
    best_response_of,
    edge_weights,
    game_tree,
    normalise,
    values_of,
)


class ZeroSumSolution(NamedTuple):
    """An equilibrium of a two-player zero-sum game.

    Attributes:
        value: expected return of seat 0; seat 1 has the opposite.
        table: an equilibrium, with a row for each information state.
    """

    value: float
    table: dict[InfosetKey, list[float]]


class MatrixSolution(NamedTuple):
    """An equilibrium of a zero-sum matrix game.

    Attributes:
        value: what the row player gets.
        row: float64[m], probabilities of the rows.
        column: float64[n], probabilities of the columns.
    """

    value: float
    row: Floats
    column: Floats


def solve_matrix(payoffs: ArrayLike) -> MatrixSolution:
    """An equilibrium of a zero-sum matrix game.

    von Neumann, *Zur Theorie der Gesellschaftsspiele* (1928).

    Args:
        payoffs: float64[m, n], what the column player pays to the row player.

    Raises:
        ValueError: `payoffs` is no matrix, or not finite.
        ImportError: scipy is missing.

    >>> solution = solve_matrix([[0, -1, 2], [1, 0, -1], [-2, 1, 0]])
    >>> round(solution.value, 6), solution.row.round(4).tolist()
    (0.0, [0.25, 0.5, 0.25])
    """
    matrix = np.asarray(payoffs, np.float64)
    if matrix.ndim != 2 or not matrix.size or not np.isfinite(matrix).all():
        raise ValueError(f"want a finite matrix float64[m, n], got {payoffs!r}")
    _, sparse = _scipy()
    ones = [np.ones((1, size)) for size in matrix.shape]
    value, row, column = _solve(
        sparse.csr_array(matrix),
        [sparse.csr_array(row_of_ones) for row_of_ones in ones],
    )
    return MatrixSolution(value, row, column)


def solve_zero_sum(game: AnyGame, max_states: int = MAX_STATES) -> ZeroSumSolution:
    """An equilibrium of a two-player zero-sum game, and its value.

    Solves the sequence form: one variable for each sequence of own actions, so the program
    is as large as the game. Koller, Megiddo and von Stengel, *Fast
    Algorithms for Finding Randomized Strategies in Game Trees* (1994),
    https://doi.org/10.1145/195058.195451.

    Args:
        game: the rules.
        max_states: limit of the enumeration.

    Raises:
        ValueError: the game has more states than `max_states`, is not zero-sum, has not
            two players, or its seats forget what they did.
        ImportError: scipy is missing.

    >>> from arena_envs import make_game
    >>> round(solve_zero_sum(make_game("kuhn_poker")).value, 6)  # -1/18
    -0.055556
    """
    if game.num_players != 2 or not game.zero_sum:
        raise ValueError(f"want a two-player zero-sum game, got {game!r}; use CFR")
    _, sparse = _scipy()
    tree = game_tree(game, max_states)
    leaves, before = _sequences(game, tree)
    plans = [_plan_rows(tree, seat, before[seat], sparse) for seat in range(2)]
    payoffs = sparse.coo_array(
        (list(leaves.values()), tuple(np.array(list(leaves)).T)),
        shape=tuple(rows.shape[1] for rows in plans),
    ).tocsr()
    value, first, second = _solve(payoffs, plans)
    policy = np.concatenate([first[1:], second[1:]])  # without the empty sequences
    return ZeroSumSolution(value, tree.table(normalise(tree, policy)))


Sequences = tuple[int, int]  # of both seats


def _sequences(
    game: AnyGame, tree: Tree
) -> tuple[dict[Sequences, float], list[dict[int, int]]]:
    """Payoffs by the sequences that lead to them; the sequence before each information set.

    Sequence 0 is empty; sequence 1 + c ends with the seat's own c-th column. Payoffs are
    seat 0's, times the probability of chance.
    """
    paths: list[dict[Sequences, float]] = [{} for _ in range(tree.num_nodes)]
    paths[0][0, 0] = 1.0
    before: list[dict[int, int]] = [{}, {}]
    starts = [columns.start - 1 for columns in tree.columns]
    infoset_of = np.repeat(np.arange(len(tree.keys)), tree.widths).tolist()
    for source, target, column, chance in zip(
        tree.source.tolist(),
        tree.target.tolist(),
        tree.column.tolist(),
        tree.chance.tolist(),
        strict=True,
    ):
        seat = int(tree.players[source])
        for (first, second), weight in paths[source].items():
            after = (first, second)
            if seat >= 0:
                sequence_before = before[seat].setdefault(
                    infoset_of[column], after[seat]
                )
                if sequence_before != after[seat]:
                    raise ValueError(
                        "want perfect recall, got states of one information state of "
                        f"{game!r} that follow different own actions; use minimax if "
                        "the game has perfect information"
                    )
                sequence = column - starts[seat]
                after = (sequence, second) if seat == 0 else (first, sequence)
            paths[target][after] = paths[target].get(after, 0.0) + weight * chance
    leaves: dict[Sequences, float] = {}
    for node in np.flatnonzero(tree.players == TERMINAL):
        for pair, weight in paths[node].items():
            payoff = weight * float(tree.payoffs[node, 0])
            leaves[pair] = leaves.get(pair, 0.0) + payoff
    return leaves, before


def _plan_rows(tree: Tree, seat: int, before: dict[int, int], sparse: Any) -> Any:
    """Constraints on a plan of a seat, which has a weight for each of its sequences.

    The first row says that the empty sequence has weight 1, the others that the actions
    of an information set share the weight of the sequence before it.
    """
    infosets = range(len(tree.keys))[tree.infosets[seat]]
    widths = tree.widths[tree.infosets[seat]]
    num_rows, num_sequences = 1 + len(widths), 1 + int(widths.sum())
    infoset_rows = np.arange(1, num_rows)
    values = np.append(np.ones(num_sequences), -np.ones(len(widths)))
    rows = np.concatenate([[0], np.repeat(infoset_rows, widths), infoset_rows])
    parents = np.array([before[infoset] for infoset in infosets], np.intp)
    columns = np.append(np.arange(num_sequences), parents)
    shape = (num_rows, num_sequences)
    return sparse.coo_array((values, (rows, columns)), shape).tocsr()


def _solve(payoffs: Any, plans: list[Any]) -> tuple[float, Floats, Floats]:
    """Max over x, min over y of x'Ay, with Ex = e and Fy = f; x, y ≥ 0; e = f = (1, 0, ..).

    The inner problem is replaced by its dual: the variables are x and one for each row of
    F, the first of which is the value; the dual variables of A'x ≥ F'v are y.
    """
    optimize, sparse = _scipy()
    first, second = plans
    num_x, num_v = first.shape[1], second.shape[0]
    result = optimize.linprog(
        c=-np.eye(1, num_x + num_v, num_x)[0],
        A_ub=sparse.hstack([-payoffs.T, second.T], format="csr"),
        b_ub=np.zeros(second.shape[1]),
        A_eq=sparse.hstack(
            [first, sparse.csr_array((first.shape[0], num_v))], format="csr"
        ),
        b_eq=np.eye(1, first.shape[0])[0],
        bounds=[(0, None)] * num_x + [(None, None)] * num_v,
        method="highs",
    )
    if not result.success:
        raise RuntimeError(f"the linear program was not solved: {result.message}")
    x, y = result.x[:num_x], -result.ineqlin.marginals
    return 0.0 - float(result.fun), np.maximum(x, 0), np.maximum(y, 0)


def _scipy() -> tuple[Any, Any]:
    try:
        import scipy.optimize
        import scipy.sparse
    except ImportError as error:
        raise ImportError(
            f"linear programs need scipy; {install_advice('solve')}"
        ) from error
    return scipy.optimize, scipy.sparse


TOLERANCE = 1e-9  # payoffs that differ by less are equal


class MixedEquilibrium(NamedTuple):
    """A Nash equilibrium of a game of two players.

    Attributes:
        row: float64[m], probabilities of the rows.
        column: float64[n], probabilities of the columns.
    """

    row: Floats
    column: Floats


def normal_form(
    game: AnyGame, max_profiles: int = 10_000, max_states: int = MAX_STATES
) -> Floats:
    """Expected returns of all combinations of pure plans.

    A plan chooses an action at each information state; in a game of one round they are
    the actions, in their order. Plans count up, the last information state fastest.

    Args:
        game: the rules.
        max_profiles: limit of the number of combinations.
        max_states: limit of the enumeration.

    Returns:
        float64[N, k_0, .., k_{N-1}], with k_i the number of plans of seat i.

    Raises:
        ValueError: the game is larger than the limits.
    """
    tree = game_tree(game, max_states)
    counts = [count_plans(tree, seat) for seat in range(tree.num_players)]
    if math.prod(counts) > max_profiles:
        size = f"{about(math.prod(counts))} combinations of plans"
        hint = "use CFR or solve_zero_sum"
        raise too_large(game, size, f"max_profiles={max_profiles}", hint)
    plans = [pure_plans(tree, seat) for seat in range(tree.num_players)]
    payoffs = np.zeros((tree.num_players, math.prod(counts)))
    for i, profile in enumerate(product(*plans)):
        weights = edge_weights(tree, np.concatenate(profile), range(tree.num_players))
        for seat in range(tree.num_players):
            payoffs[seat, i] = values_of(tree, weights, seat)[0]
    return payoffs.reshape(tree.num_players, *counts)


def count_plans(tree: Tree, seat: int) -> int:
    """Number of pure plans of a seat."""
    return math.prod(tree.widths[tree.infosets[seat]].tolist())


def pure_plans(tree: Tree, seat: int) -> list[Floats]:
    """The pure plans of a seat, each float64[number of its columns]."""
    rows = [np.eye(width) for width in tree.widths[tree.infosets[seat]]]
    nothing = np.zeros(0)
    return [np.concatenate([nothing, *choice]) for choice in product(*rows)]


def pure_equilibria(payoffs: ArrayLike) -> list[tuple[int, ...]]:
    """All Nash equilibria in pure plans, in ascending order.

    Args:
        payoffs: float64[N, k_0, .., k_{N-1}], as from `normal_form`.

    Raises:
        ValueError: the shape does not fit.

    >>> stag_hunt = [[[4, 1], [3, 2]], [[4, 3], [1, 2]]]
    >>> pure_equilibria(stag_hunt)
    [(0, 0), (1, 1)]
    """
    array = _checked(payoffs)
    stable = np.ones(array.shape[1:], bool)
    for seat, returns in enumerate(array):
        stable &= returns >= returns.max(axis=seat, keepdims=True) - TOLERANCE
    return [tuple(where.tolist()) for where in np.argwhere(stable)]


def mixed_equilibria(
    payoffs: ArrayLike, max_supports: int = 1_000_000
) -> list[MixedEquilibrium]:
    """The Nash equilibria of two players with supports of equal size.

    Tries all supports, smaller ones first. In a game that is not degenerate these are all
    its equilibria, an odd number. A degenerate game may have more: mixtures of these, and
    others. von Stengel, *Computing Equilibria for Two-Person Games* (2002), section 2.

    Args:
        payoffs: float64[2, m, n], as from `normal_form`.
        max_supports: limit of the number of pairs of supports.

    Raises:
        ValueError: the shape does not fit, or there are more pairs than `max_supports`.

    >>> battle = [[[3, 0], [0, 2]], [[2, 0], [0, 3]]]
    >>> for row, column in mixed_equilibria(battle):
    ...     print(row.round(3), column.round(3))
    [1. 0.] [1. 0.]
    [0. 1.] [0. 1.]
    [0.6 0.4] [0.4 0.6]
    """
    array = _checked(payoffs)
    if len(array) != 2:
        raise ValueError(f"want payoffs float64[2, m, n], got shape {array.shape}")
    _, m, n = array.shape
    num_pairs = math.comb(m + n, m) - 1  # of equal size, by Vandermonde's identity
    if num_pairs > max_supports:
        raise ValueError(
            f"{m} rows and {n} columns have {num_pairs} pairs of supports, want at "
            f"most max_supports={max_supports}; use solve_matrix if the game is "
            "zero-sum"
        )
    equilibria = []
    for size in range(1, min(m, n) + 1):
        for rows in combinations(range(m), size):
            for columns in combinations(range(n), size):
                column = _indifferent(array[0], rows, columns)
                row = _indifferent(array[1].T, columns, rows)
                if row is not None and column is not None:
                    equilibria.append(MixedEquilibrium(row, column))
    return equilibria


def _indifferent(
    returns: Floats, own_support: tuple[int, ...], other_support: tuple[int, ...]
) -> Floats | None:
    """The other's mixture over `other_support` to which all of `own_support` are best responses."""
    size = len(own_support)
    system = np.zeros((size + 1, size + 1))
    system[:size, :size] = returns[np.ix_(own_support, other_support)]
    system[:size, size] = -1
    system[size, :size] = 1
    if np.linalg.matrix_rank(system) <= size:
        return None
    solution = np.linalg.solve(system, np.eye(1, size + 1, size)[0])
    mixture = np.zeros(returns.shape[1])
    mixture[list(other_support)] = solution[:size]
    if np.any(solution[:size] <= TOLERANCE):
        return None
    if np.any(returns @ mixture > solution[size] + TOLERANCE):
        return None
    return mixture


def _checked(payoffs: ArrayLike) -> Floats:
    array = np.asarray(payoffs, np.float64)
    if array.ndim < 2 or len(array) != array.ndim - 1 or not np.isfinite(array).all():
        raise ValueError(
            "want finite payoffs float64[N, k_0, .., k_{N-1}], got shape "
            f"{array.shape}"
        )
    return array


class JointPolicy(NamedTuple):
    """A deterministic joint policy.

    Attributes:
        value: expected return of every seat.
        table: 1 at one action of each information state, of all seats.
    """

    value: float
    table: dict[InfosetKey, list[float]]


def optimal_joint_policy(
    game: AnyGame, max_plans: int = 20_000, max_states: int = MAX_STATES
) -> JointPolicy:
    """A best joint policy, by enumeration of pure plans.

    Enumerates the plans of all seats but the one with the most plans, which plays a best
    response to each combination. No mixture is better than the best pure plans.

    Args:
        game: the rules.
        max_plans: limit of the number of combinations of the others' plans.
        max_states: limit of the enumeration.

    Raises:
        ValueError: the game is larger than the limits, or seats are paid differently.
    """
    tree = _shared_tree(game, max_states)
    seats = range(tree.num_players)
    counts = [count_plans(tree, seat) for seat in seats]
    answering = max(seats, key=counts.__getitem__)
    num_plans = math.prod(counts) // counts[answering]
    if num_plans > max_plans:
        size = f"{about(num_plans)} combinations of plans of all seats but one"
        hint = "use iterated_best_response, which finds a local optimum"
        raise too_large(game, size, f"max_plans={max_plans}", hint)
    any_plan = [
        np.zeros(int(tree.columns[answering].stop - tree.columns[answering].start))
    ]
    best = (-math.inf, np.zeros(0))
    for plans in product(
        *(any_plan if seat == answering else pure_plans(tree, seat) for seat in seats)
    ):
        answer = best_response_of(tree, np.concatenate(plans), answering)
        best = max(best, answer, key=lambda pair: pair[0])
    return JointPolicy(best[0], tree.table(best[1]))


def iterated_best_response(
    game: AnyGame, num_starts: int = 10, seed: int = 0, max_states: int = MAX_STATES
) -> JointPolicy:
    """A joint policy that no single seat can improve: the best one from random starts.

    From each start the seats play best responses in turn, until no seat gains. Nair et al., *Taming Decentralized POMDPs* (2003), call this JESP.

    Args:
        game: the rules.
        num_starts: number of random pure policies to start from, 1 or more.
        seed: of these.
        max_states: limit of the enumeration.

    Raises:
        ValueError: the game is too large, seats are paid differently, or there is no
            start.
    """
    tree = _shared_tree(game, max_states)
    if num_starts < 1:
        raise ValueError(f"want num_starts of 1 or more, got {num_starts}")
    rng = random.Random(seed)
    local_optima = [_climb(tree, _random_plans(tree, rng)) for _ in range(num_starts)]
    value, policy = max(local_optima, key=lambda pair: pair[0])
    return JointPolicy(value, tree.table(policy))


def _climb(tree: Tree, policy: Floats) -> tuple[float, Floats]:
    seats = range(tree.num_players)
    value = float(values_of(tree, edge_weights(tree, policy, seats), 0)[0])
    while True:
        before = value
        for seat in seats:
            answer, changed = best_response_of(tree, policy, seat)
            if answer > value + 1e-12:
                value, policy = answer, changed
        if value == before:
            return value, policy


def _random_plans(tree: Tree, rng: random.Random) -> Floats:
    policy = np.zeros(tree.num_columns)
    for first, width in zip(tree.offsets.tolist(), tree.widths.tolist(), strict=False):
        policy[first + rng.randrange(width)] = 1
    return policy


def _shared_tree(game: AnyGame, max_states: int) -> Tree:
    tree = game_tree(game, max_states)
    unequal = np.flatnonzero(np.ptp(tree.payoffs, axis=1))
    if len(unequal):
        returns = tree.payoffs[unequal[0]].tolist()
        raise ValueError(
            f"want a game that pays all seats alike, got {game!r}, which pays "
            f"{returns}; use CFR"
        )
    return tree
