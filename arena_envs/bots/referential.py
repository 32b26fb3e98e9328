"""Scripted players of the referential game."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from arena_envs.bots.styles import check_style
from arena_envs.game import AnyGame
from arena_envs.games._referential_state import DESCRIBER, State
from arena_envs.games._talk import Utterance
from arena_envs.games._word_match import words_of
from arena_envs.games.referential import Referential


@dataclass(frozen=True)
class Referrer:
    """Plays the referential game in one of four styles, as the describer and as the picker.

    | Style     | Describer: says                           | Picker: picks                       |
    |-----------|-------------------------------------------|-------------------------------------|
    | `honest`  | all values of the target                  | what has most of the values said    |
    | `greedy`  | its value that the fewest objects have    | what has most of the values said    |
    | `silent`  | always the first word                     | any object                          |
    | `optimal` | word k for object k in alphabetical order | object k in alphabetical order      |

    Pickers draw among equally good objects. The code of `optimal` is a convention: it works with
    itself. Where it hears no word of the code, it picks any object.

    Args:
        style: one of these words.

    Raises:
        ValueError: another style; when it plays, another game.
    """

    style: str

    def __post_init__(self) -> None:
        check_style(self.style, STYLES)

    def __call__(self, game: AnyGame, state: State, rng: random.Random) -> Utterance:
        if not isinstance(game, Referential):
            raise ValueError(f"want Referential, got {game!r}")
        says, fits = STYLES[self.style]
        if game.current_player(state) == DESCRIBER:
            words = says(game, state, state.targets[-1])
            if len(words) > game.max_message:
                words = words[: game.max_message].strip()
            return Utterance("say", (), words)
        scores = [fits(game, state, number) for number in state.objects]
        best = [n for n, score in enumerate(scores, 1) if score == max(scores)]
        return Utterance("pick", (rng.choice(best),))


def _names_all(game: Referential, state: State, target: int) -> str:
    return game.names[target]


def _names_one(game: Referential, state: State, target: int) -> str:
    names = [game.names[number].split() for number in state.objects]

    def num_fitting(value: str) -> int:
        return sum(value in name for name in names)

    return min(game.names[target].split(), key=num_fitting)


def _says_first(game: Referential, state: State, target: int) -> str:
    return game.words[0]


def _says_code(game: Referential, state: State, target: int) -> str:
    return game.words[sorted(state.objects).index(target)]


def _fits_words(game: Referential, state: State, number: int) -> int:
    return len(words_of(state.said[-1].message) & {*game.names[number].split()})


def _fits_code(game: Referential, state: State, number: int) -> int:
    return int(state.said[-1].message == _says_code(game, state, number))


def _fits_alike(game: Referential, state: State, number: int) -> int:
    return 0


Describer = Callable[[Referential, State, int], str]
Fit = Callable[[Referential, State, int], int]

STYLES: dict[str, tuple[Describer, Fit]] = {
    "greedy": (_names_one, _fits_words),
    "honest": (_names_all, _fits_words),
    "optimal": (_says_code, _fits_code),
    "silent": (_says_first, _fits_alike),
}
