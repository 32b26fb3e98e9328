"""An estimator.

- **Protocol**: a function of `arena_credit.Trajectories` and options that returns `Credit`.
  `turns.column(NAME)` reads a column of `TurnBatch`; `@needs("value")` declares optional ones.
  With memory it has a parameter `state`, and returns the next one.
- **Name**: `--credit my_credit:my_estimator`; the group is `arena.credit`.
- **Check**: `arena credit check my_credit:my_estimator` prints what it claims and what is
  found; `check_estimator` raises `BrokenPromise`.
"""

from arena_credit import claims, moments, pools_by, returns_to_go, with_report
from arena_credit.testing import check_estimator


@claims(bias_infinite="exact", bias_shared_chance="exact", games_apart=True)
def my_estimator(turns, *, discount=1.0):
    """The return-to-go less the mean of all turns of its game and seat."""
    if not isinstance(discount, int | float) or not 0 <= discount <= 1:
        raise ValueError(f"want discount from 0 to 1, got {discount!r}")
    reward = turns.column("reward")  # float64, turn by turn
    to_go = returns_to_go(turns, reward, discount)
    pools = pools_by(turns, ("game", "seat"))  # pools.of: the pool of each turn
    stats = moments(to_go, pools.of, len(pools.key))  # mean and spread of each pool
    return with_report(to_go - stats.mean[pools.of], pools, stats)


def test_my_estimator_keeps_its_claims():
    check_estimator(my_estimator)
