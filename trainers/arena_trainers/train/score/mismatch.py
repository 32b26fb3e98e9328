"""`MismatchCheck`: what is sampled is what is trained; checked before step 1, measured in every step.

Before step 1 a few rows are scored as training will (padded on the left, behind one prompt, by TRL's fused output layer, in
chunks) and each by a plain forward pass of its own. Their log-probabilities must be within `tolerance`. Else prompt sharing or
the fused layer is switched off, with a warning, if that repairs it; otherwise training is refused. The check is made again
when the longest row has doubled, because an attention window shows in longer rows alone. A few legal replies are also
encoded behind their whole prompts and as terms of the loss score them; other tokens are refused.

In every step the gap abs(log-probability as sampled - as trained) is measured before the weights move. No backend corrects
cut sampling (top-k, top-p, min-p, repetition penalty): the gap shows it, and a warning says so. A token that is cut is never
played, so no return lowers its probability.
"""

import math
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import torch
from accelerate.utils import gather_object

from arena_trainers.engines import changes_draws, training_dtype
from arena_trainers.lm.backends.forward_pass import evaluating, last_logits
from arena_trainers.lm.backends.tolerance import logprob_gap, tolerance
from arena_trainers.train.parts import CheckedLoop
from arena_trainers.train.rows import TrainingRow
from arena_trainers.train.score.packing import may_share_prompts
from arena_trainers.train.score.sharding import ShardedWeights
from arena_trainers.train.score.tensors import prompts_with_replies, row_tensors

MAX_COMPARED = 64  # tokens of each row that the check compares: the last ones


class ScoringMode(NamedTuple):
    """A way in which rows run through the model.

    Attributes:
        shared: whether a prompt runs once for several replies to it.
        fused: whether TRL's fused output layer scores them, or the model's own.
    """

    shared: bool = False
    fused: bool = True


class ModalScorer(Protocol):
    """Scores rows in the way of its `mode`: `Forward`."""

    mode: ScoringMode
    max_tokens: int

    def score_rows(
        self,
        model: Any,
        rows: tuple[torch.Tensor, torch.Tensor],
        width: int,
        compute_entropy: bool,
    ) -> Any: ...


