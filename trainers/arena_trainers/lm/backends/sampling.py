"""`SeededSampler`: tokens drawn by numbers of the request alone."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import (
    LogitsProcessor,
    MinPLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from arena_trainers.lm.backends import Sampling
from arena_trainers.lm.backends.random_numbers import seeds_of, uniform

# of a step, float32[B, V]: weights in proportion to which tokens are drawn, log-probabilities
StepObserver = Callable[[torch.Tensor, torch.Tensor], None]


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
        on_step: called at each step with the distributions of all rows.
    """

    def __init__(
        self,
        seeds: Sequence[int],
        sampling: Sampling,
        prompt_ids: Sequence[Sequence[int]] = (),
        on_step: StepObserver | None = None,
    ) -> None:
        self.seeds = seeds_of(seeds)
        self.sampling, self.prompt_ids, self.on_step = sampling, prompt_ids, on_step
        self.warpers: list[LogitsProcessor] = []
        if sampling.top_k > 0:
            self.warpers.append(TopKLogitsWarper(sampling.top_k))
        if sampling.top_p < 1.0:
            self.warpers.append(TopPLogitsWarper(sampling.top_p))
        if sampling.min_p > 0:
            self.warpers.append(MinPLogitsWarper(sampling.min_p))
        # bool[B, V], tokens that the prompt or the reply holds
        self._occurring: torch.Tensor | None = None
        self.logprobs: list[torch.Tensor] = []
        self.entropies: list[torch.Tensor] = []

    def __call__(
        self, input_ids: torch.LongTensor, scores: torch.FloatTensor
    ) -> torch.FloatTensor:
        """Scores of which greedy decoding takes the token that is drawn."""
        tokens = self._draw(scores, None)
        one_hot_scores = torch.full_like(scores.float(), -torch.inf)
        return one_hot_scores.scatter_(1, tokens, 0.0)  # type: ignore[return-value]

    def draw(
        self, logits: torch.Tensor, row_of: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> torch.Tensor:
        """The next token of rows, int64[N].

        Args:
            logits: [R, V].
            row_of: int64[N], which of them each row has.
            rows: int64[N], the rows, in increasing order.
        """
        is_part = len(rows) < len(self.seeds)
        numbers = rows if is_part else None
        if np.array_equal(row_of, np.arange(len(logits))):
            return self._draw(logits, numbers)[:, 0]
        source = torch.from_numpy(row_of).to(logits.device)
        # a penalty depends on the reply, and observers want all rows
        is_shared = self.sampling.repetition_penalty == 1 and self.on_step is None
        if is_shared and len(rows) >= len(logits):
            if len(logits) == 1:
                # on several threads torch adds up a row by itself in parts, with other rounding
                logits = logits.repeat(2, 1)
            return self._draw(logits, numbers, source)[:, 0]
        return self._draw(logits[source], numbers)[:, 0]

    def _draw(
        self,
        scores: torch.Tensor,
        numbers: NDArray[np.int64] | None,
        source: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """int64[N, 1], the next token of the rows of these numbers, or of all.

        Args:
            scores: [R, V].
            numbers: int64[N], of the rows; None for all.
            source: int64[N], whose scores each row has, so that equal distributions are computed once;
                None where each row has its own.
        """
        seeds, rows = self.seeds, None
        if numbers is not None:
            seeds = seeds[numbers]
            rows = torch.from_numpy(numbers).to(scores.device)
        logits = self._divide_by_temperature(scores.float())
        top = logits.amax(dim=-1, keepdim=True)
        weights = (logits - top).exp_()  # [R, V], in proportion to the probabilities
        total = weights.sum(dim=-1, keepdim=True)
        restricted = self._restrict(scores, logits, rows)
        if self.sampling.temperature > 0:
            shares_below = uniform(seeds[:, None], len(self.logprobs))
            number = torch.from_numpy(shares_below).to(logits.device)
            shares = weights if restricted is logits else restricted.softmax(dim=-1)
            tokens = draw_tokens(shares, number, source)
        else:
            likeliest = restricted.argmax(dim=-1, keepdim=True)
            shares = torch.zeros_like(weights).scatter_(1, likeliest, 1.0)
            tokens = likeliest if source is None else likeliest[source]
        norm = top + total.log()  # logsumexp of the logits
        is_cut = restricted is not logits and self.sampling.temperature > 0
        if is_cut:
            logits, norm = restricted, restricted.logsumexp(dim=-1, keepdim=True)
        if self.on_step is not None:
            self.on_step(self._of_all(shares, rows), self._of_all(logits - norm, rows))
        if source is None:
            logprobs = logits.gather(1, tokens) - norm
        else:
            logprobs = logits[source[:, None], tokens] - norm[source]
        self.logprobs.append(self._of_all(logprobs[:, 0], rows))
        if self._occurring is not None:
            places = torch.arange(len(tokens), device=tokens.device)
            self._occurring[places if rows is None else rows, tokens[:, 0]] = True
        if self.sampling.with_entropy:
            mass, whole = (shares, 1.0) if is_cut else (weights, total[:, 0])
            entropies = _entropies(logits, norm[:, 0], mass, whole)
            entropies = entropies if source is None else entropies[source]
            self.entropies.append(self._of_all(entropies, rows))
        return tokens

    def _of_all(self, values: torch.Tensor, rows: torch.Tensor | None) -> torch.Tensor:
        """Values of all rows: 0 where a row has none."""
        if rows is None:
            return values
        whole = values.new_zeros((len(self.seeds), *values.shape[1:]))
        return whole.index_copy_(0, rows, values)

    def _divide_by_temperature(self, logits: torch.Tensor) -> torch.Tensor:
        divisor = self.sampling.temperature or 1.0
        return logits if divisor == 1 else logits / divisor

    def _restrict(
        self, scores: torch.Tensor, logits: torch.Tensor, rows: torch.Tensor | None
    ) -> torch.Tensor:
        """`logits`, or what penalty and cuts make of `scores`; -inf is not drawn."""
        restricted = logits
        if self.sampling.repetition_penalty != 1:
            restricted = self._divide_by_temperature(
                self._penalize_repetition(scores.float(), rows)
            )
        no_ids: Any = None  # these warpers read no tokens
        for warper in self.warpers:
            restricted = warper(no_ids, restricted)
        return restricted

    def _penalize_repetition(
        self, logits: torch.Tensor, rows: torch.Tensor | None
    ) -> torch.Tensor:
        """Logits after the repetition penalty; what fills up a row is not repeated."""
        if self._occurring is None:
            shape = (len(self.seeds), logits.shape[1])
            occurring = torch.zeros(shape, dtype=torch.bool)
            for row, ids in enumerate(self.prompt_ids):
                occurring[row, list(ids)] = True
            self._occurring = occurring.to(logits.device)
        penalty = self.sampling.repetition_penalty
        penalized = torch.where(logits > 0, logits / penalty, logits * penalty)
        occurring = self._occurring if rows is None else self._occurring[rows]
        return torch.where(occurring, penalized, logits)


def _entropies(
    logits: torch.Tensor,
    norm: torch.Tensor,
    mass: torch.Tensor,
    whole: torch.Tensor | float,
) -> torch.Tensor:
    """float32[N]: H = log Z - mean logit, without a logarithm of each probability.

    Args:
        logits: float32[N, V].
        norm: float32[N], log Z.
        mass: float32[N, V], in proportion to the probabilities.
        whole: float32[N], the sum of each row's mass.
    """
    finite = logits.clamp(min=-1e30)  # as 0 times minus infinity is NaN
    mean = torch.linalg.vecdot(mass, finite) / whole
    entropies: torch.Tensor = (norm - mean).clamp_(min=0.0)
    return entropies


BLOCK = 256  # tokens; about the square root of a vocabulary


def draw_tokens(
    weights: torch.Tensor, number: torch.Tensor, source: torch.Tensor | None = None
) -> torch.Tensor:
    """Inverts the cumulative distribution: first to a block of tokens, then within it.

    Args:
        weights: float32[R, V], not negative; they need not add up to 1.
        number: float64[B, 1] in [0, 1).
        source: int64[B], whose weights each number draws by; by default each has its own.

    Returns:
        int64[B, 1], the tokens; none has weight 0.

    >>> half = torch.tensor([[0.5]], dtype=torch.float64)
    >>> draw_tokens(torch.tensor([[1.0, 0.0, 1.0]]), half).item()
    2
    """
    if weights.shape[1] <= BLOCK:
        return _invert_cumulative(weights, number, source)[0]
    num_missing = -weights.shape[1] % BLOCK
    if num_missing:
        weights = torch.nn.functional.pad(weights, (0, num_missing))
    blocks = weights.unflatten(1, (-1, BLOCK))  # [R, V / BLOCK, BLOCK]
    block, share_below = _invert_cumulative(blocks.sum(dim=2), number, source)
    rows = source
    if rows is None:
        rows = torch.arange(len(weights), device=weights.device)
    block_weights = blocks[rows, block[:, 0]]  # [B, BLOCK]
    return block * BLOCK + _invert_cumulative(block_weights, share_below())[0]


def _invert_cumulative(
    weights: torch.Tensor, number: torch.Tensor, source: torch.Tensor | None = None
) -> tuple[torch.Tensor, Callable[[], torch.Tensor]]:
    """The entry of each row in which a number falls, and where in it.

    Rounding cannot choose an entry of weight 0, nor pass by the last one.

    Args:
        weights: float32[R, N].
        number: float64[B, 1] from 0 to 1.
        source: int64[B], whose weights each number draws by; None where each has its own.

    Returns:
        int64[B, 1], and what calculates float64[B, 1] from 0 to 1.
    """
    exact = weights.double()
    # no target is below 0, so none falls in an entry of weight 0
    cumulative = exact.cumsum(dim=1).where(exact > 0, 0.0)
    total = cumulative.amax(dim=1, keepdim=True)
    largest_target = torch.nextafter(total, torch.zeros_like(total))
    if source is not None:
        cumulative, total, largest_target = (
            values[source] for values in (cumulative, total, largest_target)
        )
    target = torch.minimum(number * total, largest_target)
    index = (cumulative > target).byte().argmax(dim=1, keepdim=True)

    def share_below() -> torch.Tensor:
        share = (exact if source is None else exact[source]).gather(1, index)
        remainder = 1 - (cumulative.gather(1, index) - target) / share
        return remainder.clamp(0, 1)

    return index, share_below
