"""Generation settings that are ours alone, and the end tokens that a model's own settings name."""

from transformers import (
    GenerationConfig,
    PreTrainedModel,
)


def with_generation_config(
    model: PreTrainedModel, config: GenerationConfig
) -> PreTrainedModel:
    """The model, sharing its weights, with these generation settings in place of its own.

    `generate` fills in from `model.generation_config` whatever the settings of a call leave
    open: penalties, banned and forced tokens, least lengths. What it samples then is not
    what the loss takes log-probabilities of.

    Args:
        model: not changed. If it has adapters, the adapted model is taken.
        config: of the copy.
    """
    get_base_model = getattr(model, "get_base_model", None)  # of peft
    model = model if get_base_model is None else get_base_model()
    # not by copy.copy, which makes a new model of one that FSDP2 has wrapped
    copy: PreTrainedModel = object.__new__(type(model))
    vars(copy).update(vars(model))
    copy.generation_config = config
    return copy


def model_end_ids(model: PreTrainedModel) -> list[int]:
    """The end tokens that the model's own settings name."""
    end_ids = getattr(model.generation_config, "eos_token_id", None)
    if end_ids is None:
        return []
    return end_ids if isinstance(end_ids, list) else [end_ids]
