"""Generation settings that are ours alone, and the end tokens that a model's own settings name."""

from transformers import (
    GenerationConfig,
    PreTrainedModel,
)


def with_settings(model: PreTrainedModel, config: GenerationConfig) -> PreTrainedModel:
    """The model, sharing its weights, with these generation settings in place of its own.

    `generate` fills in from `model.generation_config` whatever the settings of a call leave
    open: penalties, banned and forced tokens, least lengths. What it samples then is not
    what the loss takes log-probabilities of.

    Args:
        model: not changed. If it has adapters, the adapted model is taken.
        config: of the copy.
    """
    base = getattr(model, "get_base_model", None)  # of peft
    model = model if base is None else base()
    # not by copy.copy, which makes a new model of one that FSDP2 has wrapped
    twin: PreTrainedModel = object.__new__(type(model))
    vars(twin).update(vars(model))
    twin.generation_config = config
    return twin


def known_ends(model: PreTrainedModel) -> list[int]:
    """The end tokens that the model's own settings name."""
    known = getattr(model.generation_config, "eos_token_id", None)
    return known if isinstance(known, list) else [] if known is None else [known]
