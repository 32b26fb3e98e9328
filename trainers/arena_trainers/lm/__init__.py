"""Language models as policies: prompts, sampling, scores, adapters, reward models.

`arena_trainers.lm.backends` generates their tokens. The names of this module are imported when
they are first used: checks of settings run without torch.
"""

from typing import TYPE_CHECKING

from arena_envs.extras import lazy_names

if TYPE_CHECKING:
    from arena_trainers.lm.adapters import lora_config as lora_config
    from arena_trainers.lm.backends.padding import left_padded as left_padded
    from arena_trainers.lm.backends.scoring import reply_logprobs as reply_logprobs
    from arena_trainers.lm.best_of import BestOfPolicy as BestOfPolicy
    from arena_trainers.lm.chat import Chat as Chat
    from arena_trainers.lm.context import context_length as context_length
    from arena_trainers.lm.merge import write_merged as write_merged
    from arena_trainers.lm.models import adapter_base as adapter_base
    from arena_trainers.lm.models import find_model as find_model
    from arena_trainers.lm.models import model_folder as model_folder
    from arena_trainers.lm.models import saved_model as saved_model
    from arena_trainers.lm.policy import LMPolicy as LMPolicy
    from arena_trainers.lm.policy import learner_of as learner_of
    from arena_trainers.lm.prompt_file import PROMPT_FILE as PROMPT_FILE
    from arena_trainers.lm.prompt_file import prompt_json as prompt_json
    from arena_trainers.lm.prompt_file import read_prompt_file as read_prompt_file
    from arena_trainers.lm.reward_model import RewardModel as RewardModel
    from arena_trainers.lm.reward_model import check_same_texts as check_same_texts


__getattr__ = lazy_names(__name__, __file__)
