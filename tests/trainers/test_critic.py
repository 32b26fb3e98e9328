"""The critic: values near the exact ones, and columns that estimators read."""

from dataclasses import replace

import numpy as np
import pytest

import arena_envs
from arena_envs.env import GameEnv
from arena_envs.solvers import state_values, uniform_table
from arena_trainers.credit import estimate
from arena_trainers.critic import FeatureCritic
from arena_trainers.positions import positions
from arena_trainers.rows import turn_batch, turn_records
from arena_wrappers import PromptWrapper, RandomPolicy, play
