"""TRL: rollouts and tools for users who keep TRL's own `GRPOTrainer`.

`rollout_func` plays whole episodes with the trainer's model in one seat. `seat_tools` makes the
environments of `environment_factory`, in which a model with tool calls plays a seat.
"""

from arena_wrappers.adapters import check_version

check_version("trl", "train", "1.16", "1.17")

from arena_wrappers.adapters.trl.rollouts import (  # noqa: E402
    episode_return,
    rollout_func,
    starts,
    token_row,
)
from arena_wrappers.adapters.trl.tools import SeatTools, seat_tools  # noqa: E402

__all__ = [
    "SeatTools",
    "episode_return",
    "rollout_func",
    "seat_tools",
    "starts",
    "token_row",
]
