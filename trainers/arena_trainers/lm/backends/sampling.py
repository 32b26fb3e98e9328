"""Generation: draws that belong to the request, and settings that are ours alone."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from transformers import (
    GenerationConfig,
    LogitsProcessor,
    MinPLogitsWarper,
    PreTrainedModel,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from arena_trainers.lm.backends import Sampling

# of a step, float32[B, V]: weights in proportion to which tokens are drawn, log-probabilities
Note = Callable[[torch.Tensor, torch.Tensor], None]


class SeededSampler(LogitsProcessor):
    """Draws tokens by one uniform number per row and step, hashed from (seed, step).

    The number is inverted through the cumulative distribution of softmax(logits /
    temperature), after the repetition penalty and cut by top-k, top-p and min-p. It depends
    on the row's own seed alone, and so does what is drawn: not on the rows that share the
    batch. Greedy decoding of the returned scores gives the token. At temperature 0 it is
    the likeliest one.

    Attributes:
        logprobs: for each step, float32[B], log-probability of the chosen token as
            `Generated` defines it.
        entropies: for each step, float32[B], entropy in nats of the distribution that
            `logprobs` are of: softmax(logits / temperature), after the cuts if it is drawn
            from; none unless `with_entropy`.

    Args:
        seeds: one integer per row.
        sampling: how tokens are drawn.
        prompt_ids: the prompts, which the repetition penalty reads.
        note: called at each step with the distributions of all rows.
    """

    def __init__(
        self,
        seeds: Sequence[int],
        sampling: Sampling,
        prompt_ids: Sequence[Sequence[int]] = (),
        note: Note | None = None,
    ) -> None:
        self.seeds = torch.tensor([[_signed(seed)] for seed in seeds])  # [B, 1]
        self.sampling, self.prompt_ids, self.note = sampling, prompt_ids, note
        self.warpers: list[LogitsProcessor] = []
        if sampling.top_k > 0:
            self.warpers.append(TopKLogitsWarper(sampling.top_k))
        if sampling.top_p < 1.0:
            self.warpers.append(TopPLogitsWarper(sampling.top_p))
        if sampling.min_p > 0:
            self.warpers.append(MinPLogitsWarper(sampling.min_p))
        self._held: torch.Tensor | None = None  # bool[B, V], tokens of prompt and reply
        self.logprobs: list[torch.Tensor] = []
        self.entropies: list[torch.Tensor] = []

    def __call__(
        self, input_ids: torch.LongTensor, scores: torch.FloatTensor
    ) -> torch.FloatTensor:
        logits = self._tempered(scores.float())
        top = logits.amax(dim=-1, keepdim=True)
        weights = (logits - top).exp_()  # [B, V], in proportion to the probabilities
        total = weights.sum(dim=-1, keepdim=True)
        cut = self._cut(input_ids, scores, logits)
        if self.sampling.temperature > 0:
            number = uniform(self.seeds.to(logits.device), len(self.logprobs))
            shares = weights if cut is logits else cut.softmax(dim=-1)
            chosen = drawn(shares, number)
        else:
            chosen = cut.argmax(dim=-1, keepdim=True)
            shares = torch.zeros_like(weights).scatter_(1, chosen, 1.0)
        norm = top + total.log()  # logsumexp of the logits
        is_cut = cut is not logits and self.sampling.temperature > 0
        if is_cut:
            logits, norm = cut, cut.logsumexp(dim=-1, keepdim=True)
        if self.note is not None:
            self.note(shares, logits - norm)
        logprobs = logits.gather(1, chosen) - norm
        self.logprobs.append(logprobs[:, 0])
        if self._held is not None:
            self._held.scatter_(1, chosen, True)
        if self.sampling.with_entropy:
            # H = log Z - mean logit, without a logarithm of each probability
            finite = logits.clamp(min=-1e30)  # as 0 times minus infinity is NaN
            mass, whole = (shares, 1.0) if is_cut else (weights, total[:, 0])
            mean = torch.linalg.vecdot(mass, finite) / whole
            self.entropies.append((norm[:, 0] - mean).clamp_(min=0.0))
        only = torch.full_like(logits, -torch.inf).scatter_(1, chosen, 0.0)
        return only  # type: ignore[return-value]

    def _tempered(self, logits: torch.Tensor) -> torch.Tensor:
        divisor = self.sampling.temperature or 1.0
        return logits if divisor == 1 else logits / divisor

    def _cut(
        self,
        input_ids: torch.LongTensor,
        scores: torch.FloatTensor,
        logits: torch.Tensor,
    ) -> torch.Tensor:
        """`logits`, or what penalty and cuts make of `scores`; -inf is not drawn."""
        cut = logits
        if self.sampling.repetition_penalty != 1:
            cut = self._tempered(self._penalized(scores.float()))
        for warper in self.warpers:
            cut = warper(input_ids, cut)
        return cut

    def _penalized(self, logits: torch.Tensor) -> torch.Tensor:
        """Logits after the repetition penalty; what fills up a row is not repeated."""
        if self._held is None:
            held = torch.zeros(logits.shape, dtype=torch.bool)
            for row, ids in enumerate(self.prompt_ids):
                held[row, list(ids)] = True
            self._held = held.to(logits.device)
        penalty = self.sampling.repetition_penalty
        changed = torch.where(logits > 0, logits / penalty, logits * penalty)
        return torch.where(self._held, changed, logits)


BLOCK = 256  # tokens; about the square root of a vocabulary


def drawn(weights: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
    """Inverts the cumulative distribution: first to a block of tokens, then within it.

    Args:
        weights: float32[B, V], not negative; they need not add up to 1.
        number: float64[B, 1] in [0, 1).

    Returns:
        int64[B, 1], the tokens; none has weight 0.

    >>> half = torch.tensor([[0.5]], dtype=torch.float64)
    >>> drawn(torch.tensor([[1.0, 0.0, 1.0]]), half).item()
    2
    """
    lacking = -weights.shape[1] % BLOCK
    if lacking:
        weights = torch.nn.functional.pad(weights, (0, lacking))
    blocks = weights.unflatten(1, (-1, BLOCK))  # [B, V / BLOCK, BLOCK]
    block, rest = _inverted(blocks.sum(dim=2), number)
    inside = blocks.take_along_dim(block[:, :, None], dim=1)[:, 0]  # [B, BLOCK]
    return block * BLOCK + _inverted(inside, rest)[0]


def _inverted(
    weights: torch.Tensor, number: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The entry of each row in which a number falls, and where in it.

    Rounding cannot choose an entry of weight 0, nor pass by the last one.

    Args:
        weights: float32[B, N].
        number: float64[B, 1] from 0 to 1.

    Returns:
        int64[B, 1], and float64[B, 1] from 0 to 1.
    """
    own = weights.double()
    ends = own.cumsum(dim=1)
    last = ends.where(own > 0, 0.0).amax(dim=1, keepdim=True)
    below = torch.nextafter(last, torch.zeros_like(last))
    target = torch.minimum(number * last, below)
    index = ((ends > target) & (own > 0)).byte().argmax(dim=1, keepdim=True)
    share = own.gather(1, index)
    rest = 1 - (ends.gather(1, index) - target) / share
    return index, rest.clamp(0, 1)


