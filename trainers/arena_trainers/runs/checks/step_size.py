"""The size of an optimizer step, by random legal play of the games.

Where prompts show earlier replies, those of random play count as long as the recipe's.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from arena_trainers.train.games import GamePlan
from arena_trainers.train.settings import Draft
from arena_wrappers import RandomPolicy, play
from arena_wrappers.prompts import Message

CHARACTERS_PER_TOKEN = 4.0
TEMPLATE_TOKENS = 8  # of a message's markup
REPLY_SHARE = 0.5  # of the longest allowed reply
NUM_SAMPLED = 32  # episodes of random play for each game


@dataclass(frozen=True)
class StepSize:
    """The size of an optimizer step.

    Attributes:
        episodes: that are trained.
        passes: generation batches per step; below 1 if several steps share one.
        batch: episodes that are played together.
        turns: of learning seats in an episode, on average.
        rounds: most turns of an episode, which are asked for one after the other.
        rows: training rows.
        row_tokens: of a row, on average.
        longest_row: tokens, if every reply is as long as allowed.
        prompt_tokens: of a prompt, on average.
        longest_prompt: tokens, if every reply before it is as long as allowed.
        longest_reply: tokens.
        at_once: most replies of a process at once, where transformers generates; None for all.
    """

    episodes: int
    passes: float
    batch: int
    turns: float
    rounds: int
    rows: int
    row_tokens: float
    longest_row: int
    prompt_tokens: float
    longest_prompt: int
    longest_reply: int
    at_once: int | None = None

    @property
    def tokens(self) -> int:
        """Trained tokens, prompts included."""
        return round(self.rows * self.row_tokens)

    @property
    def reply_tokens(self) -> float:
        """Tokens of a reply, on average."""
        return max(1.0, REPLY_SHARE * self.longest_reply)


def step_size_of(
    plans: Sequence[GamePlan],
    args: Draft,
    longest_reply: int,
    encode: Callable[[Sequence[Message]], int],
) -> StepSize:
    """The size of a step, by random legal play of the games.

    Args:
        plans: the games.
        args: the trainer's settings, without what TRL derives.
        longest_reply: tokens.
        encode: tokens of a prompt.
    """
    total = sum(plan.weight for plan in plans)
    reply = max(1.0, REPLY_SHARE * longest_reply)
    is_trajectory = args.layout == "trajectory"
    turns = tokens = rows = row_tokens = 0.0
    longest = rounds = 0
    for plan in plans:
        share = plan.weight / total / NUM_SAMPLED
        for episode in play(plan.env_fn, RandomPolicy(), range(NUM_SAMPLED)):
            rounds = max(rounds, len(episode.turns))
            learning_turns = [t for t in episode.turns if plan.learners[t.seat]]
            lengths = list[float]()
            last = dict[int, float]()
            for turn in learning_turns:
                short = encode(turn.messages)
                shown = _shown_replies(turn.messages, is_trajectory, args)
                lengths.append(short + sum(max(reply - n, 0) for n in shown))
                longest_prompt = short + sum(max(longest_reply - n, 0) for n in shown)
                longest = max(longest, math.ceil(longest_prompt))
                last[turn.seat] = lengths[-1]
            trained = list(last.values()) if is_trajectory else lengths
            turns += share * len(learning_turns)
            tokens += share * sum(lengths)
            rows += share * len(trained)
            row_tokens += share * sum(trained)
    limit = args.vllm_max_model_length if args.use_vllm else None
    longest_row = min(longest + longest_reply, limit or longest + longest_reply)
    episodes, passes, batch = _batches(args)
    return StepSize(
        episodes=episodes,
        passes=passes,
        batch=batch,
        turns=turns,
        rounds=rounds,
        rows=round(episodes * rows),
        row_tokens=min(row_tokens / max(rows, 1e-9) + reply, longest_row),
        longest_row=longest_row,
        prompt_tokens=tokens / max(turns, 1e-9),
        longest_prompt=longest,
        longest_reply=longest_reply,
        at_once=None if args.use_vllm else args.rollout_batch_size,
    )


def _shown_replies(
    messages: Sequence[Message], is_trajectory: bool, args: Draft
) -> list[float]:
    """Tokens of the replies of random play that a prompt shows, where the model's are longer.

    Chat templates show earlier replies without their reasoning. A row of a trajectory holds it.
    """
    thinks = (args.chat_template_kwargs or {}).get("enable_thinking")
    if thinks and not is_trajectory:
        return []
    return [
        len(message["content"]) / CHARACTERS_PER_TOKEN
        for message in messages
        if message["role"] == "assistant"
    ]


def _batches(args: Draft) -> tuple[int, float, int]:
    """Episodes per step, generation batches per step, and episodes per batch.

    Raises:
        ValueError: there would be none.
    """
    accumulated = max(args.gradient_accumulation_steps, 1)
    episodes = args.episodes_per_step or args.per_device_train_batch_size * accumulated
    per_pass = episodes // accumulated  # of a forward and backward pass
    steps = args.steps_per_generation or accumulated
    batch = args.generation_batch_size or per_pass * steps
    if batch < 1 or args.num_iterations < 1:
        raise ValueError(
            "want an episode per generation batch and num_iterations of at least 1, "
            f"got {batch} and {args.num_iterations}"
        )
    return episodes, episodes / args.num_iterations / batch, batch


def estimated_length(messages: Sequence[Message]) -> int:
    """Tokens of a prompt where no tokenizer is at hand, by `CHARACTERS_PER_TOKEN`."""
    characters = sum(len(message["content"]) for message in messages)
    return round(characters / CHARACTERS_PER_TOKEN) + TEMPLATE_TOKENS * len(messages)
