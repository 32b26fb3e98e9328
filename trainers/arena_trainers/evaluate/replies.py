"""Warnings about policies with mostly invalid replies, and about lost episodes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from arena_wrappers import Episode, Policy, PromptOptions, Turn
from arena_wrappers.policies import own_prompt
from arena_wrappers.prompts import PROMPT_OPTIONS, seat_options
from arena_wrappers.records import LOST

MANY = 0.5  # share of invalid replies; more lead to a warning
FEW_LOST = 0.01  # share of lost episodes; more may bias means
MAX_QUOTED = 80  # characters of a reply


def given_prompts(
    lineup: Sequence[Policy], given: Mapping[str, Any]
) -> list[PromptOptions | None]:
    """Prompt options of each seat: those that its policy carries, overridden by `given`.

    None for a policy that carries no options: the `PromptWrapper`'s hold in its seat.
    """
    changes = {name: given[name] for name in PROMPT_OPTIONS if name in given}
    return [own and replace(own, **changes) for own in map(own_prompt, lineup)]


@dataclass
class _Count:
    num_replies: int = 0
    num_episodes: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)  # episodes, by kind
    first: tuple[Any, Turn, PromptOptions] | None = None  # rank, invalid reply
    first_lost: tuple[Any, str] | None = None  # rank, reason


class ReplyCount:
    """Counts the invalid replies of each policy in each game, and the episodes that it lost."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], _Count] = {}

    def add(self, episode: Episode) -> None:
        """Counts the replies of an episode."""
        for name in {turn.policy for turn in episode.turns}:
            self._of(name, episode).num_episodes += 1
        for turn in episode.turns:
            count = self._of(turn.policy, episode)
            # independent of the order in which episodes end
            place = episode.seed, episode.sample, turn.seat, turn.index
            rank = place, turn.detail or "", turn.reply
            if turn.invalid in LOST:
                count.lost[turn.invalid] += 1
                told = rank, turn.detail or ""
                count.first_lost = min(count.first_lost or told, told)
                continue
            count.num_replies += 1
            if turn.invalid is None:
                continue
            count.reasons[turn.invalid] += 1
            if count.first is None or rank < count.first[0]:
                options = seat_options(episode.prompt, turn.seat)
                count.first = rank, turn, options

    def _of(self, policy: str, episode: Episode) -> _Count:
        return self._counts.setdefault((policy, episode.game), _Count())

    def lost(self) -> tuple[str, ...]:
        """A clause for each policy and game with lost episodes."""
        return tuple(
            f"{_lost(policy, game, count)}: {count.first_lost[1]}"
            for (policy, game), count in sorted(
                self._counts.items(), key=lambda item: item[0]
            )
            if count.first_lost
        )

    def warnings(self) -> tuple[str, ...]:
        """One line for each policy and game with many invalid replies or lost episodes."""
        lost = tuple(
            f"{_lost(policy, game, count)}, which is more than {FEW_LOST:.0%}: losses may "
            "not be random (long games meet more faults), and then means are biased; play "
            "these episodes again"
            for (policy, game), count in sorted(
                self._counts.items(), key=lambda item: item[0]
            )
            if count.lost.total() > FEW_LOST * count.num_episodes
        )
        return lost + tuple(
            _warning(policy, game, count, *count.first[1:])
            for (policy, game), count in sorted(
                self._counts.items(), key=lambda item: item[0]
            )
            if count.first and count.reasons.total() > MANY * count.num_replies
        )


def _lost(policy: str, game: str, count: _Count) -> str:
    kinds = ", ".join(
        f"{_KINDS[kind]} {n}" for kind, n in sorted(count.lost.items(), reverse=True)
    )
    return (
        f"policy {policy!r} gave no reply in {count.lost.total()} of "
        f"{count.num_episodes} episodes of {game}, which are lost ({kinds})"
    )


_KINDS = {"timeout": "timeouts", "error": "errors"}


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
    "refusal": "Ask for play in the rules' own words, or give another model.",
    "context_length": "Give shorter prompts (--no-rules, --history state) or a longer context.",
    "tool_call": "Have the model reply in text: give it no tools.",
}
