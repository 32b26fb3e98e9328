"""Scripted players of codenames."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from arena_envs.bots.styles import check_style
from arena_envs.game import AnyGame
from arena_envs.games._codenames_state import NUMBERS, State, clash_of
from arena_envs.games._talk import Utterance
from arena_envs.games.codenames import STOPPED, Codenames

LETTERS = "abcdefghijklmnopqrstuvwxy"


@dataclass(frozen=True)
class Spy:
    """Plays codenames in one of four styles, as spymaster and as operative.

    Words are numbered in alphabetical order, those that have left the board too.

    | Style     | Spymaster: clue                          | Operative: guesses                     |
    |-----------|------------------------------------------|----------------------------------------|
    | `honest`  | the number of its first word, as "two 1" | that word, and stops                   |
    | `greedy`  | the number of its first word, as "two 1" | that word, then any, until it must stop |
    | `silent`  | always the first legal clue              | any word, and stops                    |
    | `optimal` | letters for all its words, as "adf 3"    | these words, and stops                 |

    An operative that cannot read a clue guesses any word.

    Args:
        style: one of these words.

    Raises:
        ValueError: another style; when it plays, another game.
    """

    style: str

    def __post_init__(self) -> None:
        check_style(self.style, STYLES)

    def __call__(self, game: AnyGame, state: State, rng: random.Random) -> Utterance:
        if not isinstance(game, Codenames):
            raise ValueError(f"want Codenames, got {game!r}")
        hints, reads = STYLES[self.style]
        if game.current_player(state) % 2 == 0:
            return hints(game, state)
        clue = [said for said in state.said if said.move == "clue"][-1].values[0]
        free = [p for p in range(game.num_words) if p not in state.guessed]
        meant = [place for place in reads(clue) if place in free]
        has_guessed = state.said[-1].move == "guess"
        if has_guessed and not meant and self.style != "greedy":
            return STOPPED
        place = meant[0] if meant else rng.choice(free)
        return Utterance("guess", (game.boards[state.board][place],))


def _own(game: Codenames, state: State) -> list[int]:
    """Places of the words that the team has yet to find."""
    return [
        place
        for place, role in enumerate(state.key)
        if role == str(state.team) and place not in state.guessed
    ]


def _first_legal(game: Codenames, state: State) -> Utterance:
    return game.legal_actions(state)[0]


def _number(game: Codenames, state: State) -> Utterance:
    clues = game.legal_actions(state)
    wanted = [Utterance("clue", (NUMBERS[place], 1)) for place in _own(game, state)]
    return next((clue for clue in wanted if clue in clues), clues[0])


def _letters(game: Codenames, state: State) -> Utterance:
    """The letters of the words in some order; a second time where they are too few."""
    own = _own(game, state)
    name = "".join(LETTERS[place] for place in own)
    free = game.free_words(state)
    for clue in (name, name[::-1], name + name, name + name[::-1]):
        if 2 <= len(clue) <= 20 and not clash_of(clue, free):
            return Utterance("clue", (clue, len(own)))
    return _number(game, state)


def _read_nothing(clue: str) -> list[int]:
    return []


def _read_number(clue: str) -> list[int]:
    return [NUMBERS.index(clue)] if clue in NUMBERS else []


def _read_letters(clue: str) -> list[int]:
    return [LETTERS.index(letter) for letter in sorted({*clue} & {*LETTERS})]


Spymaster = Callable[[Codenames, State], Utterance]
Reading = Callable[[str], list[int]]

STYLES: dict[str, tuple[Spymaster, Reading]] = {
    "greedy": (_number, _read_number),
    "honest": (_number, _read_number),
    "optimal": (_letters, _read_letters),
    "silent": (_first_legal, _read_nothing),
}
