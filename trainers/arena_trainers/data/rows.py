"""Rows to train on, and recorded play as selectors read it.

Rows are completions, pairs and labels. A completion is a list of pieces: what the seat said, and
what it heard between two of its replies. A piece has the tokens of the record, or none; `columns`
gives all rows their tokens. A `Trajectory` is a seat of an episode; `conversations` are its turns
that continue each other.
"""

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

from arena_envs.checks import check_known
from arena_envs.game import AnyGame, check_number
from arena_wrappers import Episode, Message, Turn
from arena_wrappers.play import game_of

GENERAL = "general"  # game of rows that are of no episode


class Said(NamedTuple):
    """A part of a reply, or a whole one.

    Attributes:
        text: what the policy wrote.
        ids: its tokens as they were sampled, the end token included; None without a record.
        counts: whether its tokens are trained.
        ends: whether the reply ends here.
    """

    text: str
    ids: Sequence[int] | None
    counts: bool = True
    ends: bool = True


class Heard(NamedTuple):
    """The messages that a seat read between two of its replies.

    Attributes:
        prompt: all messages of the later turn's prompt.
        start: index in `prompt` of the first message that is new.
        ids: the new tokens as they were read; None without a record.
    """

    prompt: Sequence[Message]
    start: int
    ids: Sequence[int] | None


Piece = Said | Heard


