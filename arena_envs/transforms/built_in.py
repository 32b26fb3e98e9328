"""The transforms of this project.

`misere(game)` and `goal(game, at=MODULE:FUNCTION)` have other returns and ends,
`start:FILE@SHARE(game)` and `vanish(tic_tac_toe)` other positions, and `disguise:SEED(game)` other
names.
"""

import json
import random
import re
import string
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_envs.game import (
    CHANCE,
    TERMINAL,
    AnyGame,
    AnyState,
    BaseGame,
    IllegalAction,
    check_int,
    over_text,
    possible_actions,
    random_states,
)
from arena_envs.games.kits.board import turn_text
from arena_envs.games.tic_tac_toe import SQUARES, WON, TicTacToe
from arena_envs.games.tic_tac_toe import State as Board
from arena_envs.registry import imported
from arena_envs.transforms import DrawsFirst, Transform


@dataclass(frozen=True)
class Misere(Transform):
    """`misere(game)`: the returns of a duel with their signs changed; a forfeit still loses.

    Nim is misère by default, so that `misere(nim)` is normal play.
    """

    def __post_init__(self) -> None:
        game = self.game
        holds = (
            game.num_players == 2 and game.zero_sum and game.information == "perfect"
        )
        holds = holds and not game.simultaneous and game.max_chance_nodes == 0
        self._want(holds, "a zero-sum game of two seats without chance")

    def __getattr__(self, name: str) -> Any:
        opposite = {"min_return": "max_return", "max_return": "min_return"}.get(name)
        return (
            0.0 - getattr(self.game, opposite)
            if opposite
            else super().__getattr__(name)
        )

    def returns(self, state: AnyState) -> Sequence[float]:
        return [0.0 - seat_return for seat_return in self.game.returns(state)]

    forfeit = BaseGame.forfeit

    def rules(self, seat: int) -> str:
        return (
            f"{self.game.rules(seat)} But the result is reversed: your score is that of "
            "these rules with the other sign, so who would win by them loses."
        )

    def observe(self, state: AnyState, seat: int) -> str:
        text: str = self.game.observe(state, seat)
        if self.game.current_player(state) != TERMINAL:
            return text
        return f"{text} The result is reversed. {over_text(self.returns(state)[seat])}"


@dataclass(frozen=True)
class Goal(Transform):
    """`goal(game, at="module:function")`: the game ends where a function says so.

    Args:
        game: the inner game.
        at: `"module:function"` of game and state: the return of each seat where the game is to
            end, else None. Returns keep to the bounds of the game, and to a sum of 0 where it has
            one. It is asked where a seat is to move, in simultaneous games between rounds. The
            docstring of the function tells players the goal.
    """

    at: str

    def __post_init__(self) -> None:
        if not callable(self._reached_at) or self._goal_returns(
            self.game.initial_state()
        ):
            raise ValueError(
                f"want a function of game and state that ends no game at its start, got {self.at!r}"
            )

    def current_player(self, state: AnyState) -> int:
        return (
            TERMINAL
            if self._goal_returns(state)
            else int(self.game.current_player(state))
        )

    def chance_outcomes(self, state: AnyState) -> Sequence[tuple[Any, float]]:
        return (
            () if self._goal_returns(state) else list(self.game.chance_outcomes(state))
        )

    def legal_actions(self, state: AnyState) -> Sequence[Any]:
        return () if self._goal_returns(state) else list(self.game.legal_actions(state))

    def returns(self, state: AnyState) -> Sequence[float]:
        return self._goal_returns(state) or list(self.game.returns(state))

    def rules(self, seat: int) -> str:
        goal = " ".join((self._reached_at.__doc__ or "a goal is reached.").split())
        return f"{self.game.rules(seat)} The game also ends when this holds: {goal}"

    def observe(self, state: AnyState, seat: int) -> str:
        text: str = self.game.observe(state, seat)
        returns = self._goal_returns(state)
        return (
            f"{text} The goal is reached. {over_text(returns[seat])}"
            if returns
            else text
        )

    def information_state(self, state: AnyState, seat: int) -> Hashable:
        key, returns = (
            self.game.information_state(state, seat),
            self._goal_returns(state),
        )
        return (key, returns[seat]) if returns else key

    def resample(self, state: AnyState, seat: int, rng: random.Random) -> Any:
        for _ in range(100):
            twin = self.game.resample(state, seat, rng)
            if self._goal_returns(twin) == self._goal_returns(state):
                return twin
        return state

    @property
    def _reached_at(self) -> Any:
        return imported(self.at, "a function of a game and a state")

    def _goal_returns(self, state: AnyState) -> Sequence[float] | None:
        """The returns if the goal is reached in this state."""
        player = self.game.current_player(state)
        if player < 0 or (self.game.simultaneous and player > 0):
            return None
        goal_returns = self._reached_at(self.game, state)
        if goal_returns is None:
            return None
        returns, game = [float(r) for r in goal_returns], self.game
        low, high = game.min_return, game.max_return
        fits = (
            len(returns) == game.num_players
            and low <= min(returns) <= max(returns) <= high
        )
        if not fits or (game.zero_sum and abs(sum(returns)) > 1e-9):
            with_sum = ", with the sum 0," if game.zero_sum else ""
            raise ValueError(
                f"want None or a return of each seat from {low} to {high}{with_sum} from "
                f"{self.at!r}, got {goal_returns!r:.100}"
            )
        return returns


