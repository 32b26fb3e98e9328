"""TextArena's environments after a seed and actions, remembered by history."""

import copy
import random
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import islice, product
from typing import Any

import numpy as np
import textarena as ta
from textarena.envs.registration import ENV_REGISTRY

from arena_envs.game import IllegalAction, fold
from arena_envs.hostile import break_markup

MAX_POSITIONS = 1_000  # remembered at a time
MAX_REPLY = 2_000  # characters
MAX_SHOWN = 19_000  # characters of an observation
MAX_PLAYERS = 15
MAX_TRIED = 150  # texts, in the search for legal actions
# a number, the letter of a square such as b4, or a placeholder such as X in "play X"
NUMBER = re.compile(r"(\d+|(?<![A-Za-z])[A-Za-z](?=\d)|\b[A-Z]\b)")
WORDS = ("yes", "no", "pass", "I agree.")  # for games of free talk

State = tuple[int | str, ...]  # the seed, then all actions
LISTED = re.compile(r"\[([^\[\]\n]{1,60})\]")
NOISE = re.compile(r"\x1b\[[0-9;]*m|\*{3,}")  # colours and lines of error messages
MARKS = re.compile(r"[<>\[\]{},\s]+")
DRAWN = str.maketrans("│┃─━┌┐└┘├┤┬┴┼═║♠♥♦♣", "||--+++++++++=|SHDC")


class UnsupportedGame(ValueError):
    """TextArena's game lacks what a game needs here; the message says what."""


class Position:
    """An environment of TextArena in the middle of an episode.

    Args:
        env: the environment; it is not changed.
        shows: what a player reads, from the player and the messages sent to it.
        generators: states of Python's and numpy's global generators, which TextArena uses.
        own: the actions of each player.
    """

    def __init__(
        self, env: Any, shows: Callable[..., Any], generators: Any, own: Any
    ) -> None:
        self._env, self._shows, self._generators = env, shows, generators
        self.own: tuple[tuple[str, ...], ...] = own
        self._taken: dict[str, bool] = {}
        self.raised: Exception | None = None  # by TextArena, at a text
        self.is_over = bool(env.state.done)
        self.player = int(env.state.current_player_id)

    def takes(self, action: str) -> bool:
        """Whether TextArena takes an action."""
        if action not in self._taken:
            if len(self._taken) > 2 * MAX_TRIED:
                self._taken.clear()
            self._taken[action] = self.after(action) is not None
        return self._taken[action]

    def after(self, action: str) -> "Position | None":
        """The position after an action; None if TextArena refuses it."""
        env, refused = copy.deepcopy(self._env), []
        refuse = env.state.set_invalid_move

        def note(*args: Any, **kwargs: Any) -> Any:
            refused.append(True)
            return refuse(*args, **kwargs)

        env.state.set_invalid_move = note
        try:
            with _generators(self._generators) as after:
                env.step(action=action)
        except Exception as error:  # a parser of a text may raise anything
            self.raised = error
            return None
        del env.state.set_invalid_move
        if refused:
            return None
        own = list(self.own)
        own[self.player] = (*own[self.player], action)
        return Position(env, self._shows, after, tuple(own))

    def read(self, text: str) -> str:
        """The action that a text names: a listed one, or any that TextArena takes.

        Raises:
            IllegalAction: TextArena refuses the text.
        """
        text = text.strip().replace("[ ", "[")  # as `break_markup` shows brackets
        listed = {fold(name): action for name, action in self.listed().items()}
        found = listed.get(fold(text.removeprefix("[").removesuffix("]")))
        return self._accepted(text) if found is None else found

    def _accepted(self, text: str) -> str:
        """The text, or the text in brackets, as TextArena takes it."""
        if len(text) <= MAX_REPLY and text.isprintable() and not self.is_over:
            for action in (text, f"[{text}]"):
                if text and self.takes(action):
                    return action
        raise IllegalAction(f"want an action that the game takes, got {text[:80]!r}")

    def listed(self) -> dict[str, str]:
        """Actions by name: those that the player's texts give in brackets and that are taken."""
        if "_listed" not in self.__dict__:
            self._listed = {} if self.is_over else self._find_listed()
        return self._listed

    def _find_listed(self) -> dict[str, str]:
        sent = [
            message
            for sender, message, _ in self.sent(self.player)
            if sender == ta.GAME_ID
        ]
        given = dict.fromkeys(LISTED.findall("\n".join(sent)))
        found: dict[str, str] = {}
        taken: set[str] = set()
        for name in islice(_variants(given), MAX_TRIED):
            if fold(name) in taken or (found and name in WORDS):
                continue
            try:
                action = self._accepted(name)
            except IllegalAction:
                continue
            taken.add(fold(name))
            found[name] = action
        return found

    def sent(self, player: int) -> list[Any]:
        """All messages sent to a player: sender, text and type."""
        return list(self._env.state.observations[player])

    def shown(self, player: int) -> str:
        """What the player reads, in ASCII, without markup of chat templates."""
        text = break_markup(as_ascii(self._shows(self._env, player))).strip()
        if len(text) > MAX_SHOWN:
            half = MAX_SHOWN // 2
            text = f"{text[:half]}\n(...)\n{text[-half:]}".strip()
        return text or "Nothing was said yet."

    def rewards(self) -> list[float]:
        """The reward of each player at the end."""
        rewards, _ = copy.deepcopy(self._env).close()
        return [
            float((rewards or {}).get(player, 0.0)) for player in range(len(self.own))
        ]