class Dropped(NamedTuple):
    """A count of what a selector did not choose, for the table of `arena data`.

    Attributes:
        reason: why, in words that are the same for all that is dropped for this reason.
        num: how many episodes of a seat, or turns.
    """

    reason: str
    num: int = 1


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row to train on: its source and its prompt.

    Attributes:
        game: id of the game.
        seat: who learns.
        turn: which of the seat's turns the prompt is of, from 0.
        seed: of the episode.
        sample: of the episode.
        policy: who replied.
        reason: why the row was chosen.
        prompt: messages that the seat read.
        prompt_ids: their tokens as they were read; None without a record.
        role: of a generation of an agent's turn; "" for other turns.
        parent: which generation of its turn it answers, from 0; -1 for none.
    """

    game: str
    seat: int
    turn: int
    seed: int
    sample: int
    policy: str
    reason: str
    prompt: Sequence[Message]
    prompt_ids: Sequence[int] | None = None
    role: str = ""
    parent: int = -1

    names: ClassVar[Sequence[str]] = ()  # of the completions

    @property
    def texts(self) -> tuple[Sequence[Piece], ...]:
        """The completions of the row."""
        return tuple(getattr(self, name) for name in self.names)


@dataclass(frozen=True, kw_only=True)
class Completion(Row):
    """A completion to imitate.

    Attributes:
        completion: what follows the prompt.
        weight: how much the row counts; at least 0.
    """

    completion: Sequence[Piece]
    weight: float = 1.0
    names = ("completion",)


@dataclass(frozen=True, kw_only=True)
class Label(Completion):
    """A completion that is good or bad.

    Attributes:
        label: whether it is good.
    """

    label: bool


@dataclass(frozen=True, kw_only=True)
class Pair(Row):
    """Two completions of one prompt, the first of which is better.

    Attributes:
        chosen: the better one.
        rejected: the other one.
        margin: difference of their values; 0 where there is none.

    Raises:
        ValueError: both say the same.
    """

    chosen: Sequence[Piece]
    rejected: Sequence[Piece]
    margin: float = 0.0
    names = ("chosen", "rejected")

    def __post_init__(self) -> None:
        said = [messages_of(pieces) for pieces in self.texts]
        if said[0] == said[1]:
            raise ValueError(
                f"want a chosen completion that differs from the rejected one, got "
                f"{said[0][0]['content']!r:.60} as both; leave the pair out"
            )


AnyRow = Completion | Label | Pair
Policies = Collection[str] | None  # names of those who learn; None for all


def messages_of(pieces: Sequence[Piece]) -> list[Message]:
    """The messages of a completion; parts of one reply are one message.

    >>> messages_of([Said("bet", None, False, False), Said(" no: pass", None)])
    [{'role': 'assistant', 'content': 'bet no: pass'}]
    """
    found: list[Message] = []
    reply = ""
    for piece in pieces:
        if isinstance(piece, Heard):
            found += piece.prompt[piece.start :]
            continue
        reply += piece.text
        if piece.ends:
            found.append({"role": "assistant", "content": reply})
            reply = ""
    return found


def content_of(row: Row) -> tuple[Any, ...]:
    """The content that equal rows share: start, texts and label."""
    facts = (row.game, row.seed, row.seat, row.turn, row.policy, row.role, row.parent)
    prompt = tuple(message["content"] for message in row.prompt)
    said = tuple(tuple(map(_told, pieces)) for pieces in row.texts)
    label = row.label if isinstance(row, Label) else False
    return (type(row).__name__, *facts, prompt, said, label)


def _told(piece: Piece) -> tuple[str, ...]:
    if isinstance(piece, Said):
        return piece.text, str(piece.counts)
    return tuple(message["content"] for message in piece.prompt[piece.start :])


@dataclass
class Call(Turn):
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
    own, found = {**vars(turn), "generations": ()}, list[Turn]()
    for one in turn.generations:
        if not one.messages:
            raise ValueError(
                f"want the prompt of each generation, got none for role {one.role!r} of "
                f"{turn.policy!r}; play the episodes again"
            )
        tokens = ("prompt_ids", "token_ids", "logprobs")
        own |= {name: getattr(one, name) or None for name in tokens}
        own |= {"messages": one.messages, "reply": one.text}
        found.append(Call(**own, role=one.role, parent=one.parent))
    return found


class Trajectory(NamedTuple):
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
    found: dict[tuple[str, str], AnyGame] = {}
    for episode in episodes:
        key = rules_key(episode)
        if key not in found:
            found[key] = game_of(episode)
    return found


def trajectories(
    episodes: Sequence[Episode], policies: Collection[str] | None = None
) -> list[Trajectory]:
    """The seats of the episodes, in an order that does not depend on that of the episodes.

    Args:
        episodes: the records.
        policies: names of those who learn, as `Turn.policy` has them; None for all.

    Raises:
        ValueError: none of the policies played in any of the episodes.
    """
    wanted = chosen_policies(episodes, policies)
    found = []
    for episode in episodes:
        seats: dict[int, list[Turn]] = {}
        for turn in episode.turns:
            seats.setdefault(turn.seat, []).append(turn)
        for seat, turns in sorted(seats.items()):
            if turns[0].policy in wanted:
                said = [one for turn in turns for one in calls(turn)]
                found.append(Trajectory(episode, seat, said))
    replies = {id(e): tuple((t.policy, t.reply) for t in e.turns) for e in episodes}
    return sorted(
        found, key=lambda o: (*o.start, o.episode.sample, replies[id(o.episode)])
    )


def chosen_policies(
    episodes: Sequence[Episode], policies: Collection[str] | None
) -> Collection[str]:
    """The names of the policies that learn; raises ValueError for one that never played."""
    played = {turn.policy for episode in episodes for turn in episode.turns}
    if policies is None or not played:
        return played
    if not isinstance(policies, str | list | tuple | set | frozenset):
        raise ValueError(f"want policies as a list of names, got {policies!r:.60}")
    wanted = {policies} if isinstance(policies, str) else set(map(str, policies))
    for name in sorted(wanted):
        told = f"no turn of the episodes is by the policy {name!r}"
        check_known(name, sorted(played), told)
    return wanted


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
    if isinstance(before, Call) or isinstance(turn, Call):
        return False
    if turn.prompt_ids is not None and before.prompt_ids is not None:
        known = [*before.prompt_ids, *(before.token_ids or ())]
        return list(turn.prompt_ids[: len(known)]) == known
    count = len(before.messages)
    return (
        turn.prompt_ids is None
        and len(turn.messages) > count + 1
        and turn.messages[count]["role"] == "assistant"
        and list(turn.messages[:count]) == list(before.messages)
    )


def have_same_prompt(one: Turn, other: Turn) -> bool:
    """True if two turns read the same messages, and the same tokens if both have them."""
    if list(one.messages) != list(other.messages):
        return False
    if one.prompt_ids is None or other.prompt_ids is None:
        return True
    return list(one.prompt_ids) == list(other.prompt_ids)


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
    for i, turn in enumerate(turns):
        if i:
            before = turns[i - 1]
            known = len(before.prompt_ids or ()) + len(before.token_ids or ())
            ids = None if turn.prompt_ids is None else turn.prompt_ids[known:]
            pieces.append(Heard(turn.messages, len(before.messages) + 1, ids))
        pieces.append(Said(turn.reply, turn.token_ids, counts(turn)))
    return pieces


def facts_of(episode: Episode, turn: Turn, reason: str) -> dict[str, Any]:
    """The facts of a row, and its prompt, as keywords of `Row`."""
    call = isinstance(turn, Call) and {"role": turn.role, "parent": turn.parent}
    return {
        **(call or {}),
        **{"game": episode.game, "seat": turn.seat, "turn": turn.index},
        **{"seed": episode.seed, "sample": episode.sample, "policy": turn.policy},
        **{"reason": reason, "prompt": turn.messages, "prompt_ids": turn.prompt_ids},
    }


def completions(
    found: Trajectory, reason: str, weight: float = 1.0
) -> Iterator[Completion | Dropped]:
    """The conversations of a seat with a legal reply; refused replies do not count.

    A seat without a legal reply is `Dropped`.
    """
    if not any(map(is_legal, found.turns)):
        yield Dropped("no reply was legal")
    for turns in conversations(found.turns):
        if any(map(is_legal, turns)):
            facts = facts_of(found.episode, turns[0], reason)
            yield Completion(**facts, completion=pieces_of(turns), weight=weight)


def joined(parts: Iterable[Iterable[Episode]]) -> list[Episode]:
    """Lists of episodes as one; `Episode.parent` counts those of the whole list."""
    found: list[Episode] = []
    for part in parts:
        first = len(found)
        for episode in part:
            if episode.parent is not None:
                episode = replace(episode, parent=episode.parent + first)
            found.append(episode)
    return found


def check_share(name: str, value: object) -> None:
    """Refuses an option that is no number above 0 and at most 1."""
    check_number(name, value, 0)
    if not 0 < value <= 1:  # type: ignore[operator] # a number
        raise ValueError(f"want {name} above 0 and at most 1, got {value!r:.60}")


def draw(seed: int, *facts: Any) -> int:
    """A random integer of 63 bits, which depends on the arguments alone."""
    told = repr((seed, *facts)).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(told, digest_size=8).digest()) >> 1
