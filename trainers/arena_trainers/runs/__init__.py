"""A run of `arena train`: self-play, rows, or rounds, as stages over one run folder.

The names of this module are imported when they are first used.
"""

from typing import TYPE_CHECKING

from arena_envs.extras import lazy_names

if TYPE_CHECKING:
    from arena_trainers.runs.callbacks.best import read_best as read_best
    from arena_trainers.runs.callbacks.nash_conv import NASH_CONV as NASH_CONV
    from arena_trainers.runs.callbacks.rollouts import (
        training_groups as training_groups,
    )
    from arena_trainers.runs.checks.lengths import check_context as check_context
    from arena_trainers.runs.checks.preflight import check_policies as check_policies
    from arena_trainers.runs.checks.rounds import check_stages as check_stages
    from arena_trainers.runs.recipe import load_recipe as load_recipe
    from arena_trainers.runs.recipe import overridden as overridden
    from arena_trainers.runs.recipe import recipes as recipes
    from arena_trainers.runs.results.commands import closing_lines as closing_lines
    from arena_trainers.runs.results.metrics import read_metrics as read_metrics
    from arena_trainers.runs.round_settings import read_loop as read_loop
    from arena_trainers.runs.rounds import RoundError as RoundError
    from arena_trainers.runs.rounds import Rounds as Rounds
    from arena_trainers.runs.self_play import SelfPlayRun as SelfPlayRun
    from arena_trainers.runs.settings import JobConfig as JobConfig
    from arena_trainers.runs.settings import build_configs as build_configs
    from arena_trainers.runs.tiny import catalogue_tokenizer as catalogue_tokenizer
    from arena_trainers.runs.tiny import tiny_model as tiny_model
    from arena_trainers.runs.tiny import tiny_tokenizer as tiny_tokenizer
    from arena_trainers.runs.tiny import words_of as words_of


__getattr__ = lazy_names(__name__, __file__)
