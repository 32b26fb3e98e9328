"""The record of what happened: episodes and their turns, as JSON lines."""

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from arena_wrappers.prompts import Message


@dataclass(frozen=True)
class Turn:
    """One reply of one seat, with all that led to it and came of it.

    Attributes:
        index: which of this seat's turns of the episode, from 0.
        seat: who replied.
        policy: name of the policy that replied.
        messages: the prompt.
        legal: canonical texts of the legal actions.
        reply: the raw reply.
        action: what was played; None if nothing was (the reply was invalid).
        invalid: why the reply was no action: `"format"`, `"illegal"`, `"ambiguous"`,
            `"overlong"` or `"error"`; None if it was valid.
        detail: the reason in a sentence, where the reply was invalid.
        rewards: what the seat was paid from this turn until its next, by name of the part.
        prompt_ids: token ids of the prompt, if the policy reports them.
        token_ids: token ids of the reply.
        logprobs: log-probabilities of the reply's tokens.
        truncated: whether the reply was cut by a length limit.
    """

    index: int
    seat: int
    policy: str
    messages: Sequence[Message]
    legal: Sequence[str]
    reply: str
    action: Any
    invalid: str | None
    detail: str | None
    rewards: dict[str, float] = field(default_factory=dict)
    prompt_ids: Sequence[int] | None = None
    token_ids: Sequence[int] | None = None
    logprobs: Sequence[float] | None = None
    truncated: bool = False

    @property
    def reward(self) -> float:
        """Sum of the parts."""
        return sum(self.rewards.values())


@dataclass(frozen=True)
class Episode:
    """One episode: where it started, every action, every turn, and how it ended.

    Attributes:
        game: id of the game, or the name of its class if it has none.
        params: parameters of the game.
        max_turns: limit after which the environment truncates, if any.
        prompt: options of the `PromptWrapper`.
        seed: seed of the environment.
        sample: number of the episode among those with the same seed.
        actions: all actions in order, chance outcomes included; utterances as text.
        turns: all replies in order.
        returns: what each seat was paid, the true score; shaping is not in it.
        terminated: whether the episode ended by its rules (a forfeit included).
        truncated: whether it was cut by `max_turns`.
        forfeited_by: the seat that forfeited, if one did.
        parent: id of the episode that this one branched from, if any.
        branch: turn at which it branched.
    """

    game: str
    params: Mapping[str, Any]
    max_turns: int | None
    prompt: Mapping[str, Any]
    seed: int
    sample: int
    actions: Sequence[Any]
    turns: Sequence[Turn]
    returns: Sequence[float]
    terminated: bool
    truncated: bool
    forfeited_by: int | None = None
    parent: int | None = None
    branch: int | None = None

    def to_json(self) -> str:
        """The episode as one line of JSON."""
        return json.dumps(asdict(self), allow_nan=False)

    @classmethod
    def from_json(cls, line: str) -> "Episode":
        """The episode that `to_json` wrote.

        Raises:
            ValueError: the line is no episode.
        """
        try:
            values = json.loads(line)
            turns = [Turn(**turn) for turn in values.pop("turns")]
            return cls(**values, turns=turns)
        except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
            raise ValueError(f"want an episode as JSON, got {line[:60]!r}") from error


def write_episodes(path: str | Path, episodes: Iterable[Episode]) -> None:
    """Writes episodes as JSON lines; the file appears whole or not at all."""
    path = Path(path)
    with tempfile.NamedTemporaryFile(
        "w", dir=path.parent, prefix=path.name, delete=False, encoding="utf-8"
    ) as file:
        try:
            file.writelines(episode.to_json() + "\n" for episode in episodes)
        except BaseException:
            os.unlink(file.name)
            raise
    os.replace(file.name, path)


def read_episodes(path: str | Path) -> Iterator[Episode]:
    """The episodes of a file of JSON lines.

    Raises:
        ValueError: a line is no episode; names the line.
    """
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                yield Episode.from_json(line)
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: {error}") from error
