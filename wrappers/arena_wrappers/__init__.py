"""Prompts, replies, policies, and `play`, which runs many episodes at a time.

In lockstep, one call of a policy answers the waiting turns of all episodes. Where a seat is an
endpoint, and in `play_async` and `play_many`, episodes do not wait for each other.
"""

from importlib.util import find_spec

from arena_wrappers.policies import (
    AgentPolicy,
    ArrayPolicy,
    Ask,
    AsyncPolicy,
    BotPolicy,
    HumanPolicy,
    Policy,
    RandomPolicy,
    Reply,
    ScoringBotPolicy,
    ScoringPolicy,
    ScriptedPolicy,
    TurnRequest,
    make_policy,
    turn_seed,
)
from arena_wrappers.prompts import (
    FORMATS,
    InvalidReply,
    Message,
    PromptOptions,
    ReplyFormat,
    messages,
    parse_reply,
)
from arena_wrappers.records import (
    Episode,
    Generation,
    Turn,
    read_episodes,
    without_lost,
    write_episodes,
)

if find_spec("pettingzoo"):  # prompts and policies do without
    from arena_wrappers.play import (
        Branching,
        EpisodePlan,
        NoReplyError,
        PromptWrapper,
        ReplayError,
        SeatEnv,
        SeatSession,
        play,
        play_async,
        play_many,
        play_plans,
        replay,
        stream_plans,
        turn_states,
    )

__all__ = [
    "FORMATS",
    "AgentPolicy",
    "ArrayPolicy",
    "Ask",
    "AsyncPolicy",
    "BotPolicy",
    "Branching",
    "Episode",
    "EpisodePlan",
    "Generation",
    "HumanPolicy",
    "InvalidReply",
    "Message",
    "NoReplyError",
    "Policy",
    "PromptOptions",
    "PromptWrapper",
    "RandomPolicy",
    "ReplayError",
    "Reply",
    "ReplyFormat",
    "ScoringBotPolicy",
    "ScoringPolicy",
    "ScriptedPolicy",
    "SeatEnv",
    "SeatSession",
    "Turn",
    "TurnRequest",
    "make_policy",
    "messages",
    "parse_reply",
    "play",
    "play_async",
    "play_many",
    "play_plans",
    "read_episodes",
    "replay",
    "stream_plans",
    "turn_seed",
    "turn_states",
    "without_lost",
    "write_episodes",
]
