"""Recorded play as selectors read it.

A `RecordedTrajectory` is a seat of an episode; `conversations` are its turns that continue each other.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from arena_envs.game import AnyGame
from arena_trainers.data.arguments import chosen_policies
from arena_trainers.data.rows import Completion, Dropped, NewMessages, Piece, ReplyPart
from arena_wrappers import Episode, Turn
from arena_wrappers.play import game_of


@dataclass
class CallTurn(Turn):
    """A generation of an agent's turn as a turn of its own.

    Prompt, reply, tokens, `role` and `parent` are those of the generation; action, verdict and
    rewards those of its turn.
    """

    role: str = ""
    parent: int = -1


def calls(turn: Turn) -> list[Turn]:
    """The generations of an agent's turn; of another turn, the turn.

    Raises:
        ValueError: a generation has no prompt.
    """
    if not turn.generations:
        return [turn]
    fields = {**vars(turn), "generations": ()}
    turn_calls: list[Turn] = []
    for generation in turn.generations:
        if not generation.messages:
            raise ValueError(
                f"want the prompt of each generation, got none for role {generation.role!r} of "
                f"{turn.policy!r}; play the episodes again"
            )
        for name in ("prompt_ids", "token_ids", "logprobs"):
            fields[name] = getattr(generation, name) or None
        fields["messages"] = generation.messages
        fields["reply"] = generation.text
        call = CallTurn(**fields, role=generation.role, parent=generation.parent)
        turn_calls.append(call)
    return turn_calls


class RecordedTrajectory(NamedTuple):
    """A seat of an episode.

    Attributes:
        episode: the record.
        seat: the seat.
        turns: its turns, in order; at least one. An agent's turn is its `calls`.
    """

    episode: Episode
    seat: int
    turns: Sequence[Turn]

    @property
    def value(self) -> float:
        """The seat's return."""
        return float(self.episode.returns[self.seat])

    @property
    def start(self) -> tuple[Any, ...]:
        """The game and seed that all episodes of a group share, and the seat."""
        return (*rules_key(self.episode), self.episode.seed, self.seat)


def rules_key(episode: Episode) -> tuple[str, str]:
    """The game of an episode with its parameters."""
    return episode.game, json.dumps(episode.params, sort_keys=True)


def games_of(episodes: Iterable[Episode]) -> dict[tuple[str, str], AnyGame]:
    """The rules of the episodes by `rules_key`; equal ones are made once.

    Raises:
        ValueError: a game is unknown, or a parameter does not fit it.
        ImportError: a game cannot be imported.
    """
    games: dict[tuple[str, str], AnyGame] = {}
    for episode in episodes:
        key = rules_key(episode)
        if key not in games:
            games[key] = game_of(episode)
    return games


def recorded_trajectories(
    episodes: Sequence[Episode], policies: Collection[str] | None = None
) -> list[RecordedTrajectory]:
    """The seats of the episodes, in an order that does not depend on that of the episodes.

    Args:
        episodes: the records.
        policies: names of those who learn, as `Turn.policy` has them; None for all.

    Raises:
        ValueError: none of the policies played in any of the episodes.
    """
    learners = chosen_policies(episodes, policies)
    seats_that_learn = []
    for episode in episodes:
        seats: dict[int, list[Turn]] = {}
        for turn in episode.turns:
            seats.setdefault(turn.seat, []).append(turn)
        for seat, turns in sorted(seats.items()):
            if turns[0].policy in learners:
                all_calls = [call for turn in turns for call in calls(turn)]
                seats_that_learn.append(RecordedTrajectory(episode, seat, all_calls))
    replies = {id(e): tuple((t.policy, t.reply) for t in e.turns) for e in episodes}

    def order(trajectory: RecordedTrajectory) -> tuple[Any, ...]:
        episode = trajectory.episode
        return (*trajectory.start, episode.sample, replies[id(episode)])

    return sorted(seats_that_learn, key=order)


