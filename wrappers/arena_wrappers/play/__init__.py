"""Play: environments for prompts and replies, episodes, turn trees and replay."""

from arena_wrappers.play.live_episodes import (
    Branching,
    EnvCache,
    EnvFn,
    EpisodePlan,
    plans_of,
)
from arena_wrappers.play.play import (
    NoReplyError,
    ask,
    ask_async,
    checked_timeout,
    forfeit_reason,
    is_async,
    play,
    play_async,
    play_many,
    play_plans,
    stream_plans,
)
from arena_wrappers.play.replay import (
    ReplayError,
    ending,
    final_state,
    game_of,
    replay,
    tell_people,
    turn_states,
)
from arena_wrappers.play.seat_env import (
    Opponents,
    Seat,
    SeatEnv,
    bot_of,
    make_seat_env,
)
from arena_wrappers.play.session import SeatSession, transcript
from arena_wrappers.play.wrapper import MAX_REFUSED, PromptWrapper

__all__ = [
    "MAX_REFUSED",
    "Branching",
    "EnvCache",
    "EnvFn",
    "EpisodePlan",
    "NoReplyError",
    "Opponents",
    "PromptWrapper",
    "ReplayError",
    "Seat",
    "SeatEnv",
    "SeatSession",
    "ask",
    "ask_async",
    "bot_of",
    "checked_timeout",
    "ending",
    "final_state",
    "forfeit_reason",
    "game_of",
    "is_async",
    "make_seat_env",
    "plans_of",
    "play",
    "play_async",
    "play_many",
    "play_plans",
    "replay",
    "stream_plans",
    "tell_people",
    "transcript",
    "turn_states",
]
