"""The model and tokenizer that a run starts from: given or tiny, after an optional warm start."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from torch.nn import Module
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from arena_trainers.data import Example, legal_play, solver_examples
from arena_trainers.lm.policy import LMPolicy
from arena_trainers.matchmaking.protocol import SELF
from arena_trainers.offline.warm_start import warm_start
from arena_trainers.runs.settings import JobConfig
from arena_trainers.runs.tiny import (
    catalogue_tokenizer,
    tiny_model,
    tiny_tokenizer,
    words_of_games,
)
from arena_trainers.terminal import Console
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.game_entries import checked_entry
from arena_trainers.train.games import GamePlan
from arena_trainers.train.settings import Draft
from arena_wrappers import PromptOptions, make_policy


def load_tokenizer(
    job: JobConfig,
    folder: Path | None,
    plans: Sequence[GamePlan],
    options: PromptOptions,
) -> PreTrainedTokenizerBase:
    """The tokenizer of the given model, or one that knows the words of the games.

    Args:
        job: the job's settings.
        folder: of the given model; None for the tiny model.
        plans: the games.
        options: what the prompts contain.

    Raises:
        ValueError: the folder has no tokenizer, or the tokenizer no chat template.
    """
    if folder is None and job.vocab_size:
        return catalogue_tokenizer(options, job.vocab_size)
    if folder is None:
        return tiny_tokenizer(words_of_games((p.game for p in plans), options))
    try:
        AutoConfig.from_pretrained(folder)
        tokenizer = AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError, KeyError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(
            f"want a model with its tokenizer, got {job.model!r}: {reason}"
        ) from error
    if tokenizer.chat_template is None:
        raise ValueError(
            f"want a tokenizer with a chat template, {job.model!r} has none; take the "
            "instruct version of the model, or set tokenizer.chat_template and save it"
        )
    return tokenizer


def imitated(
    job: JobConfig, args: TurnGRPOConfig | Draft, plans: Sequence[GamePlan]
) -> list[GamePlan]:
    """The games whose legal play a warm start imitates: `warm_start_games`, or those of the run."""
    specs = [
        {**checked_entry(spec), "opponents": SELF} for spec in job.warm_start_games
    ]
    return [GamePlan(spec, args) for spec in specs] or list(plans)


def make_start(
    job: JobConfig,
    args: TurnGRPOConfig,
    folder: Path | None,
    tokenizer: PreTrainedTokenizerBase,
    plans: Sequence[GamePlan],
    console: Console,
) -> PreTrainedModel:
    """The model that self-play starts from: tiny or given, after an optional warm start.

    Every process of a distributed run calls it: a warm start shares its batches among them.

    Args:
        job: the job's settings.
        args: the trainer's settings.
        folder: of the given model; None for the tiny model.
        tokenizer: the model's.
        plans: the games.
        console: where progress is shown.
    """
    if folder is None:
        sizes = {"hidden_size": job.hidden_size, "num_layers": job.num_layers}
        model: PreTrainedModel = tiny_model(tokenizer, **sizes, seed=args.seed)
    else:
        model = AutoModelForCausalLM.from_pretrained(folder)
    if job.warm_start_steps > 0:
        _imitate(model, job, args, tokenizer, plans, console)
    return model


def _imitate(
    model: PreTrainedModel,
    job: JobConfig,
    args: TurnGRPOConfig,
    tokenizer: PreTrainedTokenizerBase,
    plans: Sequence[GamePlan],
    console: Console,
) -> None:
    """Trains the model on legal play, or on the replies of a teacher."""
    teacher = job.warm_start_teacher or "random legal play"
    console.print(f"warm start: {job.warm_start_steps} steps of imitation of {teacher}")

    def print_loss(step: int, loss: float) -> None:
        if step % -(-job.warm_start_steps // 5) == 0:  # five lines at most
            console.print(f"  step {step}, loss {loss:.2f} nats per token")

    dtype, module = model.dtype, cast(Module, model)
    module.to(args.device).float()  # half precision loses such small updates
    warm_start(
        LMPolicy(
            model,
            tokenizer,
            prompt=args.prompt,
            chat_template_kwargs=cast(Any, args.chat_template_kwargs),
            reasoning_marks=args.reasoning_marks,
        ),
        _examples(job, args, plans),
        num_steps=job.warm_start_steps,
        learning_rate=job.warm_start_learning_rate,
        batch_size=job.warm_start_batch_size,
        seed=args.seed,
        max_tokens=args.max_tokens_per_forward,
        checkpointing=bool(args.gradient_checkpointing),
        on_step=print_loss,
    )
    module.to(dtype)


def _examples(
    job: JobConfig, args: TurnGRPOConfig, plans: Sequence[GamePlan]
) -> list[Example]:
    """The replies that a warm start imitates."""
    makers = [plan.env_fn for plan in imitated(job, args, plans)]
    num, seed = job.warm_start_episodes, args.seed
    if job.warm_start_teacher is None:
        return legal_play(makers, num, seed)
    return solver_examples(makers, make_policy(job.warm_start_teacher), num, seed)


@contextmanager
def adapter_errors(job: JobConfig) -> Iterator[None]:
    """Says what to do where an adapter names layers that the model lacks.

    Raises:
        ValueError: it does.
    """
    try:
        yield
    except ValueError as error:
        if not str(error).startswith("Target modules"):  # peft's
            raise
        raise ValueError(
            "want lora_target_modules that name linear layers of the model, such as "
            f"q_proj,v_proj, got {job.lora_target_modules!r}"
        ) from error
