"""Counterfactual regret minimisation, swept over the arrays of a whole game.

The average policy approaches a Nash equilibrium in two-player zero-sum games; in others it
need not. Seats are updated in turn, as in OpenSpiel, whose policies these are after any
number of iterations, up to rounding.
"""

import random

from arena_envs.game import (
    CHANCE,
    TERMINAL,
    AnyGame,
    AnyState,
    Floats,
    InfosetKey,
    np,
    sample_chance,
)
from arena_envs.solvers.enumeration import MAX_STATES
from arena_envs.solvers.tabular import (
    edge_weights,
    game_tree,
    normalise,
    reach_of,
    uniform_policy,
    values_of,
)


class CFR:
    """Counterfactual regret minimisation with alternating updates.

    An update of seat i adds to the regret of each action a of each information set I

        Σ_{h ∈ I} π₋ᵢ(h) (v(ha) - v(h))

    and plays next in proportion to the positive regrets, or uniformly where there are
    none. The average policy weights each policy by the seat's own probability of reaching
    I. Zinkevich et al., *Regret Minimization in Games with Incomplete Information* (2007),
    https://papers.nips.cc/paper/3306. Departs from it by updating one seat after another.

    Args:
        game: the rules.
        max_states: limit of the enumeration.

    Attributes:
        num_iterations: iterations so far; each updates all seats once.

    Raises:
        TooLarge: the game has more states than `max_states`.

    >>> from arena_envs import make_game
    >>> from arena_envs.solvers import expected_returns, nash_conv
    >>> game = make_game("kuhn_poker")
    >>> solver = CFR(game)
    >>> solver.run(1000)
    >>> nash_conv(game, solver.average_policy()) < 0.01
    True
    """

    regret_matching_plus = False
    linear_averaging = False

    def __init__(self, game: AnyGame, max_states: int = MAX_STATES) -> None:
        self._tree = game_tree(game, max_states)
        self._policy = uniform_policy(self._tree)
        self._regrets = np.zeros(self._tree.num_columns)
        self._sums = np.zeros(self._tree.num_columns)
        self._own = [self._reach([seat]) for seat in range(self._tree.num_players)]
        self.num_iterations = 0

    def run(self, num_iterations: int) -> None:
        """Plays this many iterations more."""
        for _ in range(num_iterations):
            self.num_iterations += 1
            for seat in range(self._tree.num_players):
                self._update(seat)

    def current_policy(self) -> dict[InfosetKey, list[float]]:
        """The policy of the next iteration, which need not come near an equilibrium."""
        return self._tree.table(self._policy)

    def average_policy(self) -> dict[InfosetKey, list[float]]:
        """The average over the iterations; uniform where a seat never went."""
        return self._tree.table(normalise(self._tree, self._sums))

    def _update(self, seat: int) -> None:
        tree = self._tree
        edges, columns = tree.decisions[seat], tree.columns[seat]
        source, local = tree.source[edges], tree.column[edges] - columns.start
        size = columns.stop - columns.start
        other_seats = [
            seat_number
            for seat_number in range(tree.num_players)
            if seat_number != seat
        ]
        own_reach = self._own[seat]
        other_reach = (
            self._own[other_seats[0]]
            if len(other_seats) == 1
            else self._reach(other_seats)
        )
        values = values_of(
            tree, edge_weights(tree, self._policy, range(tree.num_players)), seat
        )
        gains = other_reach[source] * (values[tree.target[edges]] - values[source])
        regrets = self._regrets[columns] + np.bincount(local, gains, size)
        if self.regret_matching_plus:
            regrets = np.maximum(regrets, 0)
        self._regrets[columns] = regrets
        # what the other seats contribute to `own` is the same in every iteration
        share = np.bincount(local, own_reach[source], size) * self._policy[columns]
        self._sums[columns] += share * (
            self.num_iterations if self.linear_averaging else 1
        )
        self._policy[columns] = normalise(tree, np.maximum(self._regrets, 0))[columns]
        self._own[seat] = self._reach([seat])

    def _reach(self, seats: list[int]) -> Floats:
        return reach_of(self._tree, edge_weights(self._tree, self._policy, seats))


class CFRPlus(CFR):
    """CFR+: regrets stay at or above zero, and iteration t counts t times in the average.

    Tammelin et al., *Solving Heads-up Limit Texas Hold'em* (2015),
    https://www.ijcai.org/Proceedings/15/Papers/097.pdf.

    >>> from arena_envs import make_game
    >>> from arena_envs.solvers import expected_returns
    >>> game = make_game("kuhn_poker")
    >>> solver = CFRPlus(game)
    >>> solver.run(1000)
    >>> round(expected_returns(game, solver.average_policy())[0], 3)  # -1/18
    -0.056
    """

    regret_matching_plus = True
    linear_averaging = True


class MCCFR:
    """External-sampling Monte Carlo CFR.

    An iteration walks once for each seat: chance and the other seats are sampled, all
    actions of the seat are tried. The average policy approaches a Nash equilibrium in
    two-player zero-sum games. Lanctot et al., *Monte Carlo Sampling for Regret
    Minimization in Extensive Games* (2009), https://papers.nips.cc/paper/3713. Departs
    from it by adding to the average where the seat before walks and this one is sampled,
    as OpenSpiel does.

    Args:
        game: the rules.
        seed: of the samples.

    Attributes:
        num_iterations: iterations so far.

    >>> from arena_envs import make_game
    >>> from arena_envs.solvers import complete_table, nash_conv
    >>> game = make_game("kuhn_poker")
    >>> solver = MCCFR(game, seed=0)
    >>> solver.run(2000)
    >>> nash_conv(game, complete_table(game, solver.average_policy())) < 0.1
    True
    """

    def __init__(self, game: AnyGame, seed: int = 0) -> None:
        self._game = game
        self._rng = random.Random(seed)
        self._regrets: dict[InfosetKey, list[float]] = {}
        self._sums: dict[InfosetKey, list[float]] = {}
        self.num_iterations = 0

    def run(self, num_iterations: int) -> None:
        """Plays this many iterations more."""
        for _ in range(num_iterations):
            self.num_iterations += 1
            for seat in range(self._game.num_players):
                self._walk(self._game.initial_state(), seat)

    def average_policy(self) -> dict[InfosetKey, list[float]]:
        """The average over the iterations, of the information states that were met."""
        return {key: _normalise(sums) for key, sums in self._sums.items()}

    def _walk(self, state: AnyState, seat: int) -> float:
        """An estimate of what the state is worth to the seat."""
        game, rng = self._game, self._rng
        while (player := game.current_player(state)) != TERMINAL:
            if player == CHANCE:
                state = game.apply(state, sample_chance(game, state, rng))
                continue
            key = (player, game.information_state(state, player))
            legal = game.legal_actions(state)
            regrets = self._regrets.setdefault(key, [0.0] * len(legal))
            sums = self._sums.setdefault(key, [0.0] * len(legal))
            policy = _normalise([max(regret, 0.0) for regret in regrets])
            if player == seat:
                values = [self._walk(game.apply(state, a), seat) for a in legal]
                value = sum(p * v for p, v in zip(policy, values, strict=True))
                for i, of_action in enumerate(values):
                    regrets[i] += of_action - value
                return value
            if player == (seat + 1) % game.num_players:
                for i, probability in enumerate(policy):
                    sums[i] += probability
            state = game.apply(state, rng.choices(legal, policy)[0])
        return float(game.returns(state)[seat])


def _normalise(weights: list[float]) -> list[float]:
    total = sum(weights)
    if total <= 0:
        return [1 / len(weights)] * len(weights)
    return [weight / total for weight in weights]