def uniform(seeds: torch.Tensor, step: int) -> torch.Tensor:
    """A uniform number in [0, 1) from the SplitMix64 stream of each (seed, step).

    Args:
        seeds: int64[B, 1].
        step: which token of the reply.

    Returns:
        float64[B, 1], multiples of 2⁻⁵³.
    """
    key = _mix(seeds + _signed((step + 1) * _GOLDEN))
    return _shift(_mix(key + _signed(_GOLDEN)), 11).double() * 2.0**-53


def uniform_number(seed: int, step: int) -> float:
    """`uniform` for one seed, by Python's integers, which cost less than a tensor.

    >>> uniform_number(7, 2) == uniform(torch.tensor([[7]]), 2).item()
    True
    """
    key = _mix(seed + (step + 1) * _GOLDEN)  # the low 64 bits are those of int64
    return _shift(_mix(key + _GOLDEN), 11) * 2.0**-53


def seed_after(seed: int, step: int) -> int:
    """The seed whose numbers are those of `seed` from a step on.

    >>> uniform_number(seed_after(7, 2), 1) == uniform_number(7, 3)
    True
    """
    return seed + step * _GOLDEN


_GOLDEN = 0x9E3779B97F4A7C15
_Int = TypeVar("_Int", int, torch.Tensor)


def _signed(number: int) -> int:
    """The int64 with the same 64 low bits; torch has no unsigned arithmetic."""
    return ((number + 2**63) % 2**64) - 2**63


def _shift(x: _Int, bits: int) -> _Int:
    return (x >> bits) & ((1 << (64 - bits)) - 1)  # logical, not arithmetic


def _mix(x: _Int) -> _Int:
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
