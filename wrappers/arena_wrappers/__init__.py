"""Prompts, replies, policies, and `play`, which runs many episodes at a time.

In lockstep, one call of a policy answers the waiting turns of all episodes. Where a seat is an
endpoint, and in `play_async` and `play_many`, episodes do not wait for each other.
"""

from arena_wrappers.asking import NoReplyError
from arena_wrappers.branching import Branching
from arena_wrappers.episodes import (
    Episode,
    Turn,
    read_episodes,
    without_lost,
    write_episodes,
)
from arena_wrappers.formats import FORMATS, InvalidReply, ReplyFormat, parse_reply
from arena_wrappers.human import HumanPolicy
from arena_wrappers.play import EpisodePlan, play, play_plans, stream_plans
from arena_wrappers.play_async import play_async, play_many
from arena_wrappers.policies import (
    AsyncPolicy,
    BotPolicy,
    Policy,
    RandomPolicy,
    Reply,
    ScoringBotPolicy,
    ScoringPolicy,
    ScriptedPolicy,
    TurnRequest,
    turn_seed,
)
from arena_wrappers.policy_strings import make_policy
from arena_wrappers.prompts import Message, PromptOptions, messages
from arena_wrappers.replay import ReplayError, replay, turn_states
from arena_wrappers.seat_env import SeatEnv
from arena_wrappers.tolerant import parse_tolerantly
from arena_wrappers.wrapper import PromptWrapper

__all__ = [
    "FORMATS",
    "AsyncPolicy",
    "BotPolicy",
    "Branching",
    "Episode",
    "EpisodePlan",
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
    "Turn",
    "TurnRequest",
    "make_policy",
    "messages",
    "parse_reply",
    "parse_tolerantly",
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
