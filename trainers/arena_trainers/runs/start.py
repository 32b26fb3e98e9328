"""The model and tokenizer that a training run starts from: given, or a new one that is tiny.

The tiny one trains on a CPU in minutes. Its tokens are the words of its games, so a reply such as
"bet" is one token and the end token; or byte pairs learned from all games of the catalogue.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from tokenizers import (
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedTokenizerFast,
    Qwen3Config,
)

from arena_envs import GameEnv, make_game
from arena_envs.catalogue import GAMES
from arena_envs.game import AnyGame
from arena_envs.trust import named_only
from arena_trainers.data import Example, legal_play, solver_replies
from arena_trainers.lm.chat import Chat
from arena_trainers.lm.context import context_length
from arena_trainers.lm.policy import CHECKED, LMPolicy
from arena_trainers.matchmaking.protocol import SELF
from arena_trainers.offline.sft import warm_start
from arena_trainers.runs.settings import JobConfig
from arena_trainers.terminal import Console
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.game_entries import checked_entry
from arena_trainers.train.games import GamePlan, different_games
from arena_wrappers import (
    FORMATS,
    PromptOptions,
    PromptWrapper,
    RandomPolicy,
    make_policy,
    play,
)

if TYPE_CHECKING:
    from transformers import Qwen3ForCausalLM


_WORD = r"</?\w+>|\w+|[^\w\s]"
_PAIRED = r" ?[^\W\d]+\d?| ?\d| ?[^\w\s]|\s"  # no pair goes beyond one of them
_CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
_CONTEXT = 32_768  # tokens of the tiny model, which learns all of its positions itself
_SPECIAL = ["<|pad|>", "<|unk|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]


def tiny_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """A word-level tokenizer with the words of `texts` and a chat template."""
    words = sorted({word for text in texts for word in re.findall(_WORD, text)})
    vocabulary = {token: i for i, token in enumerate([*_SPECIAL, *words])}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="<|unk|>"))
    core.pre_tokenizer = pre_tokenizers.Split(Regex(_WORD), "removed", invert=True)
    return _with_template(core)


@cache
def catalogue_tokenizer(
    options: PromptOptions, vocab_size: int
) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer with a chat template, which can write any text.

    It learns pairs from four random episodes of each game of the catalogue that needs no
    extra. A reply begins with a space, as in a list of actions, and is decoded without it.

    Args:
        options: what the prompts contain.
        vocab_size: most tokens.
    """
    core = Tokenizer(models.BPE())
    core.normalizer = normalizers.Prepend(" ")
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PAIRED), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    core.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    games = (make_game(id) for id, listed in GAMES.items() if listed.extra is None)
    core.train_from_iterator(
        (text for game in games for text in words_of(game, options, 4)),
        trainers.BpeTrainer(
            vocab_size=vocab_size,
            special_tokens=_SPECIAL,
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        ),
    )
    return _with_template(core)


def _with_template(core: Tokenizer) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="<|pad|>",
        unk_token="<|unk|>",
        eos_token="<|end|>",
        additional_special_tokens=["<|system|>", "<|user|>", "<|assistant|>"],
        chat_template=_CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=_CONTEXT,
    )


def tiny_model(
    tokenizer: PreTrainedTokenizerFast,
    *,
    hidden_size: int = 64,
    num_layers: int = 2,
    seed: int = 0,
) -> "Qwen3ForCausalLM":
    """A model of the Qwen3 architecture with random weights, float32."""
    from transformers import Qwen3ForCausalLM

    config = tiny_config(tokenizer, hidden_size=hidden_size, num_layers=num_layers)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Qwen3ForCausalLM(config)


def tiny_config(
    tokenizer: PreTrainedTokenizerFast, *, hidden_size: int, num_layers: int
) -> Qwen3Config:
    """The sizes of a tiny model.

    The initial scale is 1/√hidden_size. With the 0.02 of large models, the output of so
    narrow a model would hardly depend on its prompt.
    """
    return Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=hidden_size,
        intermediate_size=2 * hidden_size,
        num_hidden_layers=num_layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=hidden_size // 4,
        max_position_embeddings=_CONTEXT,
        initializer_range=hidden_size**-0.5,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        dtype="float32",
    )


