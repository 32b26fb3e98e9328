"""TextArena: our games there (`to_textarena`), its games here (`from_textarena`).

Importing this module registers every game: `textarena.make("arena/kuhn_poker-v0")`.
"""

import copy
import hashlib
import json
import random
import re
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import arena_envs
from arena_envs.game import (
    CHANCE,
    TERMINAL,
    AnyGame,
    BaseGame,
    IllegalAction,
    Kind,
    check_int,
    fold,
)
from arena_envs.hostile import break_markup
from arena_wrappers.adapters import UnsupportedGame, check_version
from arena_wrappers.play import SeatSession

check_version("textarena", "textarena", "0.7.4", "0.8")

import textarena as ta  # noqa: E402  # after the check
from textarena.core import Env  # noqa: E402
from textarena.envs.registration import (  # noqa: E402
    ENV_REGISTRY,
    register_with_versions,
)
from textarena.wrappers import (  # noqa: E402
    ActionFormattingWrapper,
    GameBoardObservationWrapper,
)

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


class Position:
    """An environment of TextArena in the middle of an episode.

    Args:
        env: the environment; it is not changed.
        shows: what a player reads, from the player and the messages sent to it.
        generators: states of Python's and numpy's global generators, which TextArena uses.
        texts_by_player: the actions of each player.
    """

    def __init__(
        self,
        env: ta.Env,
        shows: Callable[[Any, int], str],
        generators: Sequence[Any],
        texts_by_player: tuple[tuple[str, ...], ...],
    ) -> None:
        self._env, self._shows, self._generators = env, shows, generators
        self.texts_by_player = texts_by_player
        self._is_legal: dict[str, bool] = {}
        self.raised: Exception | None = None  # by TextArena, at a text
        self.is_over = bool(env.state.done)
        self.player = int(env.state.current_player_id)

    def takes(self, action: str) -> bool:
        """Whether TextArena takes an action."""
        if action not in self._is_legal:
            if len(self._is_legal) > 2 * MAX_TRIED:
                self._is_legal.clear()
            self._is_legal[action] = self.after(action) is not None
        return self._is_legal[action]

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
        texts_by_player = list(self.texts_by_player)
        texts_by_player[self.player] = (*texts_by_player[self.player], action)
        return Position(env, self._shows, after, tuple(texts_by_player))

    def read(self, text: str) -> str:
        """The action that a text names: a listed one, or any that TextArena takes.

        Raises:
            IllegalAction: TextArena refuses the text.
        """
        text = text.strip().replace("[ ", "[")  # as `break_markup` shows brackets
        action_of = {fold(name): action for name, action in self.listed_actions.items()}
        listed_action = action_of.get(fold(text.removeprefix("[").removesuffix("]")))
        return self._accepted(text) if listed_action is None else listed_action

    def _accepted(self, text: str) -> str:
        """The text, or the text in brackets, as TextArena takes it."""
        if len(text) <= MAX_REPLY and text.isprintable() and not self.is_over:
            for action in (text, f"[{text}]"):
                if text and self.takes(action):
                    return action
        raise IllegalAction(f"want an action that the game takes, got {text[:80]!r}")

    @cached_property
    def listed_actions(self) -> dict[str, str]:
        """Actions by name: those that the player's texts give in brackets and that are taken."""
        if self.is_over:
            return {}
        messages = self.sent(self.player)
        sent = [text for sender, text, _ in messages if sender == ta.GAME_ID]
        bracketed = dict.fromkeys(LISTED.findall("\n".join(sent)))
        action_of: dict[str, str] = {}
        folded_names: set[str] = set()
        for name in islice(_variants(bracketed), MAX_TRIED):
            if fold(name) in folded_names or (action_of and name in WORDS):
                continue
            try:
                action = self._accepted(name)
            except IllegalAction:
                continue
            folded_names.add(fold(name))
            action_of[name] = action
        return action_of

    def sent(self, player: int) -> list[Any]:
        """All messages sent to a player: sender, text and type."""
        return list(self._env.state.observations[player])

    def observation(self, player: int) -> str:
        """The player's text, in ASCII, without markup of chat templates."""
        text = break_markup(as_ascii(self._shows(self._env, player))).strip()
        if len(text) > MAX_SHOWN:
            half = MAX_SHOWN // 2
            text = f"{text[:half]}\n(...)\n{text[-half:]}".strip()
        return text or "Nothing was said yet."

    def rewards(self) -> list[float]:
        """The reward of each player at the end."""
        rewards, _ = copy.deepcopy(self._env).close()
        reward_of = rewards or {}
        return [
            float(reward_of.get(player, 0.0))
            for player in range(len(self.texts_by_player))
        ]


