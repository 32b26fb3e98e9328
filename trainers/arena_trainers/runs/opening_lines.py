"""What a run of self-play prints before training."""

from collections.abc import Sequence

from arena_eval import legal_rate
from arena_trainers.lm.policy import LMPolicy
from arena_trainers.runs.callbacks.replies import escaped
from arena_trainers.runs.settings import JobConfig
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.games import GamePlan
from arena_wrappers import Episode, RandomPolicy, Turn, play

# legal replies / replies; below this GRPO has almost no positive examples
MIN_LEGAL_RATE = 0.05


def start_description(
    policy: LMPolicy, plans: Sequence[GamePlan], args: TurnGRPOConfig
) -> str:
    """The size of the model, the length of the prompts, and the credit."""
    prompts = [
        policy.encode(turn.messages)
        for plan in plans
        for episode in play(plan.env_fn, RandomPolicy(), range(100))
        for turn in episode.turns
    ]
    parameters = sum(p.numel() for p in policy.model.parameters())
    return (
        f"model of {parameters:,} parameters; prompts of at most "
        f"{max(map(len, prompts))} tokens (rules={args.rules}, "
        f"reply_format={args.reply_format}, show_legal_actions="
        f"{args.show_legal_actions}); credit {args.credit!r}"
    )


def memory_line(max_tokens: int, args: TurnGRPOConfig) -> str:
    """The number of tokens that run through the model at once in training."""
    is_given = args.max_tokens_per_forward is not None
    source = "as given" if is_given else "from the free memory and the model's size"
    return (
        f"at most {max_tokens:,} tokens run at once in training "
        f"(max_tokens_per_forward, {source})"
    )


def legal_warning(
    game: str, episodes: Sequence[Episode], job: JobConfig, args: TurnGRPOConfig
) -> str | None:
    """A warning, if hardly any reply of the model is a legal action; else None."""
    turns = [turn for episode in episodes for turn in episode.turns]
    if not turns or legal_rate(episodes) >= MIN_LEGAL_RATE:
        return None
    bad = next(turn for turn in turns if turn.invalid is not None)
    return (
        f"warning: {legal_rate(episodes):.1%} of {len(turns)} replies in {game} are legal "
        f"actions: GRPO has almost no legal replies to reinforce.\n"
        f"  A reply: {escaped(bad.reply)}\n"
        f"  Refused: {bad.invalid}: {ascii(bad.detail)[1:-1]}\n"
        f"  What helps: {'; '.join(_advice(turns, job, args))}."
    )


def _advice(turns: Sequence[Turn], job: JobConfig, args: TurnGRPOConfig) -> list[str]:
    """Options that would raise the rate of legal replies, the best first."""
    advice = []
    num_cut = sum(turn.truncated for turn in turns)
    if 2 * num_cut > len(turns):
        advice.append(
            f"a larger --max_completion_length ({num_cut} of {len(turns)} replies were cut "
            f"at {args.max_completion_length} tokens)"
        )
    if job.warm_start_steps == 0:
        advice.append("--warm_start steps=100 (imitation of random legal play)")
    else:
        advice.append(f"more than --warm_start steps={job.warm_start_steps}")
    if not args.rules:
        advice.append("--prompt rules=true (prompts tell the rules and how to reply)")
    if not args.show_legal_actions:
        advice.append("--prompt show_legal_actions=true")
    if args.parsing == "strict":
        advice.append("--prompt parsing=tolerant")
    others = {"answer", "boxed", "bracket", "bare"} - {args.reply_format}
    advice.append(f"another --prompt reply_format= ({', '.join(sorted(others))})")
    if job.model != "tiny":
        advice.append("a --model that follows instructions")
    return advice
