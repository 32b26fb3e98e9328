"""Warnings about policies with mostly invalid replies, and policies that do not reply."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from arena_wrappers import Episode, Policy, PromptOptions, Turn
from arena_wrappers.noisy import without_noise
from arena_wrappers.play_async import is_async
from arena_wrappers.policies import own_prompt
from arena_wrappers.prompts import PROMPT_OPTIONS, seat_options

MANY = 0.5  # share of invalid replies; more lead to a warning
MAX_QUOTED = 80  # characters of a reply


def given_prompts(
    lineup: Sequence[Policy], given: Mapping[str, Any]
) -> list[PromptOptions | None]:
    """Prompt options of each seat: those that its policy carries, overridden by `given`.

    None for a policy that carries no options: the `PromptWrapper`'s hold in its seat.

    Args:
        lineup: a policy for each seat.
        given: arguments of a `PromptWrapper`.
    """
    changes = {name: given[name] for name in PROMPT_OPTIONS if name in given}
    return [own and replace(own, **changes) for own in map(own_prompt, lineup)]


def lost_reply(episode: Episode, lineup: Sequence[Policy]) -> str | None:
    """Why the endpoint of a seat gave no reply; None unless that ended the episode.

    A timeout of `play` is no such reason: it says that the policy is too slow.

    Args:
        episode: an episode that is over.
        lineup: a policy for each seat.
    """
    seat = episode.forfeited_by
    if seat is None or not is_async(without_noise(lineup[seat])):
        return None
    last = [turn for turn in episode.turns if turn.seat == seat][-1]
    detail = last.detail or ""
    if last.invalid != "error" or detail.startswith("TimeoutError: "):
        return None
    return f"policy {last.policy!r} gave no reply: {detail}"


@dataclass
class _Count:
    num_replies: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    first: tuple[Any, Turn, PromptOptions] | None = None  # rank, invalid reply


class ReplyCount:
    """Counts the invalid replies of each policy in each game."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], _Count] = {}

    def add(self, episode: Episode) -> None:
        """Counts the replies of an episode."""
        for turn in episode.turns:
            key = turn.policy, episode.game
            count = self._counts.setdefault(key, _Count())
            count.num_replies += 1
            if turn.invalid is None:
                continue
            count.reasons[turn.invalid] += 1
            # independent of the order in which episodes end
            place = episode.seed, episode.sample, turn.seat, turn.index
            rank = place, turn.detail or "", turn.reply
            if count.first is None or rank < count.first[0]:
                options = seat_options(episode.prompt, turn.seat)
                count.first = rank, turn, options

    def unanswered(self) -> tuple[str, ...]:
        """A clause for each policy and game in which every reply is an error."""
        return tuple(
            f"policy {policy!r} gave no reply in {game}: {count.first[1].detail}"
            for (policy, game), count in sorted(
                self._counts.items(), key=lambda item: item[0]
            )
            if count.first and count.reasons["error"] == count.num_replies
        )

    def warnings(self) -> tuple[str, ...]:
        """One line for each policy and game with more than `MANY` invalid replies."""
        return tuple(
            _warning(policy, game, count, *count.first[1:])
            for (policy, game), count in sorted(
                self._counts.items(), key=lambda item: item[0]
            )
            if count.first and count.reasons.total() > MANY * count.num_replies
        )


def _warning(
    policy: str, game: str, count: _Count, turn: Turn, options: PromptOptions
) -> str:
    share = count.reasons.total() / count.num_replies
    ranked = sorted(count.reasons.items(), key=lambda item: (-item[1], item[0]))
    reasons = ", ".join(f"{reason} {n}" for reason, n in ranked)
    text = repr(turn.reply[:MAX_QUOTED])
    if len(turn.reply) > MAX_QUOTED:
        text += f"... of {len(turn.reply)} characters"
    read = ", ".join(f"{name}={getattr(options, name)!r}" for name in PROMPT_OPTIONS)
    return (
        f"{policy}: {share:.0%} of {count.num_replies} replies in {game} are invalid "
        f"({reasons}). The first is {text} ({turn.detail!r:.200}), prompted with {read}. "
        f"{_ADVICE.get(ranked[0][0], _PROMPTS)}"
    )


_PROMPTS = (
    "If the model was trained with other prompts, pass their options (such as "
    "--reply-format and --no-rules) or write them to arena_prompt.json in its folder."
)
_ADVICE = {
    "overlong": f"Allow longer replies with --max-new-tokens. {_PROMPTS}",
    "error": "The policy raised this error: fix it.",
}
