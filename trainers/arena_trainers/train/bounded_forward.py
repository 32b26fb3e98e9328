"""TRL's loss on log-probabilities that are computed once per distinct row, in bounded memory.

TRL's loss reads a tensor of log-probabilities, one for each token of each reply. Here that
tensor is put together from fewer and smaller forward passes:

- Equal rows (the same prompt and reply tokens) run through the model once. The loss still reads
  every row, and autograd sums their gradients. So the gradient is exact for every loss, KL term,
  entropy bonus and importance ratio, and no normaliser changes.
- A prompt runs once for several replies to it (`prompt_sharing`).
- Rows whose loss has no gradient do not run: placeholder rows, and rows of advantage 0 if
  no KL term and no entropy bonus is added.
- The rows that run are sorted by length and cut into chunks of at most
  `max_tokens_per_forward` tokens. If there are several chunks, all but the last are computed
  again in the backward pass (checkpointing), so memory holds the activations of one chunk.
- The vocabulary is scored at the replies' positions alone. TRL scores prompts, too, where
  there is no Triton.

Differences from TRL: with dropout, equal rows share one dropout mask, and the metric
`entropy` is the mean over the rows that ran. The auxiliary router loss of a mixture of experts
is refused, because it depends on the whole batch.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch.nn import Module
from torch.nn.utils.rnn import pad_sequence
from torch.utils.checkpoint import checkpoint

from arena_trainers.lm.memory import (
    chunks_by_length,
    default_max_tokens,
    release_free_memory,
)
from arena_trainers.lm.scoring import reads_padding, takes
from arena_trainers.train.agreement import Agreement, Way, refuse_router_loss
from arena_trainers.train.prompt_sharing import (
    IGNORED,
    PackedRow,
    model_inputs,
    packed_rows,
    unpacked,
)
from arena_trainers.train.row_sharing import distinct_rows
from arena_trainers.train.sharding import ShardedTrainer


class Scores(NamedTuple):
    """What TRL's loss reads of a model; log-probabilities and entropies float32[B, T]."""

    logprobs: torch.Tensor
    entropies: torch.Tensor | None
    aux_loss: torch.Tensor | None = None


