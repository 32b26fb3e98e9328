"""Models whose cache has another argument, or changes what follows, sample from their own distribution."""

import inspect
import warnings

import pytest
import torch
from transformers import Qwen3ForCausalLM

from arena_trainers.lm import LMPolicy, reply_logprobs

# its name differs by version of transformers
PARAMETERS = inspect.signature(Qwen3ForCausalLM.forward).parameters
NAME = "cache" if "cache" in PARAMETERS else "past_key_values"
PROMPT = [5, 6, 7, 8]


class OtherArgument(Qwen3ForCausalLM):
    """Its cache is called otherwise, and one of the usual name vanishes."""

    def forward(self, input_ids, attention_mask=None, cache_params=None, **kwargs):
        kwargs.pop(NAME, None)
        inputs = {"input_ids": input_ids, "attention_mask": attention_mask}
        output = super().forward(**inputs, **{NAME: cache_params}, **kwargs)
        output["cache_params"] = output.get(NAME)
        return output


class Forgetful(Qwen3ForCausalLM):
    """Its cache loses the prompt."""

    def forward(self, input_ids, attention_mask=None, **kwargs):
        cache = kwargs.get(NAME)
        if cache is not None and cache.get_seq_length() > 0:
            for layer in cache.layers:
                layer.values = torch.zeros_like(layer.values)
        return super().forward(input_ids, attention_mask, **kwargs)


class WholeLogits(Qwen3ForCausalLM):
    """It scores all positions, whatever is asked for."""

    def forward(self, input_ids, attention_mask=None, **kwargs):
        kwargs.pop("logits_to_keep", None)
        return super().forward(input_ids, attention_mask, **kwargs)


class NumberOfLogits(Qwen3ForCausalLM):
    """It slices by a number, as code of the hub may do."""

    def forward(
        self, input_ids, attention_mask=None, logits_to_keep: int = 0, **kwargs
    ):
        output = super().forward(input_ids, attention_mask, **kwargs)
        output["logits"] = output.logits[:, -logits_to_keep:, :]
        return output


def speaker_of(kind, policy):
    """The tiny model as a model of another class."""
    model = kind(policy.model.config).eval()
    model.load_state_dict(policy.model.state_dict())
    return LMPolicy(model, policy.tokenizer, max_new_tokens=4)


def largest_gap(speaker, prompts):
    """Nats between sampled log-probabilities and those of a plain pass of each row."""
    gap = 0.0
    for reply in speaker.generate(prompts, range(len(prompts))):
        ids = torch.tensor([[*reply.prompt_ids, *reply.token_ids]])
        with torch.no_grad():
            logits = speaker.model(input_ids=ids, use_cache=False).logits[0]
        first = len(reply.prompt_ids) - 1
        plain = logits[first:-1].log_softmax(-1).gather(1, ids[0, first + 1 :, None])
        sampled = torch.tensor(reply.logprobs)
        gap = max(gap, float((plain[:, 0] - sampled).abs().max()))
    return gap


def test_a_model_that_keeps_a_number_of_logits_is_given_a_number(policy):
    """A frozen head on a CPU is else given positions."""
    speaker = speaker_of(NumberOfLogits, policy)
    speaker.model.requires_grad_(False)
    assert largest_gap(speaker, [PROMPT] * 2) < 1e-5


def test_a_cache_goes_into_the_argument_of_the_models_signature(policy):
    """Left out, it would give a warning, which is an error here."""
    speaker = speaker_of(OtherArgument, policy)
    assert largest_gap(speaker, [PROMPT] * 8) < 1e-5


@pytest.mark.parametrize("prompts", [[PROMPT] * 8, [PROMPT, PROMPT[::-1]]])
def test_a_cache_that_forgets_the_prompt_is_left_out_with_a_warning(policy, prompts):
    speaker = speaker_of(Forgetful, policy)
    with pytest.warns(UserWarning, match="the cache of qwen3 is left out.*nats"):
        assert largest_gap(speaker, prompts) < 1e-5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        speaker.generate(prompts, range(len(prompts)))


def test_replies_are_scored_where_they_stand_if_a_model_scores_all_positions(policy):
    rows = [(PROMPT, [8, 9]), (PROMPT, [9])]
    models = policy.model, speaker_of(WholeLogits, policy).model
    how = 1.0, policy.pad_id, policy.eos_ids
    with torch.no_grad():
        wanted, scores = (reply_logprobs(model, rows, *how) for model in models)
    assert scores == pytest.approx(wanted)
