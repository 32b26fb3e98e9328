"""Language models as policies: prompts, sampling, scores, adapters, reward models.

`arena_trainers.lm.backends` generates their tokens. The names of this module are imported when
they are first used: checks of settings run without torch.
"""

from typing import TYPE_CHECKING

from arena_trainers.extras import lazy_names

if TYPE_CHECKING:
    from arena_trainers.lm.adapters import lora_config
    from arena_trainers.lm.backends.scoring import left_padded, reply_logprobs
    from arena_trainers.lm.best_of import BestOfPolicy
    from arena_trainers.lm.chat import Chat
    from arena_trainers.lm.models import (
        adapter_base,
        find_model,
        model_folder,
        saved_model,
    )
    from arena_trainers.lm.policy import LMPolicy, learner_of
    from arena_trainers.lm.prompt_file import PROMPT_FILE, prompt_json, read_prompt_file
    from arena_trainers.lm.reward_model import RewardModel, check_same_texts

__all__ = [
    "PROMPT_FILE",
    "BestOfPolicy",
    "Chat",
    "LMPolicy",
    "RewardModel",
    "adapter_base",
    "check_same_texts",
    "find_model",
    "learner_of",
    "left_padded",
    "lora_config",
    "model_folder",
    "prompt_json",
    "read_prompt_file",
    "reply_logprobs",
    "saved_model",
]

__getattr__ = lazy_names(__name__, __file__)