def _variants(bracketed: Iterable[str]) -> Iterator[str]:
    """Names of actions: as given, then with other numbers and squares, then plain words.

    >>> list(_variants(["col 4"]))[:4]
    ['col 4', 'col 0', 'col 1', 'col 2']
    """
    names = [MARKS.sub(" ", as_ascii(inner)).strip() for inner in bracketed]
    names = [name for name in names if name]
    yield from names
    for name in names:
        parts = NUMBER.split(name)
        numbers = parts[1::2]
        pairs = zip(numbers, [*numbers[1:], ""], strict=False)
        choices = [_like(*pair) for pair in pairs]
        if len(choices) in (1, 2):
            for variant in product(*choices):
                parts[1::2] = variant
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
def _generators(states: Sequence[Any]) -> Iterator[list[Any]]:
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
def num_players_of(name: str, num_wanted: int | None = None) -> int:
    """A number of players that a game takes: 2, else the smallest.

    Args:
        name: TextArena's id.
        num_wanted: the only number to try; None for all up to `MAX_PLAYERS`.

    Raises:
        UnsupportedGame: TextArena has no such game, or cannot start it here.
    """
    if name not in ENV_REGISTRY:
        raise UnsupportedGame(f"TextArena has no game {name!r}")
    reasons = []
    counts = (2, 1, *range(3, MAX_PLAYERS + 1)) if num_wanted is None else [num_wanted]
    for num_players in counts:
        try:
            start(name, num_players, 0)
        except Exception as error:  # what its constructor and reset raise
            reasons.append(f"{type(error).__name__}: {error}")
        else:
            return num_players
    reason = next(
        (r for r in reasons if not r.startswith("AssertionError")), reasons[0]
    )
    reason = " ".join(NOISE.sub("", reason).split())[:250]
    raise UnsupportedGame(f"TextArena cannot start {name!r} here: {reason}")


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

    def shows(env: ta.Env, player: int) -> str:
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
    # step by step, else a long game exceeds the recursion limit
    for end in range(300, len(state), 300):
        position(name, num_players, state[:end])
    next_position = position(name, num_players, state[:-1]).after(str(state[-1]))
    if next_position is None:
        raise IllegalAction(f"want an action that {name} takes, got {state[-1]!r:.80}")
    return next_position


# by family of games; tests/adapters/textarena/survey.py writes both
REFUSED = Path(__file__).parent / "surveys" / "textarena_refused.json"
PASSED = Path(__file__).parent / "surveys" / "textarena_passed.json"
NUM_SEEDS = 1_000


def from_textarena(name: str, **params: Any) -> "TextArenaGame":
    """One of TextArena's games, by its id.

    Warns of a game that was not checked (`docs/textarena.md`).

    Args:
        name: an id, such as `"TicTacToe-v0"`.
        **params: `num_players` and `max_turns` of `TextArenaGame`.

    Raises:
        UnsupportedGame: there is no such game, it does not start here, or it breaks a rule of
            games (`docs/textarena.md`). `TextArenaGame(name)` makes a game that breaks one.

    >>> game = from_textarena("TicTacToe-v0")
    >>> game.action_text((0,), "[4]")
    '4'
    """
    refused = json.loads(REFUSED.read_text(encoding="utf-8"))
    if reason := refused.get(family_of(name)):
        raise UnsupportedGame(
            f"TextArena's {name!r} cannot be played here: {reason}; "
            f"TextArenaGame({name!r}) makes it anyway"
        )
    game = TextArenaGame(name, **params)
    if family_of(name) not in json.loads(PASSED.read_text(encoding="utf-8")):
        warnings.warn(
            f"TextArena's {name!r} was not checked against the rules of games, so it may "
            "raise or list no legal action; check it with arena_envs.testing.check_game",
            stacklevel=2,
        )
    return game