def conversations(turns: Sequence[Turn]) -> Iterator[list[Turn]]:
    """The turns of a seat, cut where a prompt does not continue the turn before.

    A transcript is one conversation. Where prompts show one state, each turn is its own, and
    so is each generation of an agent's turn.
    """
    current: list[Turn] = []
    for turn in turns:
        if current and not continues(current[-1], turn):
            yield current
            current = []
        current.append(turn)
    if current:
        yield current


def continues(before: Turn, turn: Turn) -> bool:
    """True if the prompt of a turn begins with the turn before: its tokens, or its messages."""
    if isinstance(before, CallTurn) or isinstance(turn, CallTurn):
        return False
    if turn.prompt_ids is not None and before.prompt_ids is not None:
        context = [*before.prompt_ids, *(before.token_ids or ())]
        return list(turn.prompt_ids[: len(context)]) == context
    count = len(before.messages)
    return (
        turn.prompt_ids is None
        and len(turn.messages) > count + 1
        and turn.messages[count]["role"] == "assistant"
        and list(turn.messages[:count]) == list(before.messages)
    )


def have_same_prompt(first: Turn, second: Turn) -> bool:
    """True if two turns read the same messages, and the same tokens if both have them."""
    if list(first.messages) != list(second.messages):
        return False
    if first.prompt_ids is None or second.prompt_ids is None:
        return True
    return list(first.prompt_ids) == list(second.prompt_ids)


def is_legal(turn: Turn) -> bool:
    """True if the reply was a legal action."""
    return turn.invalid is None


def pieces_of(
    turns: Sequence[Turn], counts: Callable[[Turn], bool] = is_legal
) -> list[Piece]:
    """The replies of a conversation, and what the seat heard between them.

    Args:
        turns: each continues the one before.
        counts: whether the reply of a turn is trained.
    """
    pieces: list[Piece] = []
    for number, turn in enumerate(turns):
        if number:
            before = turns[number - 1]
            num_tokens = len(before.prompt_ids or ()) + len(before.token_ids or ())
            ids = None if turn.prompt_ids is None else turn.prompt_ids[num_tokens:]
            pieces.append(NewMessages(turn.messages, len(before.messages) + 1, ids))
        pieces.append(ReplyPart(turn.reply, turn.token_ids, counts(turn)))
    return pieces


def row_facts(episode: Episode, turn: Turn, reason: str) -> dict[str, Any]:
    """The facts of a row, and its prompt, as keywords of `Row`."""
    facts: dict[str, Any] = {
        "game": episode.game,
        "seat": turn.seat,
        "turn": turn.index,
        "seed": episode.seed,
        "sample": episode.sample,
        "policy": turn.policy,
        "reason": reason,
        "prompt": turn.messages,
        "prompt_ids": turn.prompt_ids,
    }
    if isinstance(turn, CallTurn):
        facts["role"] = turn.role
        facts["parent"] = turn.parent
    return facts


def completions(
    trajectory: RecordedTrajectory, reason: str, weight: float = 1.0
) -> Iterator[Completion | Dropped]:
    """The conversations of a seat with a legal reply; refused replies do not count.

    A seat without a legal reply is `Dropped`.
    """
    if not any(map(is_legal, trajectory.turns)):
        yield Dropped("no reply was legal")
    for turns in conversations(trajectory.turns):
        if any(map(is_legal, turns)):
            facts = row_facts(trajectory.episode, turns[0], reason)
            yield Completion(**facts, completion=pieces_of(turns), weight=weight)


def joined(parts: Iterable[Iterable[Episode]]) -> list[Episode]:
    """Lists of episodes as one; `Episode.parent` counts those of the whole list."""
    episodes: list[Episode] = []
    for part in parts:
        first = len(episodes)
        for episode in part:
            if episode.parent is not None:
                episode = replace(episode, parent=episode.parent + first)
            episodes.append(episode)
    return episodes
