"""Exact equilibria of two-player zero-sum games, by linear programming.

Needs scipy: the extra `solve`.
"""

from typing import Any, NamedTuple

from arena_envs.checks import install_advice
from arena_envs.game import TERMINAL, AnyGame, ArrayLike, Floats, np
from arena_envs.solvers.enumeration import MAX_STATES, Key
from arena_envs.solvers.tabular import Tree, game_tree, normalise


class ZeroSumSolution(NamedTuple):
    """An equilibrium of a two-player zero-sum game.

    Attributes:
        value: expected return of seat 0; seat 1 has the opposite.
        table: an equilibrium, with a row for each information state.
    """

    value: float
    table: dict[Key, list[float]]


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
        sparse.csr_array(matrix), [sparse.csr_array(one) for one in ones]
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
                known = before[seat].setdefault(infoset_of[column], after[seat])
                if known != after[seat]:
                    raise _forgetful(game)
                own = column - starts[seat]
                after = (own, second) if seat == 0 else (first, own)
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


def _forgetful(game: AnyGame) -> ValueError:
    return ValueError(
        f"want perfect recall, got states of one information state of {game!r} that "
        "follow different own actions; use minimax if the game has perfect information"
    )


def _scipy() -> tuple[Any, Any]:
    try:
        import scipy.optimize
        import scipy.sparse
    except ImportError as error:
        raise ImportError(
            f"linear programs need scipy; {install_advice('solve')}"
        ) from error
    return scipy.optimize, scipy.sparse