def family_of(name: str) -> str:
    """The part of an id that variants of a game share.

    >>> family_of("KuhnPoker-v0-long")
    'KuhnPoker'
    """
    return name.partition("-v")[0]


@dataclass(frozen=True)
class TextArenaGame(BaseGame[State, int | str]):
    """One of TextArena's games, as a language game.

    A state is a seed, which chance draws, and all actions; TextArena's own draws follow from
    the seed. An action is a text as TextArena takes it, with or without brackets. The legal
    actions are those that it takes among the texts in brackets that the player has read, and
    the same with other numbers and squares; without any, plain words such as "yes". What
    TextArena counts as an invalid move is illegal, so its own allowance for errors is not
    used. Features are a digest of what the seat has read: they tell texts apart and no more.
    There is no `resample`, so bots that search cannot play.

    Args:
        name: TextArena's id.
        num_players: number of players; None for 2, or the smallest number that it takes.
        max_turns: the game ends after this many turns, with returns of 0.

    Raises:
        UnsupportedGame: TextArena has no such game, or cannot start it here.
        ValueError: `max_turns` is not from 1 to 5,000.
    """

    name: str
    num_players: int = None  # type: ignore[assignment]  # set below
    max_turns: int = 500

    first_state = ()
    num_actions = None
    max_chance_nodes = 1
    min_return = -1.0
    max_return = 1.0

    def __post_init__(self) -> None:
        check_int("max_turns", self.max_turns, 1, 5_000)
        num_players = num_players_of(self.name, self.num_players)
        object.__setattr__(self, "num_players", num_players)

    @property
    def kind(self) -> Kind:  # type: ignore[override]  # settable in BaseGame
        return "cooperative" if self.num_players == 1 else "mixed"

    def position(self, state: State) -> Position:
        """TextArena's environment after the seed and actions of a state."""
        return position(self.name, self.num_players, state)

    def current_player(self, state: State) -> int:
        if not state:
            return CHANCE
        if len(state) > self.max_turns or self.position(state).is_over:
            return TERMINAL
        return self.position(state).player

    def chance_outcomes(self, state: State) -> Sequence[tuple[int | str, float]]:
        return [(seed, 1 / NUM_SEEDS) for seed in range(NUM_SEEDS)] if not state else ()

    def legal_actions(self, state: State) -> Sequence[int | str]:
        if self.current_player(state) < 0:
            return ()
        return list(self.position(state).listed_actions.values())

    def apply(self, state: State, action: int | str) -> State:
        return (*state, action)

    def returns(self, state: State) -> Sequence[float]:
        if not state or not self.position(state).is_over:
            return [0.0] * self.num_players
        return self.position(state).rewards()

    def information_state(self, state: State, seat: int) -> Any:
        if not state:
            return ()
        at = self.position(state)
        sent = tuple((sender, text) for sender, text, _ in at.sent(seat))
        return (sent, at.texts_by_player[seat], self.current_player(state))

    def observe(self, state: State, seat: int) -> str:
        return (
            self.position(state).observation(seat)
            if state
            else "The game has not begun."
        )

    def features(self, state: State, seat: int) -> NDArray[np.float32]:
        knowledge = repr((seat, self.information_state(state, seat)))
        digest = hashlib.sha256(knowledge.encode("utf-8", "replace")).digest()
        return np.frombuffer(digest, np.uint8).astype(np.float32) / np.float32(255)

    def action_text(self, state: State, action: int | str) -> str:
        names = {
            text: name for name, text in self.position(state).listed_actions.items()
        }
        return names.get(str(action), str(action))

    def parse(self, state: State, text: str) -> int | str:
        if self.current_player(state) < 0:
            raise IllegalAction("nobody is to move")
        return self.position(state).read(text)

    def rules(self, seat: int) -> str:
        return (
            f"This is {self.name} of TextArena for {self.num_players} players. You are "
            f"Player {seat}. The game tells its rules in its first message."
        )