class MismatchCheck:
    """Compares sampled, trained and plain log-probabilities.

    Args:
        trainer: TRL's trainer.
        weights: knows where the weights are.
        forward: scores rows, in its `mode`.
    """

    def __init__(
        self, trainer: CheckedLoop, weights: ShardedWeights, forward: ModalScorer
    ) -> None:
        self.trainer, self.sharded_weights, self.forward = trainer, weights, forward
        self._longest = 0  # row that was checked
        self._warned = 0.0
        self._seen: list[torch.Tensor] = []  # of micro-batches: sum, largest, count

    def check(self, rows: Sequence[TrainingRow]) -> None:
        """Finds a way of scoring that is exact for rows of this length.

        Every process has to call it, outside of play and training.

        Raises:
            ValueError: there is none, or a row is longer than the model's positions allow.
        """
        own_longest = max(len(row.prompt_ids) + len(row.completion_ids) for row in rows)
        longest = max(gather_object([own_longest]))
        check_positions(self.trainer.model.config, longest)
        if longest >= 2 * self._longest:
            self._longest = longest
            self._choose(checked_rows(rows, self.forward.max_tokens))

    def _choose(self, rows: Sequence[TrainingRow]) -> None:
        trainer = self.trainer
        model = trainer.accelerator.unwrap_model(trainer.model)
        bound = tolerance(self._dtype)
        shares = may_share_prompts(model)
        modes = [
            ScoringMode(s, f)
            for f in (True, False)
            for s in (True, False)
            if s <= shares
        ]
        if trainer.args.cast_lm_head_to_fp32:  # TRL's layer alone does so
            modes = [mode for mode in modes if mode.fused]
        gaps: dict[ScoringMode, float] = {}
        if trainer.learners is not None:
            trainer.learners.use(0)  # as `score_rows` does
        with torch.no_grad(), self.sharded_weights.whole_weights(), evaluating(model):
            with trainer.accelerator.autocast():
                plain = [plain_logprobs(model, r, trainer.temperature) for r in rows]
            for mode in modes:
                self.forward.mode = mode
                gaps[mode] = max(gather_object([self._gap(rows, plain, mode, modes)]))
                if gaps[mode] <= bound:
                    break
        if not gaps[mode] <= bound:
            raise ValueError(
                _mismatch_error(model.config.model_type, gaps[mode], bound)
            )
        if mode != modes[0]:
            warnings.warn(_switch_warning(modes[0], mode, gaps[modes[0]]), stacklevel=2)

    def _gap(
        self,
        rows: Sequence[TrainingRow],
        plain: Sequence[torch.Tensor],
        mode: ScoringMode,
        modes: Sequence[ScoringMode],
    ) -> float:
        """The gap to the plain log-probabilities; infinite if rows cannot run in this mode."""
        ids, mask, width = prompts_with_replies(row_tensors(rows, self.trainer))
        model = self.trainer.accelerator.unwrap_model(self.trainer.model)
        try:
            scores = self.forward.score_rows(model, (ids, mask), width, False)
        except (RuntimeError, TypeError, ValueError, IndexError, AttributeError):
            if mode == modes[-1]:
                raise
            return math.inf
        # by row, as the mean of all would hide one that is off
        return max(
            logprob_gap((scores.logprobs[i, : len(row)] - row).abs(), self._dtype)
            for i, row in enumerate(plain)
        )

    @property
    def _dtype(self) -> torch.dtype:
        """The precision of training's forward passes."""
        dtype: torch.dtype = getattr(torch, training_dtype(self.trainer))
        return dtype

    def measure(
        self, logprobs: torch.Tensor, counted: torch.Tensor, inputs: dict[str, Any]
    ) -> None:
        """Notes the gap of a micro-batch.

        Args:
            logprobs: float32[B, T], of the rows as they are trained.
            counted: bool[B, T], tokens that are trained and that ran.
            inputs: of TRL's loss.
        """
        sampled = inputs["sampling_per_token_logps"]
        if self.trainer.async_player is not None:
            self.trainer.async_player.measure(logprobs, counted, inputs)
            return  # the weights have moved, which is no gap
        # several steps share a batch: what it was before the first of them
        trained = inputs.get("old_per_token_logps", logprobs.detach())
        gap = (trained - sampled).abs()
        gap = gap.where(counted & ~sampled.isnan(), 0.0)  # vLLM may give none
        self._seen.append(torch.stack([gap.sum(), gap.max(), counted.sum()]))

    def read(self) -> dict[str, float]:
        """The metrics since the last call; warns where sampled and trained policy differ.

        Every process has to call it.
        """
        parts = gather_object([x.tolist() for x in self._seen])
        self._seen = []
        count = sum(part[2] for part in parts)
        if count == 0:
            return {}
        mean = sum(part[0] for part in parts) / count
        largest = max(part[1] for part in parts)
        self._warn(mean, largest)
        return {"arena/sampling_gap/mean": mean, "arena/sampling_gap/max": largest}

    def _warn(self, mean: float, largest: float) -> None:
        """Warns of a gap beyond rounding; again only if it has doubled."""
        args, option = self.trainer.args, changes_draws(self.trainer.args)
        # an engine rounds as half precision does
        dtype = torch.bfloat16 if args.use_vllm else self._dtype
        gap = largest if dtype == torch.float32 else mean
        is_wide = gap > tolerance(dtype) or option is not None
        if not is_wide or gap <= 2 * self._warned:
            return
        self._warned = gap
        advice = (
            ": the policy that plays is not quite the one that is trained; train in float32, "
            "or with another backend, and see arena/sampling_gap in the metrics"
        )
        if option is not None:
            advice = (
                f", because {option} changes what is drawn, and the loss is that of the whole "
                "distribution: what is cut is never played, so training does not lower it. "
                f"Play the trained model with the same {option}, or leave it out"
            )
        warnings.warn(
            f"sampled and trained log-probabilities differ by {mean:.2g} nats on average and "
            f"{largest:.2g} at most{advice}",
            stacklevel=2,
        )