BEGIN = "start"  # the state in which a position is drawn


@dataclass(frozen=True)
class StartFromPositions(DrawsFirst):
    """`start:FILE@SHARE(game)`: a curriculum from the end of play.

    Chance first draws one of the positions of `FILE`: each episode after `SHARE` of its turns, and
    then its chance outcomes. In simultaneous games these are whole rounds.

    Args:
        game: the inner game.
        source: `"FILE@SHARE"`; episodes as `--out` writes them, and a number from 0 to 1.
    """

    source: str

    def __post_init__(self) -> None:
        self._want(self.game.num_actions is not None, "a game without talk")
        self._positions()

    def initial_state(self) -> Any:
        return BEGIN

    def current_player(self, state: AnyState) -> Any:
        return CHANCE if state == BEGIN else self.game.current_player(state)

    def chance_outcomes(self, state: AnyState) -> Any:
        if state != BEGIN:
            return self.game.chance_outcomes(state)
        total = sum(count for _, count in self._positions())
        return [(i, n / total) for i, (_, n) in enumerate(self._positions())]

    def legal_actions(self, state: AnyState) -> Any:
        return () if state == BEGIN else self.game.legal_actions(state)

    def apply(self, state: AnyState, action: int) -> Any:
        if state == BEGIN:
            return self._positions()[action][0]
        return self.game.apply(state, action)

    def information_state(self, state: AnyState, seat: int) -> Any:
        return state if state == BEGIN else self.game.information_state(state, seat)

    def parse(self, state: AnyState, text: str) -> Any:
        if state == BEGIN:
            raise IllegalAction("nobody is to move: the position is being drawn")
        return self.game.parse(state, text)

    def resample(self, state: AnyState, seat: int, rng: random.Random) -> Any:
        return state if state == BEGIN else self.game.resample(state, seat, rng)

    def _inner(self, state: AnyState) -> Any:
        return self.game.initial_state() if state == BEGIN else state

    def _positions(self) -> Sequence[tuple[Any, int]]:
        return _positions(self.game, self.source)


@lru_cache(16)
def _positions(game: AnyGame, source: str) -> Sequence[tuple[Any, int]]:
    """The distinct states in which episodes start, each with its number of episodes."""
    file, _, share = source.rpartition("@")
    try:
        part = float(share)
        lines = Path(file).read_text(encoding="utf-8").splitlines()
        records = [json.loads(line)["actions"] for line in lines]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"want a file of episodes as start:FILE@0.5(game), got {source!r}: {error}"
        ) from error
    if not 0 <= part < 1 or not records:
        raise ValueError(f"want a share from 0 to below 1 and episodes, got {source!r}")
    counts = Counter(_position(game, record, part, file) for record in records)
    return list(counts.items())


def _position(game: AnyGame, record: Sequence[Any], part: float, file: str) -> Any:
    states, num_turns = [game.initial_state()], [0]
    for action in record:
        state = states[-1]
        player = game.current_player(state)
        if action not in possible_actions(game, state):
            raise ValueError(
                f"want episodes of {game!r:.200} in {file}, got the action {action!r}"
            )
        states.append(game.apply(state, action))
        num_turns.append(num_turns[-1] + (player >= 0))
    max_turns = part * num_turns[-1]
    starts = [game.initial_state()]
    for state, num in zip(states, num_turns, strict=True):
        player = game.current_player(state)
        if num <= max_turns and (player == 0 if game.simultaneous else player >= 0):
            starts.append(state)
    return starts[-1]