class TextArenaEnv(Env):  # type: ignore[misc]  # TextArena is not annotated
    """All seats of a game, as TextArena plays them.

    - Observation: TextArena's messages. The rules are the player's prompt; each turn sends a
      board, which is the text of the state with the legal actions. `textarena.make` adds the
      wrapper that shows the prompt and the latest board.
    - Action: a reply with the action in `[...]`.
    - An invalid reply changes nothing: the player reads the reason and replies again. Beyond
      `error_allowance` in one turn, the player forfeits (`GameEnv.forfeit`): with three or more
      seats, it plays the default action, and the game goes on.
    - Rewards of `close()`: the return of each player.

    Args:
        game: id of a game, or the rules.
        error_allowance: how often a player may reply again after an invalid reply.
        **params: parameters for `arena_envs.make`; with rules, arguments of `GameEnv`.

    Raises:
        ValueError: as for `SeatSession`.
    """

    def __init__(
        self, game: str | AnyGame, error_allowance: int = 1, **params: Any
    ) -> None:
        prompt = {"on_invalid": "retry", "max_retries": error_allowance}
        prompt["reply_format"] = "bracket"
        self.session = SeatSession(game, "all", (), prompt=prompt, **params)
        self._error_allowance = error_allowance

    def reset(self, num_players: int | None = None, seed: int | None = None) -> None:
        """Starts an episode; `num_players` is checked, since the game fixes it."""
        num = self.session.game.num_players
        if num_players not in (None, num):
            raise ValueError(f"want num_players={num}, got {num_players!r}")
        self.session.reset(seed)
        # without the seed, which would seed Python's global generator
        self.state = ta.MinimalMultiPlayerState(
            num, error_allowance=self._error_allowance
        )
        self.state.reset(game_state={}, player_prompt_function=self._prompt)
        self._show()

    def step(self, action: str) -> tuple[bool, dict[str, Any]]:
        *_, info = self.session.step(action)
        if info["invalid"] is not None:
            self.state.set_invalid_move(info["invalid"])
        self._show()
        return self.state.step(rotate_player=False)  # type: ignore[no-any-return]

    def _prompt(self, player_id: int, game_state: Any) -> str:
        return self.session.prompt(player_id)[0]["content"]

    def _show(self) -> None:
        """Sends boards: to the player to move; at the end, to all."""
        session, board = self.session, ta.ObservationType.GAME_BOARD
        seats = range(session.game.num_players) if session.done else [session.seat]
        for seat in seats:
            user_texts = [
                m["content"] for m in session.prompt(seat) if m["role"] == "user"
            ]
            text = (
                user_texts[0]
                if len(user_texts) == 1
                else f"{user_texts[0]}\n{user_texts[-1]}"
            )
            self.state.add_observation(text, board, to_id=seat)
        if not session.done:
            # TextArena keeps a player who made an invalid move, also after a default action
            is_new = len(user_texts) == 1
            self.state.manually_set_current_player_id(session.seat, force=is_new)
            return
        loser = session.environment.env.forfeited_by
        reason = "The game is over." if loser is None else f"Player {loser} forfeited."
        self.state.set_game_outcome(dict(enumerate(session.returns)), reason)


to_textarena = TextArenaEnv


for _info in arena_envs.game_infos():
    register_with_versions(
        f"arena/{_info.id}",
        to_textarena,
        {
            "default": [GameBoardObservationWrapper],
            "-train": [GameBoardObservationWrapper, ActionFormattingWrapper],
        },
        game=_info.id,
    )
