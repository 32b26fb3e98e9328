"""Prompts, replies, policies, and `play`, which runs many episodes at a time.

In lockstep, one call of a policy answers the waiting turns of all episodes. Where a seat is an
endpoint, and in `play_async` and `play_many`, episodes do not wait for each other.
"""

from importlib.util import find_spec

from arena_wrappers.policies import AgentPolicy as AgentPolicy
from arena_wrappers.policies import ArrayPolicy as ArrayPolicy
from arena_wrappers.policies import Ask as Ask
from arena_wrappers.policies import AsyncPolicy as AsyncPolicy
from arena_wrappers.policies import BotPolicy as BotPolicy
from arena_wrappers.policies import FunctionPolicy as FunctionPolicy
from arena_wrappers.policies import HumanPolicy as HumanPolicy
from arena_wrappers.policies import Policy as Policy
from arena_wrappers.policies import RandomPolicy as RandomPolicy
from arena_wrappers.policies import Reply as Reply
from arena_wrappers.policies import ScoringBotPolicy as ScoringBotPolicy
from arena_wrappers.policies import ScoringPolicy as ScoringPolicy
from arena_wrappers.policies import ScriptedPolicy as ScriptedPolicy
from arena_wrappers.policies import TurnRequest as TurnRequest
from arena_wrappers.policies import as_policy as as_policy
from arena_wrappers.policies import make_policy as make_policy
from arena_wrappers.policies import turn_seed as turn_seed
from arena_wrappers.prompts import FORMATS as FORMATS
from arena_wrappers.prompts import InvalidReply as InvalidReply
from arena_wrappers.prompts import Message as Message
from arena_wrappers.prompts import PromptOptions as PromptOptions
from arena_wrappers.prompts import ReplyFormat as ReplyFormat
from arena_wrappers.prompts import messages as messages
from arena_wrappers.prompts import parse_reply as parse_reply
from arena_wrappers.records import Episode as Episode
from arena_wrappers.records import Generation as Generation
from arena_wrappers.records import Turn as Turn
from arena_wrappers.records import read_episodes as read_episodes
from arena_wrappers.records import without_lost as without_lost
from arena_wrappers.records import write_episodes as write_episodes

if find_spec("pettingzoo"):  # prompts and policies do without
    from arena_wrappers.play import Branching as Branching
    from arena_wrappers.play import EpisodePlan as EpisodePlan
    from arena_wrappers.play import NoReplyError as NoReplyError
    from arena_wrappers.play import PromptWrapper as PromptWrapper
    from arena_wrappers.play import ReplayError as ReplayError
    from arena_wrappers.play import SeatEnv as SeatEnv
    from arena_wrappers.play import SeatSession as SeatSession
    from arena_wrappers.play import play as play
    from arena_wrappers.play import play_async as play_async
    from arena_wrappers.play import play_many as play_many
    from arena_wrappers.play import play_plans as play_plans
    from arena_wrappers.play import replay as replay
    from arena_wrappers.play import stream_plans as stream_plans
    from arena_wrappers.play import turn_states as turn_states
