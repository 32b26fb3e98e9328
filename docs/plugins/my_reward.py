"""A reward.

- **Protocol**: a function of an `Episode`, one of its turns, the state before it, the game, and
  options. It returns a finite number, the same for the same turn. The last call of an agent's
  turn gets it. A function whose first parameter is `calls` pays each call its own part: it is
  called once for the `Call`s of a batch, and returns a number for each.
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


def my_part(calls, *, role="planner"):
    """1 for a plan with a reason."""
    texts = [(call.generation.role, call.generation.text) for call in calls]
    return [float(speaker == role and "because" in text) for speaker, text in texts]


def test_my_rewards_keep_their_promises():
    check_reward(my_reward, "kuhn_poker")
    check_reward(my_part, "kuhn_poker")