def checked_rows(rows: Sequence[TrainingRow], most: int) -> list[TrainingRow]:
    """A few rows in which padding, sharing and length can show.

    The longest row; two replies, to its prompt and to the first half of it, or of the end of it that
    leaves them room; the end of the shortest row, which is padded. A row is cut anew into prompt and
    reply: at most a third of it, so that two replies fit behind their prompt.

    Args:
        rows: of a batch.
        most: tokens of a packed row.
    """
    full = [[*row.prompt_ids, *row.completion_ids] for row in rows]
    longest, shortest = max(full, key=len), min(full, key=len)
    packed = longest[-max(3 * most // 4, 2) :]
    first, end = _split_row(packed), shortest[-max(2 * len(packed) // 3, 2) :]
    half = first.prompt_ids[: (len(first.prompt_ids) + 1) // 2]
    second = TrainingRow(half, packed[: len(first.completion_ids)], None, 0.0)
    rows_behind_a_prompt = [first, second, _split_row(end)]
    if len(packed) == len(longest):  # then `first` is the longest row
        return rows_behind_a_prompt
    return [_split_row(longest), *rows_behind_a_prompt]


def _split_row(ids: Sequence[int]) -> TrainingRow:
    size = min(max((len(ids) - 1) // 3, 1), MAX_COMPARED)
    return TrainingRow(ids[:-size], ids[-size:], None, 0.0)


def plain_logprobs(model: Any, row: TrainingRow, temperature: float) -> torch.Tensor:
    """float32[R]: log-probabilities of a reply, by a plain forward pass of its row alone."""
    ids = torch.tensor([[*row.prompt_ids, *row.completion_ids]], device=model.device)
    size = len(row.completion_ids)
    keep: dict[str, Any] = dict(last_logits(model, size + 1, ids.shape[1]))
    logits: torch.Tensor = model(input_ids=ids, use_cache=False, **keep).logits
    logits = logits[0, -size - 1 : -1]
    logprobs = (logits.float() / temperature).log_softmax(dim=-1)
    return logprobs.gather(1, ids[0, -size:, None])[:, 0]


def check_positions(config: Any, longest: int) -> None:
    """Raises ValueError for rows in which rotary positions depend on the longest of a batch.

    Beyond a length, RoPE of the types `dynamic` and `longrope` turns all positions of a batch
    otherwise. A reply that grows past it was sampled with both kinds of positions.
    """
    text = config.get_text_config()
    parameters = getattr(text, "rope_parameters", None) or {}
    layers = [x for x in parameters.values() if isinstance(x, dict)] or [parameters]
    for rope in layers:
        kind = str(rope.get("rope_type"))
        if "dynamic" in kind or kind == "longrope":
            max_length = rope.get("original_max_position_embeddings")
            max_length = max_length or text.max_position_embeddings
            if longest > max_length:
                raise ValueError(
                    f"want prompts and replies of at most {max_length} tokens together, got "
                    f"{longest}: beyond, the model's positions (rope_type {kind!r}) "
                    "change with the longest row of a batch, and what is trained is "
                    "not what was sampled; give a smaller max_completion_length, "
                    "shorter prompts, or a model with other positions"
                )


def _mismatch_error(model_type: str, gap: float, bound: float) -> str:
    return (
        f"want log-probabilities in training as in a plain forward pass of {model_type}, got "
        f"some that differ by {gap:.3g} nats (at most {bound}), with and without prompt "
        "sharing and TRL's fused output layer; train in float32 (--bf16 false), or choose "
        "another model"
    )


def _switch_warning(first: ScoringMode, mode: ScoringMode, gap: float) -> str:
    off = {
        "prompt sharing": first.shared and not mode.shared,
        "TRL's fused output layer": first.fused and not mode.fused,
    }
    names = " and ".join(name for name, is_off in off.items() if is_off)
    gave = f"its log-probabilities were off by {gap:.3g} nats"
    return (
        f"{names} switched off: with this model "
        f"{'it does not run' if gap == float('inf') else gave}; training is exact without, "
        "and takes more time or memory"
    )
