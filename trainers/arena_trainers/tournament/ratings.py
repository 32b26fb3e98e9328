"""Ratings of policies: Elo, OpenSkill and Nash averaging."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena_trainers.extras import import_extra

Floats = NDArray[np.float64]

MEAN_ELO = 1500
POINTS = 400 / np.log(10)  # of Elo per natural log of the odds
WIDTH = 1.96  # standard errors on each side of a 95 % interval
EPSILON = 1e-7  # a smaller probability counts as 0


class Outcome(NamedTuple):
    """The result of an episode between two policies.

    Attributes:
        first: index of a policy.
        second: index of the other.
        score: 1 if the first won, 0.5 for a draw, 0 if it lost.
    """

    first: int
    second: int
    score: float


@dataclass(frozen=True)
class Rating:
    """The ratings of a policy in a tournament.

    Attributes:
        policy: name of the policy.
        elo: maximum-likelihood Elo; the mean over policies is 1500.
        elo_low: lower end of its 95 % interval.
        elo_high: upper end.
        mu: mean of OpenSkill's belief; the prior has 25.
        sigma: standard deviation of this belief; the prior has 25/3.
    """

    policy: str
    elo: float
    elo_low: float
    elo_high: float
    mu: float
    sigma: float


def rate(policies: Sequence[str], outcomes: Sequence[Outcome]) -> tuple[Rating, ...]:
    """Elo and OpenSkill ratings of all policies.

    Args:
        policies: names of the policies.
        outcomes: results; OpenSkill updates its beliefs in this order.

    Raises:
        ModuleNotFoundError: scipy or openskill is missing.
    """
    elos, errors = fit_elo(len(policies), outcomes)
    beliefs = _openskill(len(policies), outcomes)
    return tuple(
        Rating(
            name, elo, elo - WIDTH * error, elo + WIDTH * error, belief.mu, belief.sigma
        )
        for name, elo, error, belief in zip(
            policies, elos.tolist(), errors.tolist(), beliefs, strict=True
        )
    )


def fit_elo(num_policies: int, outcomes: Sequence[Outcome]) -> tuple[Floats, Floats]:
    """Elo ratings and their standard errors.

    Maximises Σ w_ij log σ(θ_i - θ_j) over θ (Bradley and Terry 1952). w_ij is the number of
    wins of i over j; a draw is half a win for both. Each pair that met gets one draw more,
    which keeps the rating of a policy that always wins finite. The errors follow from the
    curvature at the maximum; they assume independent episodes.

    Args:
        num_policies: n.
        outcomes: results of episodes.

    Returns:
        float64[n] ratings with mean 1500, float64[n] standard errors of their distances
        from the mean.

    Raises:
        ModuleNotFoundError: scipy is missing.

    >>> elos, _ = fit_elo(2, [Outcome(0, 1, 1.0)] * 9 + [Outcome(0, 1, 0.0)] * 0)
    >>> round(float(elos[0] - elos[1]), 3), round(400 * float(np.log10(9.5 / 0.5)), 3)
    (511.501, 511.501)
    """
    wins = np.zeros((num_policies, num_policies))
    for first, second, score in outcomes:
        wins[first, second] += score
        wins[second, first] += 1 - score
    wins += 0.5 * (wins + wins.T > 0)
    games = wins + wins.T

    def loss(theta: Floats) -> tuple[float, Floats]:
        gaps = theta[:, None] - theta[None, :]
        chances = 1 / (1 + np.exp(-gaps))
        gradient = (games * chances - wins).sum(1)
        return float((wins * np.logaddexp(0, -gaps)).sum()), gradient

    optimize = import_extra("scipy.optimize", "eval")
    start = np.zeros(num_policies)
    options = {"gtol": 1e-9, "ftol": 1e-15, "maxiter": 10_000}
    found = optimize.minimize(loss, start, jac=True, method="L-BFGS-B", options=options)
    theta = found.x - found.x.mean()
    chances = 1 / (1 + np.exp(theta[None, :] - theta[:, None]))
    weights = games * chances * (1 - chances)
    information = np.diag(weights.sum(1)) - weights
    errors = np.sqrt(np.diag(np.linalg.pinv(information)))
    return MEAN_ELO + POINTS * theta, POINTS * errors


def _openskill(num_policies: int, outcomes: Sequence[Outcome]) -> list[Any]:
    model = import_extra("openskill.models", "eval").PlackettLuce()
    beliefs = [model.rating() for _ in range(num_policies)]
    for first, second, score in outcomes:
        ranks = [1.0, 1.0] if score == 0.5 else [2.0 - score, 1.0 + score]
        teams = [[beliefs[first]], [beliefs[second]]]
        (beliefs[first],), (beliefs[second],) = model.rate(teams, ranks=ranks)
    return beliefs


class NashAverage(NamedTuple):
    """Nash averaging: ratings that adding a copy of a policy does not change.

    Attributes:
        weights: probability of each policy in the maximum-entropy equilibrium.
        ratings: mean payoff of each policy against this equilibrium; 0 for the policies in
            its support, at most 0 for the others.
    """

    weights: tuple[float, ...]
    ratings: tuple[float, ...]


def nash_average(payoffs: ArrayLike) -> NashAverage:
    """The maximum-entropy equilibrium of the game of choosing a policy.

    Balduzzi et al., *Re-evaluating Evaluation* (2018), https://arxiv.org/abs/1806.02643.
    It is discontinuous where payoffs tie, so also read the intervals of the payoffs.

    Args:
        payoffs: float64[n, n], mean return of the row against the column in a zero-sum
            game. Measured payoffs are not exactly antisymmetric: the function uses
            (payoffs - payoffs') / 2. It does not read the diagonal.

    Raises:
        ValueError: `payoffs` is no square matrix, or not finite off the diagonal.
        ModuleNotFoundError: scipy is missing.

    >>> found = nash_average([[0, -1, 1], [1, 0, -1], [-1, 1, 0]])
    >>> [round(weight, 4) for weight in found.weights]
    [0.3333, 0.3333, 0.3333]
    """
    matrix = np.array(payoffs, np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise ValueError(f"want a square matrix of payoffs, got shape {matrix.shape}")
    np.fill_diagonal(matrix, 0)
    if not np.isfinite(matrix).all():
        raise ValueError("want finite payoffs of all pairs")
    skew = (matrix - matrix.T) / 2
    scale = float(np.abs(skew).max()) or 1.0
    inside = _inner_equilibrium(skew / scale)
    support = inside > EPSILON
    weights = np.zeros(len(skew))
    weights[support] = _most_even(skew[:, support] / scale, inside[support])
    return NashAverage(tuple(weights.tolist()), tuple((skew @ weights).tolist()))


def _inner_equilibrium(skew: Floats) -> Floats:
    """An equilibrium of full support: it plays each policy that some equilibrium plays."""
    optimize = import_extra("scipy.optimize", "eval")
    size = len(skew)
    corners = []
    for policy in range(size):
        found = optimize.linprog(
            c=-np.eye(size)[policy],
            A_ub=skew,
            b_ub=np.zeros(size),
            A_eq=np.ones((1, size)),
            b_eq=[1.0],
            method="highs",
        )
        if not found.success:
            raise RuntimeError(f"the linear program was not solved: {found.message}")
        corners.append(np.maximum(found.x, 0))
    mean = np.mean(corners, axis=0)
    return np.asarray(mean / mean.sum())


def _most_even(skew: Floats, start: Floats) -> Floats:
    """The equilibrium of maximum entropy, found from one of full support."""
    optimize = import_extra("scipy.optimize", "eval")
    start = start / start.sum()
    limits = np.maximum(skew @ start, 0)  # allows for rounding in the constraints
    found = optimize.minimize(
        lambda p: float(p @ np.log(p)),
        start,
        jac=lambda p: np.log(p) + 1,
        bounds=[(EPSILON**2, 1)] * len(start),
        constraints=[
            {"type": "eq", "fun": lambda p: p.sum() - 1, "jac": np.ones_like},
            {
                "type": "ineq",
                "fun": lambda p: limits - skew @ p,
                "jac": lambda p: -skew,
            },
        ],
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 1000},
    )
    best = np.asarray(found.x if found.success else start, np.float64)
    return np.asarray(best / best.sum())
