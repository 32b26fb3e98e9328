"""Best joint policies of games in which all seats have equal returns."""

import math
import random
from itertools import product
from typing import NamedTuple

import numpy as np

from arena_envs.game import AnyGame
from arena_envs.solvers.enumeration import MAX_STATES, Key, about, too_large
from arena_envs.solvers.matrix import count_plans, pure_plans
from arena_envs.solvers.sweeps import best_response_of, edge_weights, values_of
from arena_envs.solvers.tree import Floats, Tree, game_tree


class JointPolicy(NamedTuple):
    """A deterministic joint policy.

    Attributes:
        value: expected return of every seat.
        table: 1 at one action of each information state, of all seats.
    """

    value: float
    table: dict[Key, list[float]]


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
        known = f"{about(num_plans)} combinations of plans of all seats but one"
        hint = "use iterated_best_response, which finds a local optimum"
        raise too_large(game, known, f"max_plans={max_plans}", hint)
    any_plan = [np.zeros(_num_columns(tree, answering))]
    best = (-math.inf, np.zeros(0))
    for plans in product(
        *(any_plan if seat == answering else pure_plans(tree, seat) for seat in seats)
    ):
        answer = best_response_of(tree, np.concatenate(plans), answering)
        best = max(best, answer, key=lambda pair: pair[0])
    return JointPolicy(best[0], tree.table(best[1]))


def iterated_best_response(
    game: AnyGame,
    num_starts: int = 10,
    seed: int = 0,
    max_states: int = MAX_STATES,
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
    found = [_climb(tree, _random_plans(tree, rng)) for _ in range(num_starts)]
    value, policy = max(found, key=lambda pair: pair[0])
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
            f"want a game that pays all seats alike, got {game!r}, which pays {returns}; "
            "use CFR"
        )
    return tree


def _num_columns(tree: Tree, seat: int) -> int:
    return int(tree.columns[seat].stop - tree.columns[seat].start)
