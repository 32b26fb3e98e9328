"""Checks that prompts and replies fit the model's chat and context."""

from collections.abc import Sequence
from pathlib import Path

from transformers import AutoConfig

from arena_trainers.lm.chat import Chat
from arena_trainers.lm.context import context_length
from arena_trainers.lm.policy import NUM_CHECKED
from arena_trainers.runs.tiny import TINY_CONTEXT
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.games import GamePlan, different_games
from arena_trainers.train.settings import Draft
from arena_wrappers import FORMATS, RandomPolicy, play
from arena_wrappers.prompts import Message


def check_reply_lengths(
    lengths: Sequence[int], plans: Sequence[GamePlan], args: TurnGRPOConfig | Draft
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
        for turn in [turn for episode in episodes for turn in episode.turns][
            :NUM_CHECKED
        ]:
            for text in turn.legal[:NUM_CHECKED]:
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
    limits: list[int | None] = [TINY_CONTEXT]
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
        advice = "give shorter prompts (--prompt rules=false, --prompt history=state) or a longer context"
        if longest and num_full == len(longest):
            raise ValueError(
                f"want prompts of {plan.name} that leave room in the context of {limit} "
                f"tokens, got prompts of {min(longest)} to {max(longest)} tokens in every "
                f"episode of random play (history={args.history!r}, rules={args.rules}); "
                "give shorter prompts (--prompt rules=false, --prompt history=state), fewer turns "
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
        prompts = [turn.messages for turn in episode.turns if plan.learners[turn.seat]]
        if not prompts:
            continue
        # a token is a byte at least, so that most prompts need not be encoded
        bound = max(map(_most_tokens, prompts))
        if bound < limit:
            sizes.append(bound)
        else:
            sizes.append(max(len(chat.encode(prompt)) for prompt in prompts))
    return sizes


def _most_tokens(prompt: Sequence[Message]) -> int:
    return sum(len(message["content"].encode()) + _MARKS for message in prompt)


def check_chat(chat: Chat, args: TurnGRPOConfig) -> None:
    """Checks that the chat template can show the messages of the prompts.

    Raises:
        ValueError: it cannot show earlier replies; names the options without them.
    """
    if args.history == "transcript" or args.on_invalid == "retry":
        chat.check_replies()
