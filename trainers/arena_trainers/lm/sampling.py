"""Generation: noise that belongs to the request, and alike prompts computed once."""

import copy
from typing import Any

import torch
from transformers import (
    DynamicCache,
    GenerationConfig,
    LogitsProcessor,
    PreTrainedModel,
    TopKLogitsWarper,
    TopPLogitsWarper,
)


class SeededSampler(LogitsProcessor):
    """Samples by the Gumbel-max trick with noise hashed from (seed, step, token).

    Greedy decoding of the returned scores is a sample from softmax(logits / temperature),
    cut by top-k and top-p: argmaxᵥ(log pᵥ + gᵥ) with independent Gumbel noise gᵥ. A row's
    noise depends on its own seed alone, so what is sampled does not depend on which rows
    share the batch. At temperature 0 there is no noise.

    Attributes:
        logprobs: for each step, float32[B], log-probability of the chosen token under
            softmax(logits / temperature), before top-k and top-p: the quantity that TRL
            computes again for its loss.
        entropies: for each step, float32[B], entropy of that distribution in nats; none
            unless `with_entropy`.

    Args:
        seeds: one integer per row.
        temperature: divides the logits.
        top_k: keeps the k likeliest tokens; 0 for all.
        top_p: keeps the likeliest tokens that make up this mass; 1 for all.
        with_entropy: whether entropies are kept.
    """

    def __init__(
        self,
        seeds: list[int],
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        with_entropy: bool = False,
    ) -> None:
        self.seeds = torch.tensor([[_signed(seed)] for seed in seeds])  # [B, 1]
        self.temperature = temperature
        self.warpers: list[LogitsProcessor] = []
        if top_k > 0:
            self.warpers.append(TopKLogitsWarper(top_k))
        if top_p < 1.0:
            self.warpers.append(TopPLogitsWarper(top_p))
        self.with_entropy = with_entropy
        self.logprobs: list[torch.Tensor] = []
        self.entropies: list[torch.Tensor] = []

    def __call__(
        self, input_ids: torch.LongTensor, scores: torch.FloatTensor
    ) -> torch.FloatTensor:
        logits = scores.float()
        if self.temperature > 0:
            logits = logits / self.temperature
        logprobs = logits.log_softmax(dim=-1)  # [B, V]
        noisy: torch.Tensor = logprobs
        for warper in self.warpers:
            noisy = warper(input_ids, noisy)
        if self.temperature > 0:
            noise = gumbel_noise(
                self.seeds.to(logits.device), len(self.logprobs), logits.shape[1]
            )
            noisy = noisy + noise
        chosen = noisy.argmax(dim=-1, keepdim=True)
        self.logprobs.append(logprobs.gather(1, chosen)[:, 0])
        if self.with_entropy:
            entropy = torch.special.entr(logprobs.exp()).sum(dim=-1)
            self.entropies.append(entropy.clamp(min=0))  # rounding
        return noisy  # type: ignore[return-value]


def gumbel_noise(seeds: torch.Tensor, step: int, num_tokens: int) -> torch.Tensor:
    """Standard Gumbel noise from the SplitMix64 stream of each (seed, step).

    Args:
        seeds: int64[B, 1].
        step: which token of the reply.
        num_tokens: V, size of the vocabulary.

    Returns:
        float32[B, V].
    """
    tokens = torch.arange(1, num_tokens + 1, device=seeds.device)[None]  # [1, V]
    key = _mix(seeds + _signed((step + 1) * _GOLDEN))
    bits = _shift(_mix(key + tokens * _signed(_GOLDEN)), 11)  # 53 of them
    uniform = (bits.double() + 0.5) * 2.0**-53
    return -torch.log(-torch.log(uniform)).float()


_GOLDEN = 0x9E3779B97F4A7C15


def _signed(number: int) -> int:
    """The int64 with the same 64 low bits; torch has no unsigned arithmetic."""
    return ((number + 2**63) % 2**64) - 2**63


def _shift(x: torch.Tensor, bits: int) -> torch.Tensor:
    return (x >> bits) & ((1 << (64 - bits)) - 1)  # logical, not arithmetic


def _mix(x: torch.Tensor) -> torch.Tensor:
    """Finaliser of SplitMix64 (Steele, Lea and Flood, 2014)."""
    x = (x ^ _shift(x, 30)) * _signed(0xBF58476D1CE4E5B9)
    x = (x ^ _shift(x, 27)) * _signed(0x94D049BB133111EB)
    return x ^ _shift(x, 31)


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
    twin = copy.copy(model if base is None else base())
    twin.generation_config = config
    return twin


def shared_prefix(
    model: PreTrainedModel, input_ids: torch.Tensor, attention_mask: torch.Tensor
) -> dict[str, Any]:
    """The prompts but for their last token, computed once for rows that are alike.

    Lockstep play asks the same prompt many times: samples of one seed start alike, and a
    small game has few prompts.

    Returns:
        Arguments for `generate`; none where most rows differ, or the model keeps anything
        but keys and values of each row.
    """
    rows = torch.stack([input_ids, attention_mask])  # [2, B, L]
    distinct, row_of = rows.unique(dim=1, return_inverse=True)
    if 2 * distinct.shape[1] > len(input_ids) or input_ids.shape[1] < 2:
        return {}
    ids, mask = distinct[:, :, :-1]
    cache = model.get_decoder()(
        input_ids=ids,
        attention_mask=mask,
        position_ids=(mask.cumsum(dim=1) - 1).clamp(min=0),
        use_cache=True,
    ).past_key_values
    if not isinstance(cache, DynamicCache):
        return {}
    cache.reorder_cache(row_of)
    return {"past_key_values": cache}


def known_ends(model: PreTrainedModel) -> list[int]:
    """The end tokens that the model's own settings name."""
    known = getattr(model.generation_config, "eos_token_id", None)
    return known if isinstance(known, list) else [] if known is None else [known]