def words_of(
    game: AnyGame, options: PromptOptions, num_episodes: int = 200
) -> list[str]:
    """Texts with the words of a game: prompts and legal replies of random play."""
    episodes = play(
        lambda: PromptWrapper(GameEnv(game), **vars(options)),
        RandomPolicy(),
        range(num_episodes),
    )
    turns = [turn for episode in episodes for turn in episode.turns]
    prompts = {m["content"] for turn in turns for m in turn.messages}
    return sorted(prompts | {t for turn in turns for t in [*turn.legal, turn.reply]})


def load_tokenizer(
    job: JobConfig,
    folder: Path | None,
    plans: Sequence[GamePlan],
    options: PromptOptions,
) -> Any:
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
        return tiny_tokenizer(_words((p.game for p in plans), options))
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


def tiny_tokenizer_of(
    games: Sequence[Mapping[str, Any]], options: PromptOptions
) -> Any:
    """The tokenizer of the tiny model that plays these games, which a file of rows names.

    Raises:
        NotTrusted: the file names code or another file, see `arena_envs.trust`.
    """
    with named_only():
        made = [make_game(spec["id"], **spec.get("params", {})) for spec in games]
    return tiny_tokenizer(_words(made, options))


def _words(games: Iterable[AnyGame], options: PromptOptions) -> Iterator[str]:
    return (text for game in games for text in words_of(game, options))


def check_reply_lengths(
    lengths: Sequence[int], plans: Sequence[GamePlan], args: TurnGRPOConfig
) -> None:
    """Refuses a `max_completion_length` that cuts legal replies.

    Raises:
        ValueError: the longest legal reply of random play is longer.
    """
    limit = args.max_completion_length
    for plan, longest in zip(plans, lengths, strict=True):
        if limit is not None and limit < longest:
            raise ValueError(
                f"want max_completion_length of at least {longest}, the length of "
                f"legal replies of {plan.id} in tokens, got {limit}; give "
                f"--max_completion_length {longest} or more"
            )


def longest_replies(
    chat: Chat, plans: Sequence[GamePlan], reply_format: str
) -> list[int]:
    """Tokens of the longest legal reply in random play of each game, end token included.

    Raises:
        ValueError: the tokenizer writes a reply otherwise behind a whole prompt than behind
            its end.
    """
    wrap, lengths = FORMATS[reply_format].wrap, []
    for plan in plans:
        episodes = play(plan.env_fn, RandomPolicy(), range(20))
        for turn in [turn for episode in episodes for turn in episode.turns][:CHECKED]:
            for text in turn.legal[:CHECKED]:
                chat.check_reply(turn.messages, wrap(text))
        prompt = chat.encode(episodes[0].turns[0].messages)
        texts = {text for e in episodes for turn in e.turns for text in turn.legal}
        replies = (chat.reply_ids(prompt, wrap(text)) for text in texts)
        lengths.append(max(map(len, replies)) + 1)
    return lengths


NUM_EPISODES = 20  # of random play, in which prompts are measured
_MARKS = 64  # tokens that a chat template adds to a message, at most


def context_of(folder: Path | None, args: TurnGRPOConfig) -> int | None:
    """Most tokens of a prompt with its reply, of a given model or the tiny one; None for no limit."""
    limits: list[int | None] = [_CONTEXT]
    if folder is not None:
        limits = [context_length(AutoConfig.from_pretrained(folder))]
    if args.use_vllm:
        limits.append(args.vllm_max_model_length)
    return min((x for x in limits if x is not None), default=None)


