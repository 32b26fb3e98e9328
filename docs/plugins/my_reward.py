"""A reward.

- **Protocol**: a function of an `Episode`, one of its turns, the state before it, the game, and
  options. It returns a finite number, the same for the same turn.
- **Name**: `rewards: {my_reward:my_reward: {weight: [0.1, 0.0], over: 100}}`; the group is
  `arena.rewards`.
- **Check**: `check_reward`. Training first tries a reward on four turns of random play.
"""

from arena_trainers.rewards import check_reward


def my_reward(episode, turn, state, game, *, action="bet"):
    """1 for one action."""
    return float(
        turn.invalid is None and game.action_text(state, turn.action) == action
    )


def test_my_reward_keeps_its_promises():
    check_reward(my_reward, "kuhn_poker")