class BoundedForwardTrainer(ShardedTrainer):
    """The part of `TurnGRPOTrainer` that runs rows through the model.

    Attributes:
        max_tokens_per_forward: most tokens that run at once, padding included.
        way: how rows run; `agreement` chooses it.
        agreement: compares what is sampled with what is trained.

    Raises:
        ValueError: the model has an auxiliary loss of its router.
    """

    _metrics: Any
    temperature: float
    _loss_inputs: dict[str, Any] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        refuse_router_loss(self)
        self.way, self.agreement = Way(), Agreement(self)
        self.max_tokens_per_forward = (
            self.args.max_tokens_per_forward
            or default_max_tokens(
                self.accelerator.unwrap_model(self.model),
                self.args.device,
                checkpointing=self.args.gradient_checkpointing,
            )
        )

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        self._loss_inputs = inputs
        try:
            loss: torch.Tensor = super()._compute_loss(model, inputs)
        finally:
            self._loss_inputs = None
        return loss

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        compute_entropy: bool = False,
        compute_aux_loss: bool = False,
        **images: Any,
    ) -> Scores:
        rows = input_ids, attention_mask
        inputs = self._loss_inputs
        live = torch.ones(len(input_ids), dtype=torch.bool)
        if inputs is not None:
            live = self._have_gradient(inputs)
        firsts, kind = distinct_rows(*rows, live)
        distinct = input_ids[firsts], attention_mask[firsts]
        with self.clock.part("training"):  # the reference's pass is outside of a step
            scores = self._score(model, distinct, logits_to_keep, compute_entropy)
        if inputs is not None:
            self._log_shares(len(firsts), kind, inputs)
            if self.model.training:
                counted = _loss_mask(inputs) & (kind >= 0)[:, None]
                logprobs = scores.logprobs[kind.clamp(min=0)]
                self.agreement.measure(logprobs, counted, inputs)
        return _spread(scores, kind, inputs)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        if "loss" in logs:  # not the summary at the end
            logs.update(self.agreement.read())
        super().log(logs, start_time)

    def _have_gradient(self, inputs: dict[str, Any]) -> torch.Tensor:
        """bool[B]: the rows whose loss depends on the model; at least one."""
        trained = _loss_mask(inputs)
        added = self.beta != 0 or self._entropy_bonus_enabled
        if not added and self.top_entropy_quantile == 1.0:
            trained = trained & (inputs["advantages"] != 0)
        live = trained.any(dim=1)
        live[0] |= ~live.any()  # every process needs a backward pass
        return live

    def _log_shares(
        self, num_run: int, kind: torch.Tensor, inputs: dict[str, Any]
    ) -> None:
        """Logs the shares of the rows, but for placeholder rows, that ran or were dropped."""
        mode = "train" if self.model.training else "eval"
        real = _loss_mask(inputs).any(dim=1)
        num_rows = max(int(real.sum()), 1)
        dropped = int((real & (kind < 0)).sum())
        self._metrics[mode]["arena/rows_run"].append(num_run / num_rows)
        self._metrics[mode]["arena/rows_dropped"].append(dropped / num_rows)

    def _score(
        self,
        model: Any,
        rows: tuple[torch.Tensor, torch.Tensor],
        width: int,
        compute_entropy: bool,
    ) -> Scores:
        """Scores of rows (ids and attention mask), whose last `width` columns are replies."""
        chunks = self._chunks(model, rows, width)
        with self.weights_for(model, len(chunks)):
            return self._score_chunks(model, chunks, width, compute_entropy)

    def score_rows(
        self,
        model: Any,
        rows: tuple[torch.Tensor, torch.Tensor],
        width: int,
        compute_entropy: bool,
    ) -> Scores:
        """As training scores them, in a context in which each process has all weights."""
        chunks = self._chunks(model, rows, width)
        return self._score_chunks(model, chunks, width, compute_entropy)

    def _chunks(
        self, model: Any, rows: tuple[torch.Tensor, torch.Tensor], width: int
    ) -> list[list[PackedRow]]:
        """What runs at once."""
        most, inner = self.max_tokens_per_forward, self.accelerator.unwrap_model(model)
        packed = packed_rows(*rows, width, most, self.way.shared)
        prompts, tails = [len(row.prompt) for row in packed], [r.tail for r in packed]
        chunks = chunks_by_length(prompts, tails, most, reads_padding(inner))
        return [[packed[i] for i in chunk] for chunk in chunks]

    def _score_chunks(
        self,
        model: Any,
        chunks: Sequence[list[PackedRow]],
        width: int,
        compute_entropy: bool,
    ) -> Scores:
        inner = self.accelerator.unwrap_model(model)
        found: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        for chunk in chunks:
            if chunk is chunks[-1]:
                # Through the wrapper of a distributed run, once for each backward pass. Its
                # backward comes first, so that its activations go before others come back.
                scores = self._score_chunk(model, chunk, compute_entropy)
            else:
                args = inner, chunk, compute_entropy
                scores = checkpoint(self._score_again, *args, use_reentrant=False)
            found.update(unpacked(*scores, chunk))
        logprobs, entropies = zip(*(found[i] for i in range(len(found))), strict=True)
        return Scores(
            _padded(logprobs, width),
            _padded(entropies, width) if compute_entropy else None,
        )

    def _score_again(self, *arguments: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """`_score_chunk` of one chunk of several, in the forward and the backward pass."""
        release_free_memory()
        return self._score_chunk(*arguments)

    def _score_chunk(
        self, model: Any, packed: list[PackedRow], compute_entropy: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probabilities and entropies, float32[N, T]; no entropies: zeros."""
        inputs = model_inputs(packed)
        inputs = {k: v.to(self.accelerator.device) for k, v in inputs.items()}
        tail = inputs["shift_labels"].shape[1]
        inner = self.accelerator.unwrap_model(model)
        if not takes(inner, "position_ids"):
            del inputs["position_ids"]
        if not self.way.fused:
            if takes(inner, "logits_to_keep"):
                inputs["logits_to_keep"] = tail  # type: ignore[assignment] # a number
            with self.accelerator.autocast():
                return plain_scores(model, inputs, tail, self.temperature)
        with scoring_the_last(inner, tail), self.accelerator.autocast():
            output = model(**inputs, fused_lm_head=True)
        logprobs: torch.Tensor = output.log_probs
        if not compute_entropy:
            return logprobs, torch.zeros_like(logprobs)
        return logprobs, output.entropy


@contextmanager
def scoring_the_last(model: Any, width: int) -> Iterator[None]:
    """Has TRL's fused head score the vocabulary at the last `width` positions alone."""
    causal = model.get_base_model() if hasattr(model, "peft_config") else model

    def cut_states(module: Module, args: Any, output: Any) -> Any:
        output.last_hidden_state = output.last_hidden_state[:, -width:]
        return output

    hook = causal.base_model.register_forward_hook(cut_states)
    try:
        yield
    finally:
        hook.remove()


def plain_scores(
    model: Any, inputs: dict[str, torch.Tensor], width: int, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities and entropies of the last positions, by the model's own logits."""
    labels = inputs.pop("shift_labels")
    logits: torch.Tensor = model(**inputs, use_cache=False).logits[:, -width:]
    logprobs = (logits.float() / temperature).log_softmax(dim=-1)
    own = logprobs.gather(2, labels.clamp(min=0)[..., None])[..., 0]
    finite = logprobs.clamp(min=-1e4)  # as 0 times minus infinity is NaN
    entropies = -(logprobs.exp() * finite).sum(dim=-1)
    return own.masked_fill(labels == IGNORED, 0.0), entropies


def _loss_mask(inputs: dict[str, Any]) -> torch.Tensor:
    """bool[B, T]: the tokens that are trained."""
    mask: torch.Tensor = inputs["completion_mask"].bool()
    return mask & inputs["tool_mask"].bool() if "tool_mask" in inputs else mask


def _padded(rows: Sequence[torch.Tensor], width: int) -> torch.Tensor:
    """float32[B, width] of rows that may be shorter; 0 on the right."""
    joined = pad_sequence(list(rows), batch_first=True)
    return torch.nn.functional.pad(joined, (0, width - joined.shape[1]))


def _spread(
    scores: Scores, kind: torch.Tensor, inputs: dict[str, Any] | None
) -> Scores:
    """Scores of the distinct rows, given to all rows of their kind.

    A row that did not run gets the log-probabilities that it was sampled with, so that its
    importance ratio is 1, and the mean entropy of the others, which leaves the mean as it is.
    """
    source, ran = kind.clamp(min=0), (kind >= 0)[:, None]
    logprobs = scores.logprobs[source]
    entropies = None if scores.entropies is None else scores.entropies[source]
    if inputs is None or bool(ran.all()):
        return Scores(logprobs, entropies)
    old = inputs.get("old_per_token_logps")
    sampled = torch.zeros_like(logprobs) if old is None else old
    logprobs = torch.where(ran, logprobs, sampled)
    if entropies is not None:
        counted = _loss_mask(inputs) & ran
        mean = (entropies.detach() * counted).sum() / counted.sum().clamp(min=1)
        entropies = torch.where(ran, entropies, mean)
    return Scores(logprobs, entropies)
