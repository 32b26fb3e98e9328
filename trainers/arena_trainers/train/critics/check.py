"""`check_critic`: whether a critic keeps its promises."""

from dataclasses import replace
from typing import Any

import numpy as np

import arena_envs
from arena_envs.registry import broken
from arena_trainers.train.credit_check import trial_records
from arena_trainers.train.critics.registry import critics
from arena_trainers.train.turn_batches import turn_batch


def check_critic(critic: Any, **options: Any) -> None:
    """Checks that a class of critics of turns gives what it declares, whatever the rewards of the batch.

    Raises:
        BrokenPromise: names the first promise that it breaks.
    """
    game = arena_envs.make_game("kuhn_poker")
    features = game.features(game.initial_state(), 0)
    records = [
        record._replace(
            features=features,
            action=0,
            legal=(0, 1),
            reply_probs=(0.5, 0.25),
            reply_index=0,
        )
        for record in trial_records([game])
    ]
    batch = turn_batch([records], {}, ["kuhn_poker"])
    registry = replace(critics, built_in={"mine": critic})
    arguments = {"games": [game], "discount": 1.0, "seed": 0, "scores_replies": True}
    instance, reloaded = (
        registry.make({"mine": options}, **arguments) for _ in range(2)
    )
    with_values = instance.with_values(batch, records)
    for name in getattr(critic, "supplies", ("value",)):
        column = getattr(with_values, name)
        if column is None or (name != "next_value" and not np.isfinite(column).all()):
            broken("columns", f"want numbers in {name}, got {column!r:.60}")
    with_higher_rewards = instance.with_values(
        replace(batch, reward=batch.reward + 1.0), records
    )
    if not np.array_equal(with_values.value, with_higher_rewards.value):
        broken("unbiased", "the values of a batch depend on its rewards")
    instance.after(with_values, records, True)
    if (state := instance.state_dict()) is not None:
        reloaded.load_state_dict(state)
        value, reloaded_value = (
            c.with_values(batch, records).value for c in (instance, reloaded)
        )
        if not np.array_equal(value, reloaded_value):
            broken("state", "a loaded critic gives other values")
