"""Log-probabilities of the reference, with prompts of its own if it has some; TRL's importance ratio."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from trl.models import prepare_deepspeed, prepare_fsdp
from trl.trainer import grpo_trainer
from trl.trainer.utils import (
    add_fused_lm_head,
    disable_dropout_in_model,
    use_adapter,
)

from arena_trainers.lm.models import check_language_model, model_folder
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.parts import CorrectedLoop, LatestPlay, ReferenceLoop
from arena_trainers.train.rows import TrainingRow
from arena_trainers.train.score.tensors import prompts_with_replies, row_tensors
from arena_wrappers import messages
from arena_wrappers.play import turn_states


def turns_at(
    trainer: LatestPlay, places: Sequence[int]
) -> Iterator[tuple[Any, Any, Any]]:
    """Record, game and state of the turn of each row; None of each for placeholder rows.

    Args:
        trainer: with the generation batch that it played last.
        places: of the rows among the records of this process; -1 for placeholder rows.
    """
    states = dict[int, list[Any]]()
    for place in places:
        if place < 0:
            yield None, None, None
            continue
        record = trainer.last_selected.records[place]
        if record.call >= 0:
            raise ValueError(
                "want turns of one generation for teachers and other prompts of the "
                "reference; leave agent out"
            )
        game, number = trainer.games.rules[record.game], record.episode
        if number not in states:
            states[number] = turn_states(trainer.last_episodes[number], game)
        yield record, game, states[number][record.place]


def reference_logprobs(
    trainer: ReferenceLoop, rows: Sequence[TrainingRow], batch: Mapping[str, Any]
) -> torch.Tensor:
    """float32[B, T]: what the reference gives the replies, after prompts of its own if it has some.

    Args:
        trainer: with the generation batch that it played last.
        rows: of this process.
        batch: their columns.
    """
    options, policy = trainer.args.reference_prompt, trainer.policy
    if options is not None:
        reference_rows = [*rows]
        for i, (record, game, state) in enumerate(
            turns_at(trainer, [row.place for row in rows])
        ):
            if record is not None:
                prompt = messages(game, state, record.seat, options)
                prompt_ids = policy.encode(prompt, options.date)
                reference_rows[i] = TrainingRow(
                    prompt_ids, rows[i].completion_ids, None, 0.0
                )
        batch = row_tensors(reference_rows, trainer)
    model = trainer.ref_model
    with ExitStack() as stack:
        if model is None:  # the adapter was trained, and its base is the reference
            learner_model = trainer.accelerator.unwrap_model(trainer.model)
            name = "ref" if "ref" in learner_model.peft_config else None
            stack.enter_context(use_adapter(learner_model, adapter_name=name))
            model = trainer.model
        ids, mask, width = prompts_with_replies(batch)

        def score(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return trainer.forward.score(model, ids, mask, width, False).logprobs

        if trainer.reference_memo is None:
            return score(ids, mask)
        return trainer.reference_memo.logprobs(ids, mask, width, score)


def importance_ratio(
    trainer: CorrectedLoop, old: torch.Tensor, sampled: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """TRL's correction of tokens that another policy sampled, float32[B, T] or [B, 1]; logs it.

    Args:
        trainer: its `vllm_importance_sampling_mode` and limits say how.
        old: float32[B, T], log-probabilities before the update.
        sampled: float32[B, T], as they were sampled; NaN where an engine gave none.
        mask: bool[B, T], tokens that are trained.
    """
    mode = trainer.vllm_importance_sampling_mode
    gap = (old - sampled).nan_to_num(0.0)
    low = trainer.vllm_importance_sampling_clip_min or 0.0
    by_sequence = mode.startswith("sequence")
    log_ratio = gap * mask
    if by_sequence:
        log_ratio = log_ratio.sum(dim=-1, keepdim=True)
    ratio = log_ratio.exp()
    clipped = ratio.clamp(low, trainer.vllm_importance_sampling_clip_max)
    if mode.endswith("truncate"):
        ratio = clipped
    else:
        ratio = ratio.masked_fill(clipped != ratio, 0.0)
    sampled_gaps = gap.abs()[mask & ~sampled.isnan()]
    _log_range(trainer, "sampling/sampling_logp_difference", sampled_gaps)
    ratios = ratio.flatten() if by_sequence else ratio[mask]
    _log_range(trainer, "sampling/importance_sampling_ratio", ratios)
    return ratio


def _log_range(trainer: CorrectedLoop, name: str, values: torch.Tensor) -> None:
    """Logs least, mean and largest of the numbers of all processes."""
    if len(values):
        own_range = [values.min().item(), values.mean().item(), values.max().item()]
    else:
        own_range = [0.0, 0.0, 0.0]
    lows, means, highs = zip(*gather_object([own_range]), strict=True)
    trainer.note(
        {
            f"{name}/min": min(lows),
            f"{name}/mean": sum(means) / len(means),
            f"{name}/max": max(highs),
        }
    )


def reference_folder(args: TurnGRPOConfig) -> str | None:
    """The folder of the model of `reference`, if it has one of its own."""
    name = (args.reference or {}).get("model")
    return None if name is None else str(model_folder(name))


def check_vocabulary(path: str, tokenizer: PreTrainedTokenizerBase) -> None:
    """Raises ValueError for a model that reads tokens otherwise than the learner."""
    if AutoTokenizer.from_pretrained(path).get_vocab() != tokenizer.get_vocab():
        raise ValueError(
            f"want {path!r} with the tokenizer of the model, got another; choose a "
            "model of the same family"
        )


def make_reference(
    path: str,
    *,
    learner: PreTrainedModel,
    args: TurnGRPOConfig,
    accelerator: Accelerator,
    temperature: float,
) -> Any:
    """The model of a folder as a reference, loaded and prepared as TRL does it for the learner's own.

    Args:
        path: the folder.
        learner: its type of numbers and attention are the default of the reference.
        args: how models are loaded.
        accelerator: of the trainer.
        temperature: of the log-probabilities.
    """
    check_language_model(path)
    options: Any = args.model_init_kwargs or {}
    init_options = {
        "trust_remote_code": args.trust_remote_code,
        "dtype": learner.dtype,
        "attn_implementation": learner.config._attn_implementation,
        **options,
    }
    if args.distributed_state.distributed_type in ("MULTI_GPU", "DEEPSPEED"):
        init_options["device_map"] = None  # each process places its own
    model = grpo_trainer.create_model_from_path(path, **init_options)
    if args.disable_dropout:
        disable_dropout_in_model(model)
    if args.cast_lm_head_to_fp32:
        dtype = model.dtype
        model.get_output_embeddings().float()
        # embeddings may share the weights, and the layers behind them read the old type
        model.get_input_embeddings().register_forward_hook(
            lambda module, inputs, output: output.to(dtype)
        )
    add_fused_lm_head(
        model, temperature=temperature, cast_lm_head_to_fp32=args.cast_lm_head_to_fp32
    )
    state = accelerator.state
    if getattr(state, "deepspeed_plugin", None) is not None:
        return prepare_deepspeed(model, accelerator)
    if getattr(state, "fsdp_plugin", None) is not None:
        return prepare_fsdp(model, accelerator)
    return accelerator.prepare_model(model, evaluation_mode=True)