NUM_MARKS, LONGEST = 3, 40  # marks of a seat; turns until a draw


class Marks(NamedTuple):
    """The squares of both seats in turn, the oldest first, and the number of turns."""

    squares: tuple[int, ...] = ()
    num_turns: int = 0


@dataclass(frozen=True)
class Vanish(Transform):
    """`vanish(game)`: tic-tac-toe in which each seat has at most three marks.

    The oldest vanishes when the seat puts a fourth. After 40 turns the game is a draw.
    """

    max_turns: ClassVar[int] = LONGEST
    forfeit, parse = BaseGame.forfeit, BaseGame.parse  # of these states

    def __post_init__(self) -> None:
        self._want(isinstance(self.game, TicTacToe), "tic-tac-toe")

    def initial_state(self) -> Marks:
        return Marks()

    def current_player(self, state: Marks) -> int:
        is_over = state.num_turns == LONGEST or any(WON[m] for m in self._board(state))
        return TERMINAL if is_over else state.num_turns % 2

    def legal_actions(self, state: Marks) -> Sequence[int]:
        is_over = self.current_player(state) == TERMINAL
        return () if is_over else [a for a in range(9) if a not in state.squares]

    def apply(self, state: Marks, action: int) -> Marks:
        return Marks((*state.squares, action)[-2 * NUM_MARKS :], state.num_turns + 1)

    def returns(self, state: Marks) -> Sequence[float]:
        returns: Sequence[float] = self.game.returns(self._board(state))
        draw = float(self.game.draw_return)
        return (
            (draw, draw) if state.num_turns == LONGEST and not any(returns) else returns
        )

    def information_state(self, state: Marks, seat: int) -> Hashable:
        return state

    def observe(self, state: Marks, seat: int) -> str:
        turn = turn_text(self.current_player(state), seat, self.returns(state))
        board = self.game.observe(self._board(state), seat).partition("\n")[2]
        ages = ", ".join(SQUARES[square] for square in state.squares) or "none"
        return (
            f"You are {'XO'[seat]}. {turn}\n{board}\n"
            f"Marks, the oldest first: {ages}. Turns: {state.num_turns} of {LONGEST}."
        )

    def features(self, state: Marks, seat: int) -> NDArray[np.float32]:
        """Three planes as in tic-tac-toe, the age of each mark, and the share of turns."""
        ages = np.zeros(10, np.float32)
        for age, square in enumerate(reversed(state.squares), 1):
            ages[square] = age
        ages[9] = state.num_turns / LONGEST
        return np.concatenate([self.game.features(self._board(state), seat), ages])

    def rules(self, seat: int) -> str:
        rules: str = self.game.rules(seat)
        old = "If the board is full and nobody has won, the game is a draw."
        return rules.replace(
            old,
            f"Each player has at most {NUM_MARKS} marks: with the next one the player's oldest "
            f"mark vanishes. After {LONGEST} turns without a winner, the game is a draw.",
        )

    def _board(self, state: Marks) -> Board:
        board, first = [0, 0], state.num_turns - len(state.squares)
        for number, square in enumerate(state.squares, first):
            board[number % 2] |= 1 << square
        return Board(*board)


TOKEN = re.compile(
    r"(?P<stays>player_\d+|'s\b|\b[Aa](?= [a-z]{2,})(?! (?:to|and|or|on)\b))"
    r"|(?P<move>(?<=\d)[A-Za-z]+)|(?P<word>[A-Za-z]+)"
)
WORDS = Path(__file__).parents[1] / "words" / "plain.txt"
MAX_STATES = 300  # of random play, in search of words


