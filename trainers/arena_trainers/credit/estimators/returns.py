"""Returns and their moments in pools, for estimators that subtract the mean of a pool."""

import numpy as np

from arena_trainers.credit.batch import Floats, Ints
from arena_trainers.credit.pools import (
    Moments,
    Pools,
    check_choice,
    check_range,
    moments,
)
from arena_trainers.credit.scales import SCALES
from arena_trainers.credit.trajectories import (
    Trajectories,
    returns_to_go,
    sizes_to_go,
)


def whole_returns(turns: Trajectories, reward: Floats) -> Floats:
    """float64[N]: of each turn, the return Gᵢ of its whole trajectory."""
    return np.asarray(returns_to_go(turns, reward)[turns.first][turns.index])


def return_moments(
    turns: Trajectories,
    pools: Pools,
    returns: Floats,
    over: Ints | slice = slice(None),
    discount: float = 1.0,
    ddof: int = 1,
) -> Moments:
    """Mean and standard deviation of the returns of each pool, safe against rounding.

    Rounding errors of large rewards remain when the rewards cancel, and would look like a
    deviation. A deviation up to 1e-6 of the summed absolute rewards is therefore 0.

    Args:
        turns: the turns that count.
        pools: of the turns.
        returns: float64[N], returns-to-go or whole returns, in the reward's unit.
        over: the turns whose returns enter the moments; `turns.first` for one value per
            trajectory, all turns by default.
        discount: γ of the returns.
        ddof: 1 divides the variance by n - 1, 0 by n.
    """
    sizes = sizes_to_go(turns, turns.column("reward"), discount)
    return moments(returns[over], pools.of[over], len(pools.key), ddof, sizes[over])


def check_scaling(scale: str, ddof: int, eps: float) -> None:
    """ValueError unless the options for division by the deviation are in range."""
    check_choice("scale", scale, SCALES)
    check_range("ddof", ddof, 0, 1)
    check_range("eps", eps, 0, float("inf"))
