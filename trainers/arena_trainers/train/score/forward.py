"""`Forward`: log-probabilities of rows, each distinct row once, in bounded memory.

The gradient is exact for every loss of TRL:

- Equal rows (the same prompt and reply tokens) run once. The loss still reads every row, and autograd sums their gradients.
- A common beginning of rows runs once (`packing`).
- Rows whose loss has no gradient do not run: placeholders, and rows of advantage 0 without KL term and entropy bonus.
- Rows are sorted by length and cut into chunks of at most `max_tokens_per_forward` tokens. Activations are kept while
  half of the free memory holds them; other chunks run again in the backward pass, with the same bits.
- The vocabulary is scored at the replies' positions alone.

Differences from TRL: with dropout, equal rows share one mask; the metric `entropy` is the mean over the rows that ran; the
auxiliary loss of a mixture of experts is refused, because it depends on the whole batch.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.nn import Module
from torch.utils.checkpoint import checkpoint
from trl.models.utils import disable_gradient_checkpointing

from arena_trainers.lm.backends.activations import FLOAT, Passes, kept_bytes
from arena_trainers.lm.backends.forward_pass import (
    accepts_argument,
    last_logits,
    reads_padding,
)
from arena_trainers.lm.backends.memory import (
    chunks_by_length,
    default_max_tokens,
    free_memory,
    release_free_memory,
)
from arena_trainers.train.clock import Clock
from arena_trainers.train.parts import ForwardLoop
from arena_trainers.train.rows import TrainingRow
from arena_trainers.train.score.blocks import attends_in_blocks, block_inputs
from arena_trainers.train.score.heads import plain_scores, scoring_the_last
from arena_trainers.train.score.importance import importance_ratio
from arena_trainers.train.score.kept import KeptActivations
from arena_trainers.train.score.mismatch import MismatchCheck, ScoringMode
from arena_trainers.train.score.packing import (
    PackedRow,
    distinct_rows,
    joined_replies,
    model_inputs,
    packed_rows,
    pairs_per_token,
)
from arena_trainers.train.score.reference import reference_logprobs
from arena_trainers.train.score.scores import TokenScores
from arena_trainers.train.score.sharding import ShardedWeights
from arena_trainers.train.score.tensors import loss_mask, prompts_with_replies


class Forward:
    """The part of `TurnGRPOTrainer` that runs rows through the model.

    Args:
        trainer: TRL's trainer, after its construction.
        weights: knows where the weights are.
        clock: counts the time.

    Attributes:
        max_tokens: most tokens that run at once, padding included.
        mode: how rows run; `mismatch_check` chooses it.
        mismatch_check: compares what is sampled with what is trained.
        kept: decides which chunks of a loss run once.
        latest: the scores of the latest micro-batch that was trained.
        head: gives values, float32[N, T], of the last hidden states of the model that learns.

    Raises:
        ValueError: the model has an auxiliary loss of its router.
    """

    def __init__(
        self, trainer: ForwardLoop, weights: ShardedWeights, clock: Clock
    ) -> None:
        check_router_loss(trainer)
        self.trainer, self.accelerator = trainer, trainer.accelerator
        self.sharded_weights, self.clock = weights, clock
        self.mode = ScoringMode()
        self.mismatch_check = MismatchCheck(trainer, weights, self)
        args = trainer.args
        self.max_tokens: int = args.max_tokens_per_forward or (
            default_max_tokens(
                self.accelerator.unwrap_model(trainer.model),
                args.device,
                checkpointing=bool(args.gradient_checkpointing),
                autocast=bool(args.bf16 or args.fp16),
            )
        )
        self.kept = self._kept_activations()
        self._inputs: dict[str, Any] | None = None
        self._inner = WeakKeyDictionary[Module, Any]()
        self._every_row = False
        self.latest: TokenScores | None = None
        self.head: Callable[[torch.Tensor], torch.Tensor] | None = None

    def _kept_activations(self) -> KeptActivations:
        device = self.accelerator.device
        model = self.accelerator.unwrap_model(self.trainer.model)
        num_trained = sum(w.numel() for w in model.parameters() if w.requires_grad)
        args = self.trainer.args
        passes = Passes.of(
            model,
            device,
            checkpointing=bool(args.gradient_checkpointing),
            autocast=bool(args.bf16 or args.fp16),
        )
        return KeptActivations(
            kept_bytes(model.config.get_text_config(), passes),
            lambda: free_memory(device),
            partial(torch.cuda.memory_allocated, device)
            if device.type == "cuda"
            else None,
            to_come=3.0 * FLOAT * num_trained,
        )

    def inner(self, model: Module) -> Any:
        """The model without what accelerate wraps around it, which costs time to find."""
        if model not in self._inner:
            self._inner[model] = self.accelerator.unwrap_model(model)
        return self._inner[model]

    @contextmanager
    def loss_of(
        self, inputs: dict[str, Any], every_row: bool = False
    ) -> Iterator[None]:
        """Within this context, `score` knows the inputs of TRL's loss.

        Args:
            inputs: of the loss.
            every_row: whether rows of advantage 0 have a loss, too.
        """
        trained = loss_mask(inputs)
        lengths = inputs["prompt_mask"].sum(dim=1)
        lengths = lengths + inputs["completion_mask"].sum(dim=1)
        real = trained.any(dim=1)  # all but placeholder rows
        self.clock.counts["trained"] += int((lengths * real).sum())
        self._inputs, self._every_row = inputs, every_row
        try:
            yield
        finally:
            self._inputs = None

    def score(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        width: int,
        compute_entropy: bool,
        learners: torch.Tensor | None = None,
    ) -> TokenScores:
        """The scores of rows whose last `width` columns are replies; equal rows run once."""
        inputs = self._inputs
        live = torch.ones(len(input_ids), dtype=torch.bool)
        if inputs is not None:
            live = self._have_gradient(inputs)
        if learners is None:
            learners = self.learners_of(inputs, len(input_ids))
        firsts, kind = distinct_rows(input_ids, attention_mask, live, learners)
        distinct = input_ids[firsts], attention_mask[firsts]
        with self.clock.part("training"):  # the reference's pass is outside of a step
            chunks = self._chunks(model, distinct, width, learners[firsts].tolist())
            with self.sharded_weights.weights_for(model, len(chunks)):
                scores = self._score_chunks(model, chunks, width, compute_entropy)
        if inputs is not None:
            self._log_shares(len(firsts), kind, inputs)
            if self.trainer.model.training:
                counted = loss_mask(inputs) & (kind >= 0)[:, None]
                logprobs = scores.logprobs[kind.clamp(min=0)]
                self.mismatch_check.measure(logprobs, counted, inputs)
                if self.trainer.learners is not None:
                    self.trainer.learners.measure(logprobs, counted, inputs)
        scores = _for_all_rows(scores, kind, inputs)
        if inputs is not None:
            self.latest = scores
        return scores

    def loss_columns(
        self, batch: dict[str, Any], rows: Sequence[TrainingRow]
    ) -> dict[str, torch.Tensor]:
        """What TRL's loss reads of the policy before the updates, and of the reference.

        Args:
            batch: the columns of the rows.
            rows: of this process.
        """
        trainer, args = self.trainer, self.trainer.args
        columns: dict[str, torch.Tensor] = {}
        step = trainer.state.global_step
        updates = (args.steps_per_generation or 1) * trainer.num_iterations
        corrects = trainer.use_vllm and trainer.vllm_importance_sampling_correction
        beta = (trainer.learners or args).beta
        sampled = batch["sampling_per_token_logps"]
        with torch.no_grad(), ExitStack() as stack:
            if args.gradient_checkpointing:
                options: Any = args.gradient_checkpointing_kwargs
                stack.enter_context(
                    disable_gradient_checkpointing(trainer.model, options)
                )
            if trainer.async_player is not None:
                columns["old_per_token_logps"] = old = sampled
            elif args.gradient_accumulation_steps % updates or corrects:
                old = self.score(
                    trainer.model, *prompts_with_replies(batch), False
                ).logprobs
                columns["old_per_token_logps"] = old
            if corrects:
                ratio = importance_ratio(trainer, old, sampled, loss_mask(batch))
                columns["importance_sampling_ratio"] = ratio
            if beta or trainer.terms.needs("reference", step):
                reference = reference_logprobs(trainer, rows, batch)
                columns["ref_per_token_logps"] = reference
        return columns

    def learners_of(self, inputs: dict[str, Any] | None, num: int) -> torch.Tensor:
        """int64[B]: the learner of each of `num` rows, by default of the generation batch."""
        owners = [0] * num
        if self.trainer.learners is not None:
            if inputs is not None:
                learners: torch.Tensor = inputs["learner"]
                return learners
            owners = [row.learner for row in self.trainer._rows]
        return torch.tensor(owners, device=self.accelerator.device)

    def _have_gradient(self, inputs: dict[str, Any]) -> torch.Tensor:
        """bool[B]: the rows whose loss depends on the model; at least one."""
        trained = loss_mask(inputs)
        trainer = self.trainer
        added = trainer.beta != 0 or trainer.has_entropy_bonus or self._every_row
        if not added and trainer.top_entropy_quantile == 1.0:
            trained = trained & (inputs["advantages"] != 0)
        live = trained.any(dim=1)
        live[0] |= ~live.any()  # every process needs a backward pass
        return live

    def _log_shares(
        self, num_run: int, kind: torch.Tensor, inputs: dict[str, Any]
    ) -> None:
        """Logs the shares of the rows, but for placeholder rows, that ran or were dropped."""
        real = loss_mask(inputs).any(dim=1)
        num_rows = max(int(real.sum()), 1)
        dropped = int((real & (kind < 0)).sum()) / num_rows
        shares = {"arena/rows_run": num_run / num_rows, "arena/rows_dropped": dropped}
        self.trainer.note(shares)

    def score_rows(
        self,
        model: Any,
        rows: tuple[torch.Tensor, torch.Tensor],
        width: int,
        compute_entropy: bool,
    ) -> TokenScores:
        """As training scores them, in a context in which each process has all weights."""
        chunks = self._chunks(model, rows, width)
        return self._score_chunks(model, chunks, width, compute_entropy)

    def _chunks(
        self,
        model: Any,
        rows: tuple[torch.Tensor, torch.Tensor],
        width: int,
        learners: Sequence[int] | None = None,
    ) -> list[list[PackedRow]]:
        """The rows that run at once; all of one learner."""
        ids, mask = rows
        owners = learners or [0] * len(ids)
        same_length = reads_padding(self.inner(model))
        chunks: list[list[PackedRow]] = []
        for owner in sorted(set(owners)):
            numbers = [i for i, learner in enumerate(owners) if learner == owner]
            packed = [
                row._replace(rows=[numbers[i] for i in row.rows], learner=owner)
                for row in packed_rows(
                    ids[numbers],
                    mask[numbers],
                    width,
                    self.max_tokens,
                    pairs_per_token(self.inner(model)) if self.mode.shared else None,
                )
            ]
            together = chunks_by_length(
                [row.head for row in packed],
                [row.tail for row in packed],
                self.max_tokens,
                same_length,
            )
            chunks += [[packed[i] for i in chunk] for chunk in together]
        return chunks

    def _score_chunks(
        self,
        model: Any,
        chunks: Sequence[list[PackedRow]],
        width: int,
        compute_entropy: bool,
    ) -> TokenScores:
        inner = self.inner(model)
        chunk_scores: list[tuple[torch.Tensor, ...]] = []
        sizes = []  # tokens, padding included
        for chunk in chunks:
            head, tail = max(row.head for row in chunk), max(row.tail for row in chunk)
            sizes.append(len(chunk) * (head + tail))
        # layers that run again in the backward pass would read the adapter of another learner
        learners = {packed.learner for chunk in chunks for packed in chunk}
        mixes_adapters = len(learners) > 1 and self.trainer.args.gradient_checkpointing
        if torch.is_grad_enabled():
            self.kept.begin()
        for i, chunk in enumerate(chunks):
            if chunk is chunks[-1]:
                # Through the wrapper of a distributed run, once for each backward pass. Its
                # backward comes first, so that its activations go before others come back.
                scores = self._score_chunk(model, chunk, compute_entropy)
            elif not mixes_adapters and (
                sum(sizes[i:]) <= self.max_tokens  # of several learners
                or self.kept.fits(sizes[i], max(sizes))
            ):
                scores = self._score_chunk(inner, chunk, compute_entropy)
            else:
                scores = checkpoint(
                    self._score_again,
                    inner,
                    chunk,
                    compute_entropy,
                    use_reentrant=False,
                )
            chunk_scores.append(scores)
        if self.kept.end(sizes[-1]):
            self.trainer.note(
                {
                    "arena/memory/bytes_per_token": self.kept.bytes_per_token,
                    "arena/memory/kept_tokens": float(self.kept.max_tokens or 0),
                }
            )
        logprobs, entropies, *values = zip(*chunk_scores, strict=True)
        joined = partial(joined_replies, chunks=chunks, width=width)
        return TokenScores(
            joined(logprobs),
            joined(entropies) if compute_entropy else None,
            None,
            *map(joined, values),
        )

    def _score_again(self, *arguments: Any) -> tuple[torch.Tensor, ...]:
        """`_score_chunk` of one chunk of several, in the forward and the backward pass."""
        release_free_memory()
        return self._score_chunk(*arguments)

    def _score_chunk(
        self, model: Any, packed: list[PackedRow], compute_entropy: bool
    ) -> tuple[torch.Tensor, ...]:
        """Log-probabilities, entropies (or zeros) and values, if there is a head, float32[N, T]."""
        by_blocks = attends_in_blocks(self.inner(model), packed)
        inputs, tail, scored = model_inputs(
            packed, self.accelerator.device, with_mask=not by_blocks
        )
        if by_blocks:
            inputs |= block_inputs(packed)
        if self.trainer.learners is not None:
            model = self.trainer.learners.use(packed[0].learner, model)
        inner = self.inner(model)
        if not accepts_argument(inner, "position_ids"):
            del inputs["position_ids"]
        is_own = inner is self.inner(self.trainer.model)
        head, fused = self.head if is_own else None, self.mode.fused
        watch = None
        if fused or head:
            watch = scoring_the_last(inner, tail, fused, scored)
        with watch or nullcontext([]) as states, self.accelerator.autocast():
            scores = self._scores(model, inputs, tail, scored, compute_entropy)
        return scores if head is None else (*scores, head(states[0].float()))

    def _scores(
        self,
        model: Any,
        inputs: dict[str, Any],
        tail: int,
        scored: torch.Tensor | None,
        compute_entropy: bool,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probabilities and entropies of the labels, by TRL's fused layer or plainly."""
        if not self.mode.fused:
            width = inputs["input_ids"].shape[1]
            inputs |= last_logits(self.inner(model), tail, width)
            temperature = self.trainer.temperature
            return plain_scores(model, inputs, tail, scored, temperature)
        output = model(**inputs, fused_lm_head=True)
        logprobs: torch.Tensor = output.log_probs
        if not compute_entropy:
            return logprobs, torch.zeros_like(logprobs)
        return logprobs, output.entropy


