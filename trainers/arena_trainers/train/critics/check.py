"""`check_critic`: whether a critic keeps its promises."""

from dataclasses import replace
from typing import Any

import numpy as np

import arena_envs
from arena_envs.doors import broken
from arena_trainers.train.credit_check import trial_records
from arena_trainers.train.critics.registry import critics
from arena_trainers.train.records import turn_batch


def check_critic(critic: Any, **options: Any) -> None:
    """Checks that a class of critics of turns gives what it declares, whatever the rewards of the batch.

    Raises:
        BrokenPromise: names the first promise that it breaks.
    """
    game = arena_envs.make_game("kuhn_poker")
    features = game.features(game.initial_state(), 0)
    records = [r._replace(features=features) for r in trial_records([game])]
    batch = turn_batch([records], {}, ["kuhn_poker"])
    door = replace(critics, built_in={"mine": critic})
    known = {"games": [game], "discount": 1.0, "seed": 0}
    made, again = (door.make({"mine": options}, **known) for _ in range(2))
    found = made.with_values(batch, records)
    for name in getattr(critic, "supplies", ("value",)):
        column = getattr(found, name)
        if column is None or (name != "next_value" and not np.isfinite(column).all()):
            broken("columns", f"want numbers in {name}, got {column!r:.60}")
    richer = made.with_values(replace(batch, reward=batch.reward + 1.0), records)
    if not np.array_equal(found.value, richer.value):
        broken("unbiased", "the values of a batch depend on its rewards")
    made.after(found, records, True)
    if (state := made.state_dict()) is not None:
        again.load_state_dict(state)
        one, other = (c.with_values(batch, records).value for c in (made, again))
        if not np.array_equal(one, other):
            broken("state", "a loaded critic gives other values")
