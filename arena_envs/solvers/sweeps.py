"""Sweeps over the tree of a game: reach probabilities and values of its nodes.

Weights are float64[num_edges], in the order of `Tree.source`. A policy is
float64[num_columns]. Reach and values are float64[num_nodes].
"""

from collections.abc import Sequence

import numpy as np

from arena_envs.solvers.enumeration import Ints
from arena_envs.solvers.tree import Floats, Tree


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
