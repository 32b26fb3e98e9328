"""A selector.

- **Protocol**: a function of a list of episodes, options, and `seed` where it draws. It yields
  rows of one kind (`Completion`, `Label` or `Pair`), and `Dropped(reason)` for what it leaves
  out. Randomness comes from `seeded_integer(seed, ...)`.
- **Name**: `arena data select --by my_selector:short_wins`; the group is `arena.selectors`.
- **Check**: `check_selector`.
"""

from arena_trainers.data import Dropped, completions, recorded_trajectories
from arena_trainers.data.testing import check_selector


def short_wins(episodes, *, seed, max_turns=1, policies=None):
    """The replies of seats that won in few turns."""
    for one in recorded_trajectories(episodes, policies):
        if one.value > 0 and len(one.turns) <= max_turns:
            yield from completions(one, "a short win")
        else:
            yield Dropped("no win, or a long one")


def test_my_selector_keeps_its_promises():
    check_selector(short_wins, max_turns=2)
