"""A state of the referential game, and what an episode measures."""

from collections.abc import Sequence
from typing import NamedTuple

from arena_envs.games._talk import Utterance
from arena_envs.games._word_match import words_of

DESCRIBER, PICKER = 0, 1


class State(NamedTuple):
    """The objects, by their numbers in the list of all, in the picker's order; the rounds.

    Attributes:
        objects: those drawn so far.
        targets: the objects that are targets, one for each round so far.
        said: all utterances in order.
    """

    objects: tuple[int, ...] = ()
    targets: tuple[int, ...] = ()
    said: tuple[Utterance, ...] = ()

    @property
    def picked(self) -> tuple[int, ...]:
        """The objects picked so far."""
        return tuple(self.objects[said.values[0] - 1] for said in self.said[1::2])

    @property
    def num_right(self) -> int:
        """Right picks so far."""
        pairs = zip(self.targets, self.picked, strict=False)
        return sum(target == picked for target, picked in pairs)


def measured(
    state: State, names: Sequence[str], words: Sequence[str], num_rounds: int
) -> dict[str, float]:
    """Success, truthfulness and words, as the page defines them.

    Args:
        state: of the game.
        names: of all objects.
        words: all values of attributes.
        num_rounds: of the game.
    """
    pairs = list(zip(state.targets, state.said[::2], strict=False))
    true = total = 0
    for target, said in pairs:
        values = words_of(said.message) & {*words}
        total += len(values)
        true += len(values & {*names[target].split()})
    num_words = sum(len(said.message.split()) for _, said in pairs)
    return {
        "success": state.num_right / num_rounds,
        "truthfulness": true / total if total else 1.0,
        "words": num_words / max(1, len(pairs)),
    }
