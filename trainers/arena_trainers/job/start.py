"""The model and tokenizer that a training run starts from."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from arena_trainers.data import Example, examples_of, legal_play, solver_replies
from arena_trainers.job.settings import JobConfig
from arena_trainers.job.tiny import tiny_model, tiny_tokenizer, words_of
from arena_trainers.job.warm_start import warm_start
from arena_trainers.lm.chat import Chat
from arena_trainers.lm.models import model_folder
from arena_trainers.lm.policy import LMPolicy
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.game_plans import GamePlan
from arena_wrappers import FORMATS, PromptOptions, RandomPolicy, make_policy, play


def load_tokenizer(
    job: JobConfig, plans: Sequence[GamePlan], options: PromptOptions
) -> Any:
    """The tokenizer of the given model, or one of the words of the games.

    Raises:
        ValueError: there is no such model, it has no tokenizer, or that no chat template.
    """
    if job.model == "tiny":
        return tiny_tokenizer(text for p in plans for text in words_of(p.game, options))
    folder = model_folder(job.model)
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


def check_reply_lengths(
    tokenizer: Any, plans: Sequence[GamePlan], args: TurnGRPOConfig
) -> None:
    """Finds out whether legal replies fit into `max_completion_length`.

    Raises:
        ValueError: the longest legal reply of random play does not.
    """
    limit = args.max_completion_length
    for plan in plans:
        longest = longest_reply(tokenizer, plan, args.reply_format)
        if limit is not None and limit < longest:
            raise ValueError(
                f"want max_completion_length of at least {longest}, the length of legal "
                f"replies of {plan.id} in tokens, got {limit}; give "
                f"--max_completion_length {longest} or more"
            )


def longest_reply(tokenizer: Any, plan: GamePlan, reply_format: str) -> int:
    """Tokens of the longest legal reply in random play, its end token included."""
    wrap = FORMATS[reply_format].wrap
    texts = {
        text
        for episode in play(plan.env_fn, RandomPolicy(), range(20))
        for turn in episode.turns
        for text in turn.legal
    }
    encoded = [
        tokenizer.encode(wrap(text), add_special_tokens=False) for text in sorted(texts)
    ]
    return max(map(len, encoded)) + 1


def check_chat(tokenizer: Any, args: TurnGRPOConfig) -> None:
    """Finds out whether the chat template can show what prompts hold.

    Raises:
        ValueError: it cannot; says what would do.
    """
    options: Any = args.chat_template_kwargs  # of TRL, which also takes JSON
    chat = Chat(tokenizer, template_options=options)
    if args.history == "transcript" or args.on_invalid == "retry":
        chat.check_replies()


def make_start(
    job: JobConfig,
    args: TurnGRPOConfig,
    tokenizer: Any,
    plans: Sequence[GamePlan],
    console: Console,
) -> Any:
    """The model that self-play starts from: tiny or given, warm-started if asked for."""
    if job.model == "tiny":
        model: Any = tiny_model(
            tokenizer,
            hidden_size=job.hidden_size,
            num_layers=job.num_layers,
            seed=args.seed,
        )
    else:
        model = AutoModelForCausalLM.from_pretrained(model_folder(job.model))
    if job.warm_start_steps > 0:
        _warm_start(
            LMPolicy(model.to(args.device), tokenizer), job, args, plans, console
        )
    return model


def _warm_start(
    policy: LMPolicy,
    job: JobConfig,
    args: TurnGRPOConfig,
    plans: Sequence[GamePlan],
    console: Console,
) -> None:
    """Trains the policy on what the job imitates, and tells the loss on the way."""
    whom = {"legal_play": "random legal play", "random": "uniform random play"}
    console.print(
        f"warm start: {job.warm_start_steps} steps of imitation of "
        f"{whom.get(job.warm_start_from, job.warm_start_from)}"
    )

    def tell(step: int, loss: float) -> None:
        if step % -(-job.warm_start_steps // 5) == 0:  # five lines at most
            console.print(f"  step {step}, loss {loss:.2f} nats per token")

    warm_start(
        policy,
        imitated(job, plans, args.seed),
        num_steps=job.warm_start_steps,
        learning_rate=job.warm_start_learning_rate,
        batch_size=job.warm_start_batch_size,
        seed=args.seed,
        on_step=tell,
    )


def imitated(job: JobConfig, plans: Sequence[GamePlan], seed: int) -> list[Example]:
    """The replies that the supervised start learns from."""
    env_fns, num = [plan.env_fn for plan in plans], job.warm_start_episodes
    if job.warm_start_from in ("legal_play", "random"):
        uniform = job.warm_start_from == "random"
        return examples_of(legal_play(env_fns, num, seed, uniform=uniform))
    teacher = make_policy(job.warm_start_from)
    return solver_replies(env_fns, teacher, num, seed)
