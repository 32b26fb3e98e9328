"""A matchmaker.

- **Protocol**: `arena_trainers.matchmaking.Matchmaker`; `BaseMatchmaker` has defaults for all
  but `assign`. It knows names and results, never weights. Snapshots that it wants are taken for
  it.
- **Name**: `--opponents '{my_matchmaker:Alternate: {every: 5}}'`; the group is
  `arena.matchmakers`.
- **Check**: `check_matchmaker`.
"""

from arena_trainers.matchmaking import BaseMatchmaker, History, against, snapshot_name
from arena_trainers.matchmaking.testing import check_matchmaker


class Alternate(BaseMatchmaker):
    """Plays a bot at even steps and the newest snapshot at odd ones."""

    max_live = 1

    def __init__(self, *, bot="random", every=20):
        self.policies = [bot]
        self.history = History(every=every, window=1)

    def snapshots(self, step):
        return self.history.steps(step)

    def assign(self, starts, step, rng):
        newest = snapshot_name(self.history.steps(step)[-1])
        opponent = newest if step % 2 else self.policies[0]
        return [against(opponent, start, rng) for start in starts]


def test_my_matchmaker_keeps_its_promises():
    check_matchmaker(Alternate)
