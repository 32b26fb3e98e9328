"""A prompt with the reply that is to be imitated."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from arena_wrappers import Episode
from arena_wrappers.prompts import Message


class Example(NamedTuple):
    """One reply that is to be imitated.

    Attributes:
        messages: the prompt.
        reply: what is answered, without the token that ends it.
    """

    messages: Sequence[Message]
    reply: str


def examples_of(episodes: Iterable[Episode]) -> list[Example]:
    """The valid replies of episodes, in order."""
    return [
        Example(turn.messages, turn.reply)
        for episode in episodes
        for turn in episode.turns
        if turn.invalid is None
    ]