@dataclass(frozen=True)
class Disguise(Transform):
    """`disguise:SEED(game)`: other names, the same tree.

    Plain English, numbers, `player_0` and directions stay. Every other word becomes an invented
    one, and every symbol of one letter another letter. The words are those of the rules, the
    actions and the texts of random play; words that only other play shows are invented, too.
    """

    seed: int

    def __post_init__(self) -> None:
        check_int("seed", self.seed, 0, 2**63)
        is_spelled = getattr(self.game, "is_spelled", False)
        requirement = "a game without talk, the letters of whose words carry no rules,"
        self._want(self.game.num_actions is not None and not is_spelled, requirement)
        _names_of(self.game, self.seed)  # refuses a game with too many symbols

    def observe(self, state: AnyState, seat: int) -> str:
        return self._renamed(self.game.observe(state, seat))

    def rules(self, seat: int) -> str:
        return self._renamed(self.game.rules(seat))

    def action_text(self, state: AnyState, action: int) -> str:
        return self._renamed(self.game.action_text(state, action))

    parse = BaseGame.parse  # of the new texts

    def _renamed(self, text: str) -> str:
        names = _names_of(self.game, self.seed)

        def new(match: re.Match[str]) -> str:
            word = match[0].lower()
            if match["stays"]:
                return match[0]
            if match["move"]:
                return "".join(names.get(char, char) for char in match[0])
            if len(word) == 1:
                return names.get(match[0], match[0])
            name = names.get(word) or (
                word if word in _plain()[0] else _invented(word, self.seed, 0)
            )
            return name.capitalize() if match[0][0].isupper() else name

        return TOKEN.sub(new, text)


@lru_cache
def _plain() -> tuple[frozenset[str], frozenset[str]]:
    """Words that stay, and those of them that stay in actions, too: the first line of the file."""
    text = WORDS.read_text(encoding="utf-8")
    return frozenset(text.split()), frozenset(text.partition("\n")[0].split())


def _invented(word: str, seed: int, attempt: int) -> str:
    rng = random.Random(f"{seed} {word} {attempt}")
    return "".join(rng.choice("bdfgklmnprstvz") + rng.choice("aeiou") for _ in "123")


@lru_cache(64)
def _names_of(game: AnyGame, seed: int) -> dict[str, str]:
    """The new name of each word that does not stay, in lower case, and of each symbol."""
    texts, actions = _texts_of(game)
    matches = [match for text in texts | actions for match in TOKEN.finditer(text)]
    words = {match["word"].lower() for match in matches if match["word"]}
    used = {word for word in words if len(word) == 1}
    used |= {char.lower() for match in matches for char in match["move"] or ""}
    free = sorted(set(string.ascii_lowercase) - used)
    if len(free) < len(used):
        raise ValueError(
            f"want at most 13 symbols of one letter in a game to disguise, got {len(used)}"
        )
    # sorted, so that columns stay in order
    letters = sorted(random.Random(seed).sample(free, len(used)))
    names = dict(zip(sorted(used), letters, strict=True))
    names |= {old.upper(): new.upper() for old, new in names.items()}
    words_of_actions = {
        word for text in actions for word in re.findall("[a-z]+", text.lower())
    }
    plain, plain_in_actions = _plain()
    stay, all_names = plain - (words_of_actions - plain_in_actions), words | plain
    # short words first, so that a longer form follows its stem
    for word in sorted(words - used - stay, key=lambda word: (len(word), word)):
        stem = _stem_of(word, names)
        name = names[stem] + word[len(stem) :] if stem else ""
        attempt = 0
        while not name or name in all_names:
            name = _invented(word, seed, attempt)
            attempt += 1
        names[word] = name
        all_names.add(name)
    return names


def _stem_of(word: str, names: Mapping[str, str]) -> str:
    """The word without its ending, where that has a new name already; else empty."""
    for ending in ("s", "es", "ed", "ing"):
        stem = word.removesuffix(ending)
        if stem != word and len(names.get(stem, "")) > 1:
            return stem
    return ""


def _texts_of(game: AnyGame) -> tuple[set[str], set[str]]:
    """Rules and texts, and texts of actions, of some random episodes."""
    texts = {game.rules(seat) for seat in range(game.num_players)}
    actions: set[str] = set()
    rng = random.Random(0)
    episodes = chain.from_iterable(random_states(game, rng) for _ in range(20))
    for state, _ in islice(episodes, MAX_STATES):
        texts |= {game.observe(state, seat) for seat in range(game.num_players)}
        actions |= {game.action_text(state, a) for a in game.legal_actions(state)}
    return texts, actions