def check_context(
    chat: Chat, limit: int | None, plans: Sequence[GamePlan], args: TurnGRPOConfig
) -> list[str]:
    """Measures the prompts of learning seats in random play against the model's context.

    Args:
        chat: of the model.
        limit: most tokens of a prompt with its reply; None for no limit.
        plans: the games.
        args: the trainer's settings.

    Returns:
        Lines for the user, about games whose prompts or replies may outgrow the context.

    Raises:
        ValueError: in every episode of a game a prompt fills the context.
    """
    if limit is None:
        return []
    lines = []
    for plan in different_games(plans):
        longest = _longest_prompts(chat, plan, limit)
        num_full = sum(size >= limit for size in longest)
        advice = (
            "give shorter prompts (--rules false, --history state) or a longer context"
        )
        if longest and num_full == len(longest):
            raise ValueError(
                f"want prompts of {plan.name} that leave room in the context of {limit} "
                f"tokens, got prompts of {min(longest)} to {max(longest)} tokens in every "
                f"episode of random play (history={args.history!r}, rules={args.rules}); "
                "give shorter prompts (--rules false, --history state), fewer turns "
                "(max_turns), or a model with a longer context"
            )
        if num_full:
            lines.append(
                f"warning: in {num_full} of {len(longest)} random episodes of {plan.name} "
                f"prompts outgrow the context of {limit} tokens; such turns are invalid, "
                f"for the reason context_length, and are not trained; {advice}"
            )
        elif longest and max(longest) + (args.max_completion_length or 0) > limit:
            lines.append(
                f"warning: prompts of {plan.name} have up to {max(longest)} tokens, so that "
                f"replies to the longest are cut after {limit - max(longest)} tokens, at the "
                f"end of the context of {limit}, before max_completion_length "
                f"{args.max_completion_length}; {advice}"
            )
    return lines


def _longest_prompts(chat: Chat, plan: GamePlan, limit: int) -> list[int]:
    """Tokens of the longest prompt of the learning seats, in each of some random episodes."""
    sizes = list[int]()
    for episode in play(plan.env_fn, RandomPolicy(), range(NUM_EPISODES)):
        prompts = [t.messages for t in episode.turns if plan.learners[t.seat]]
        bounds = [
            sum(len(m["content"].encode()) + _MARKS for m in prompt)
            for prompt in prompts
        ]  # a token is a byte at least
        if prompts and max(bounds) < limit:
            sizes.append(max(bounds))
        elif prompts:
            sizes.append(max(len(chat.encode(prompt)) for prompt in prompts))
    return sizes


def imitated(
    job: JobConfig, args: TurnGRPOConfig, plans: Sequence[GamePlan]
) -> list[GamePlan]:
    """The games whose legal play a warm start imitates: `warm_start_games`, or those of the run."""
    own = [{**checked_entry(spec), "opponents": SELF} for spec in job.warm_start_games]
    return [GamePlan(spec, args) for spec in own] or list(plans)


def check_chat(chat: Chat, args: TurnGRPOConfig) -> None:
    """Checks that the chat template can show the messages of the prompts.

    Raises:
        ValueError: it cannot show earlier replies; names the options without them.
    """
    if args.history == "transcript" or args.on_invalid == "retry":
        chat.check_replies()


def make_start(
    job: JobConfig,
    args: TurnGRPOConfig,
    folder: Path | None,
    tokenizer: Any,
    plans: Sequence[GamePlan],
    console: Console,
) -> Any:
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
        model: Any = tiny_model(tokenizer, **sizes, seed=args.seed)
    else:
        model = AutoModelForCausalLM.from_pretrained(folder)
    if job.warm_start_steps == 0:
        return model
    teacher = job.warm_start_teacher or "random legal play"
    console.print(f"warm start: {job.warm_start_steps} steps of imitation of {teacher}")

    def tell(step: int, loss: float) -> None:
        if step % -(-job.warm_start_steps // 5) == 0:  # five lines at most
            console.print(f"  step {step}, loss {loss:.2f} nats per token")

    saved = model.dtype
    model.to(args.device).float()  # half precision loses such small updates
    of_template: dict[str, Any] = {
        name: getattr(args, name)
        for name in ("chat_template_kwargs", "reasoning_marks")
    }
    warm_start(
        LMPolicy(model, tokenizer, prompt=args.prompt, **of_template),
        _examples(job, args, plans),
        num_steps=job.warm_start_steps,
        learning_rate=job.warm_start_learning_rate,
        batch_size=job.warm_start_batch_size,
        seed=args.seed,
        max_tokens=args.max_tokens_per_forward,
        checkpointing=bool(args.gradient_checkpointing),
        on_step=tell,
    )
    return model.to(saved)


def _examples(
    job: JobConfig, args: TurnGRPOConfig, plans: Sequence[GamePlan]
) -> list[Example]:
    """The replies that a warm start imitates."""
    makers = [plan.env_fn for plan in imitated(job, args, plans)]
    how = job.warm_start_episodes, args.seed
    if job.warm_start_teacher is None:
        return legal_play(makers, *how)
    return solver_replies(makers, make_policy(job.warm_start_teacher), *how)


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
