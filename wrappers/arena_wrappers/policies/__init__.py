"""Policies: requests in, replies out; a model, a bot, a person or an endpoint."""

from arena_wrappers.policies.arrays import ArrayPolicy
from arena_wrappers.policies.basic import (
    INSTEAD,
    AsyncPolicy,
    BotPolicy,
    NoisyPolicy,
    Policy,
    RandomPolicy,
    Reply,
    ScoringBotPolicy,
    ScoringNoisyPolicy,
    ScoringPolicy,
    ScriptedPolicy,
    TurnRequest,
    addressed,
    own_prompt,
    turn_seed,
    without_noise,
)
from arena_wrappers.policies.human import HumanPolicy, names_person, wrapped
from arena_wrappers.policies.policy_strings import Maker, make_policy, policies

__all__ = [
    "INSTEAD",
    "ArrayPolicy",
    "AsyncPolicy",
    "BotPolicy",
    "HumanPolicy",
    "Maker",
    "NoisyPolicy",
    "Policy",
    "RandomPolicy",
    "Reply",
    "ScoringBotPolicy",
    "ScoringNoisyPolicy",
    "ScoringPolicy",
    "ScriptedPolicy",
    "TurnRequest",
    "addressed",
    "make_policy",
    "names_person",
    "own_prompt",
    "policies",
    "turn_seed",
    "without_noise",
    "wrapped",
]