def _variants(given: Iterable[str]) -> Iterator[str]:
    """Names of actions: as given, then with other numbers and squares, then plain words.

    >>> list(_variants(["col 4"]))[:4]
    ['col 4', 'col 0', 'col 1', 'col 2']
    """
    names = [MARKS.sub(" ", as_ascii(inner)).strip() for inner in given]
    names = [name for name in names if name]
    yield from names
    for name in names:
        parts = NUMBER.split(name)
        numbers = parts[1::2]
        choices = [
            _like(*pair) for pair in zip(numbers, [*numbers[1:], ""], strict=False)
        ]
        if len(choices) in (1, 2):
            for chosen in product(*choices):
                parts[1::2] = chosen
                yield "".join(parts)
    yield from WORDS


def _like(part: str, following: str) -> str:
    """Letters for the letter of a square such as b4, else digits."""
    if part.isdigit() or not following.isdigit():
        return "0123456789"
    return "ABCDEFGHIJ" if part.isupper() else "abcdefghij"


def as_ascii(text: str) -> str:
    """The text in ASCII: lines of boxes and suits by their like, others as escapes."""
    plain = unicodedata.normalize("NFKD", text.translate(DRAWN))
    return plain.encode("ascii", "backslashreplace").decode()


@contextmanager
def _generators(states: Any) -> Iterator[list[Any]]:
    """Sets the global generators; the list holds their states afterwards."""
    before = random.getstate(), np.random.get_state()
    after: list[Any] = []
    random.setstate(states[0])
    np.random.set_state(states[1])
    try:
        yield after
    finally:
        after += [random.getstate(), np.random.get_state()]
        random.setstate(before[0])
        np.random.set_state(before[1])


@lru_cache(64)
def num_players_of(name: str, wanted: int | None = None) -> int:
    """A number of players that a game takes: 2, else the smallest.

    Args:
        name: TextArena's id.
        wanted: the only number to try; None for all up to `MAX_PLAYERS`.

    Raises:
        UnsupportedGame: TextArena has no such game, or cannot start it here.
    """
    if name not in ENV_REGISTRY:
        raise UnsupportedGame(f"TextArena has no game {name!r}")
    reasons = []
    tried = (2, 1, *range(3, MAX_PLAYERS + 1)) if wanted is None else [wanted]
    for num_players in tried:
        try:
            start(name, num_players, 0)
        except Exception as error:  # what its constructor and reset raise
            reasons.append(f"{type(error).__name__}: {error}")
        else:
            return num_players
    told = next((r for r in reasons if not r.startswith("AssertionError")), reasons[0])
    told = " ".join(NOISE.sub("", told).split())[:250]
    raise UnsupportedGame(f"TextArena cannot start {name!r} here: {told}")


def start(name: str, num_players: int, seed: int) -> Position:
    """The position before the first action."""
    generators = random.Random(seed).getstate(), np.random.RandomState(seed).get_state()
    with _generators(generators) as after:
        env = ta.make(name)
        env.reset(num_players=num_players, seed=seed)
    wrapper = None
    while isinstance(env, ta.Wrapper):
        if isinstance(env, ta.ObservationWrapper):
            wrapper = type(env)
        env = env.env
    if type(env).get_observation is not ta.Env.get_observation:
        raise UnsupportedGame(f"{name!r} computes observations when they are read")

    def shows(env: Any, player: int) -> str:
        sent = list(env.state.observations[player])
        if wrapper is not None and sent:
            return str(wrapper(env).observation(player, sent))
        return "\n".join(text for _, text, _ in sent)

    return Position(env, shows, after, ((),) * num_players)


@lru_cache(MAX_POSITIONS)
def position(name: str, num_players: int, state: State) -> Position:
    """The position after a seed and actions, which TextArena takes."""
    if len(state) == 1:
        return start(name, num_players, int(state[0]))
    for end in range(
        300, len(state), 300
    ):  # else a long game exceeds the recursion limit
        position(name, num_players, state[:end])
    found = position(name, num_players, state[:-1]).after(str(state[-1]))
    if found is None:
        raise IllegalAction(f"want an action that {name} takes, got {state[-1]!r:.80}")
    return found