def _for_all_rows(
    scores: TokenScores, kind: torch.Tensor, inputs: dict[str, Any] | None
) -> TokenScores:
    """TokenScores of the distinct rows, given to all rows of their kind.

    A row that did not run gets the log-probabilities that it was sampled with, so that its
    importance ratio is 1, and the mean entropy of the others, which leaves the mean as it is.
    """
    source, ran = kind.clamp(min=0), (kind >= 0)[:, None]
    logprobs = scores.logprobs[source]
    entropies = None if scores.entropies is None else scores.entropies[source]
    values = None if scores.values is None else scores.values[source]
    if inputs is None or bool(ran.all()):
        return TokenScores(logprobs, entropies, None, values)
    old = inputs.get("old_per_token_logps")
    sampled = torch.zeros_like(logprobs) if old is None else old
    logprobs = torch.where(ran, logprobs, sampled)
    if entropies is not None:
        counted = loss_mask(inputs) & ran
        mean = (entropies.detach() * counted).sum() / counted.sum().clamp(min=1)
        entropies = torch.where(ran, entropies, mean)
    return TokenScores(logprobs, entropies, None, values)


def check_router_loss(trainer: ForwardLoop) -> None:
    """Raises ValueError for a mixture of experts with an auxiliary loss."""
    if trainer.aux_loss_enabled:
        raise ValueError(
            "TurnGRPOTrainer does not support the auxiliary loss of a mixture of "
            f"experts (router_aux_loss_coef {trainer.router_aux_loss_coef}): it "
            "depends on the whole batch, which then cannot run in parts that fit into "
            "memory; give --router_aux_loss_coef 0"
        )
