"""OpenSpiel: our games there (`to_openspiel`), its games here (`from_openspiel`)."""

import importlib
import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
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
    Information,
    Kind,
    Pays,
    possible_outcomes,
    random_states,
)
from arena_wrappers.adapters import UnsupportedGame, check_version

check_version("open_spiel", "openspiel", "1.6", "3")

import pyspiel  # noqa: E402  # after the check

MAX_STATES = 10_000  # remembered at a time
MAX_TOLD = 150  # states of a game whose tree the rules tell
MAX_TREE = 20_000  # states of a game of a file
FILE_GAMES = ("efg_game", "nfg_game")
# its strings tell all seats the information set of the one to move
FILE_GAME = "efg_game"

State = tuple[int, ...]  # all actions and chance outcomes so far


@lru_cache(64)
def loaded(name: str) -> Any:
    """OpenSpiel's game; simultaneous choices are made turn-based.

    Raises:
        UnsupportedGame: OpenSpiel cannot load it.
    """
    if (
        kind := name.partition("(")[0]
    ) in FILE_GAMES:  # else one of them ends the process
        file = re.search(r"[(,]\s*filename=([^,)]*)", name)
        if file is None or not Path(file[1]).is_file():
            raise UnsupportedGame(
                f"want the file of the game, as in {kind}(filename=PATH), got {name!r}; name a "
                "file that exists"
            )
    if "python_" in name:  # registered by the import
        importlib.import_module("open_spiel.python.games")
    try:
        game = pyspiel.load_game(name)
        if game.get_type().dynamics == pyspiel.GameType.Dynamics.SIMULTANEOUS:
            game = pyspiel.convert_to_turn_based(game)
    except pyspiel.SpielError as error:
        reason = str(error).splitlines()[0][:200]
        raise UnsupportedGame(f"OpenSpiel cannot load {name!r}: {reason}") from error
    return game


@lru_cache(MAX_STATES)
def spiel_state(name: str, state: State) -> Any:
    """OpenSpiel's state after these actions; callers must not change it."""
    if not state:
        return loaded(name).new_initial_state()
    # step by step, else a long game exceeds the recursion limit
    for end in range(500, len(state), 500):
        spiel_state(name, state[:end])
    return spiel_state(name, state[:-1]).child(state[-1])


@lru_cache(MAX_STATES)
def action_texts(name: str, state: State) -> dict[int, str]:
    """Texts of the legal actions; equal texts get the number of the action."""
    spiel = spiel_state(name, state)
    legal = spiel.legal_actions()
    texts = {action: one_line(spiel.action_to_string(action)) for action in legal}
    count = Counter(text.casefold() for text in texts.values())
    for action, text in texts.items():
        if not text or count[text.casefold()] > 1:
            texts[action] = f"{text} action {action}".strip()
    return texts


@lru_cache(16)
def tree_nodes(name: str, most: int) -> tuple[State, ...] | None:
    """All states in depth-first order; None if there are more than `most`."""
    nodes: list[State] = []
    waiting: list[State] = [()]
    while waiting:
        if len(nodes) == most:
            return None
        state = waiting.pop()
        nodes.append(state)
        actions = spiel_state(name, state).legal_actions()
        waiting += [(*state, int(action)) for action in reversed(actions)]
    return tuple(nodes)


@lru_cache(16)
def tree_text(name: str) -> str:
    """The tree of a small game: a line for each state, by what leads to it; empty for others.

    States with the same set number look alike to the player to move.
    """
    nodes = tree_nodes(name, MAX_TOLD)
    if nodes is None:
        return ""
    sets: dict[Any, int] = {}
    lines = [
        "The whole game: each line has what leads there, who is to move or the returns of "
        "player_0, player_1 and so on, and below it what may follow. A player cannot tell "
        "places of one set apart."
    ]
    for node in nodes:
        spiel, player = (
            spiel_state(name, node),
            spiel_state(name, node).current_player(),
        )
        if player == TERMINAL:
            description = "returns " + " ".join(
                f"{seat_return:g}" for seat_return in spiel.returns()
            )
        elif player == CHANCE:
            description = "chance"
        else:
            key = player, _set_of(spiel, player)
            description = f"player_{player}, set {sets.setdefault(key, len(sets) + 1)}"
            label = _set_label(spiel, player)
            description += f" {label}" if label else ""
        lines.append(f"{'  ' * len(node)}{_edge(name, node)}: {description}")
    return "\n".join(lines)


def _edge(name: str, node: State) -> str:
    """What leads to a state: an action, or an outcome with its probability."""
    if not node:
        return "start"
    before = spiel_state(name, node[:-1])
    if before.current_player() != CHANCE:
        return action_texts(name, node[:-1])[node[-1]]
    chance = Fraction(dict(before.chance_outcomes())[node[-1]]).limit_denominator(1000)
    return f"{one_line(before.action_to_string(node[-1]))} with probability {chance}"


def _set_of(spiel: pyspiel.State, player: int) -> str:
    """What OpenSpiel calls the information set of the player to move."""
    kind = spiel.get_game().get_type()
    if kind.provides_information_state_string:
        return str(spiel.information_state_string(player))
    return str(spiel.observation_string(player))


def _set_label(spiel: pyspiel.State, player: int) -> str:
    """The name that a file of an extensive-form game gives to an information set."""
    if spiel.get_game().get_type().short_name != FILE_GAME:
        return ""
    return one_line(_set_of(spiel, player).split("-", 3)[-1])


def ascii_lines(text: str) -> str:
    """The text in ASCII, without blanks at the ends of lines."""
    return "\n".join(
        line.rstrip() for line in text.encode("ascii", "replace").decode().splitlines()
    ).strip("\n")


def one_line(text: str) -> str:
    r"""The text on one line, without the marks that enclose actions in prompts and replies.

    >>> one_line("x(0,1)\n")
    'x 0 1'
    """
    return " ".join(re.sub(r"[<>\[\]{}(),]", " ", ascii_lines(text)).split())


# tests/adapters/openspiel/survey.py writes it
REFUSED = Path(__file__).parent / "surveys" / "openspiel_refused.json"
MAX_VISITED = 2_000  # nodes that `resample` looks at


def from_openspiel(name: str) -> "OpenSpielGame":
    """One of OpenSpiel's games, by its name.

    Args:
        name: as for `pyspiel.load_game`, such as `"kuhn_poker(players=3)"`.

    Raises:
        UnsupportedGame: there is no such game, it lacks what a game needs here, or it fails
            the conformance kit (`docs/openspiel.md`). `OpenSpielGame(name)` makes a game
            that fails.

    >>> game = from_openspiel("tic_tac_toe")
    >>> game.action_text(game.initial_state(), 4)
    'x 1 1'
    """
    refused = json.loads(REFUSED.read_text(encoding="utf-8"))
    if reason := refused.get(name.partition("(")[0]):
        raise _unsupported(name, f"{reason}; OpenSpielGame({name!r}) makes it anyway")
    return supported(name)


def supported(name: str) -> "OpenSpielGame":
    """The game, if it has all that a game needs here; ignores the conformance kit."""
    game = OpenSpielGame(name)
    if reason := _lack_of(loaded(name).get_type(), game):
        raise _unsupported(name, reason)
    return game


def _unsupported(name: str, reason: str) -> UnsupportedGame:
    return UnsupportedGame(f"OpenSpiel's {name!r} cannot be played here: {reason}")


def _lack_of(kind: pyspiel.GameType, game: "OpenSpielGame") -> str | None:
    """The first part that a game needs here and lacks; None if it has all."""
    if kind.chance_mode == pyspiel.GameType.ChanceMode.SAMPLED_STOCHASTIC:
        return "its chance outcomes are not listed"
    if kind.dynamics != pyspiel.GameType.Dynamics.SEQUENTIAL:
        return f"its dynamics are {kind.dynamics.name}, not SEQUENTIAL"
    if game.information == "imperfect" and not kind.provides_information_state_string:
        return "it has no information state string"
    if not (kind.provides_observation_string or kind.provides_information_state_string):
        return "it has no observation string"
    if not (kind.provides_observation_tensor or kind.provides_information_state_tensor):
        return "it has no tensor"
    if not np.isfinite([game.min_return, game.max_return]).all():
        return "its returns have no bounds"
    return None


@dataclass(frozen=True)
class OpenSpielGame(BaseGame[State, int]):
    """One of OpenSpiel's games. A state is the tuple of all actions so far.

    Simultaneous choices are made one seat after another. Text and features are OpenSpiel's
    information state, which has perfect recall, in games of imperfect information, and its
    observation in games of perfect information; where one is missing, the other.

    Args:
        name: as for `pyspiel.load_game`.

    Raises:
        UnsupportedGame: OpenSpiel cannot load it.
    """

    name: str

    first_state = ()

    def __post_init__(self) -> None:
        loaded(self.name)

    @property
    def num_players(self) -> int:
        return int(loaded(self.name).num_players())

    @property
    def num_actions(self) -> int:
        return int(loaded(self.name).num_distinct_actions())

    @property
    def kind(self) -> Kind:  # type: ignore[override]  # settable in BaseGame
        utility = loaded(self.name).get_type().utility
        if utility == pyspiel.GameType.Utility.IDENTICAL or self.num_players == 1:
            return "cooperative"
        sums = pyspiel.GameType.Utility.ZERO_SUM, pyspiel.GameType.Utility.CONSTANT_SUM
        return "competitive" if utility in sums else "mixed"

    @property
    def information(self) -> Information:  # type: ignore[override]  # settable in BaseGame
        kind = loaded(self.name).get_type().information
        perfect = pyspiel.GameType.Information.PERFECT_INFORMATION
        return "perfect" if kind == perfect else "imperfect"

    @property
    def zero_sum(self) -> bool:  # type: ignore[override]  # a constant in BaseGame
        utility = loaded(self.name).get_type().utility
        is_zero = utility == pyspiel.GameType.Utility.ZERO_SUM
        return bool(is_zero and self.kind == "competitive")

    @property
    def pays(self) -> Pays:
        model = loaded(self.name).get_type().reward_model
        return "end" if model == pyspiel.GameType.RewardModel.TERMINAL else "on_the_way"

    @property
    def min_return(self) -> float:
        return float(loaded(self.name).min_utility())

    @property
    def max_return(self) -> float:
        return float(loaded(self.name).max_utility())

    @property
    def max_turns(self) -> int:
        return int(loaded(self.name).max_game_length())

    def current_player(self, state: State) -> int:
        return int(spiel_state(self.name, state).current_player())

    def chance_outcomes(self, state: State) -> Sequence[tuple[int, float]]:
        if self.current_player(state) != CHANCE:
            return ()
        outcomes = spiel_state(self.name, state).chance_outcomes()
        return [(int(outcome), float(p)) for outcome, p in outcomes if p > 0]

    def legal_actions(self, state: State) -> Sequence[int]:
        if self.current_player(state) < 0:
            return ()
        return [int(action) for action in spiel_state(self.name, state).legal_actions()]

    def apply(self, state: State, action: int) -> State:
        return (*state, int(action))

    def returns(self, state: State) -> Sequence[float]:
        return [
            float(seat_return)
            for seat_return in spiel_state(self.name, state).returns()
        ]

    def information_state(self, state: State, seat: int) -> Any:
        if self._is_of_a_file:
            return self._visits(state, seat), self._end(state, seat)
        if self.information == "perfect":
            return state
        return spiel_state(self.name, state).information_state_string(seat)

    @cached_property
    def _is_of_a_file(self) -> bool:
        return str(loaded(self.name).get_type().short_name) == FILE_GAME

    @cached_property
    def _sets(self) -> dict[str, int]:
        """The information sets of a game of a file, by what OpenSpiel calls them.

        Raises:
            UnsupportedGame: the tree is too large.
        """
        nodes = tree_nodes(self.name, MAX_TREE)
        if nodes is None:
            raise _unsupported(self.name, f"its tree has more than {MAX_TREE:,} states")
        states = [spiel_state(self.name, node) for node in nodes]
        keys = [
            _set_of(s, s.current_player()) for s in states if s.current_player() >= 0
        ]
        return {key: number for number, key in enumerate(dict.fromkeys(keys))}

    def _visits(self, state: State, seat: int) -> tuple[tuple[str, str], ...]:
        """The sets of a seat so far, each with the text of its action; none yet at its turn."""
        visits = []
        for end in range(len(state) + 1):
            spiel = spiel_state(self.name, state[:end])
            if spiel.current_player() == seat:
                texts = action_texts(self.name, state[:end])
                action = texts[state[end]] if end < len(state) else ""
                visits.append((_set_of(spiel, seat), action))
        return tuple(visits)

    def _end(self, state: State, seat: int) -> float | None:
        """The return of a seat at the end, which it learns."""
        is_over = self.current_player(state) == TERMINAL
        return self.returns(state)[seat] if is_over else None

    def _history_text(self, state: State, seat: int) -> str:
        """What a seat has done, and what it knows of its place, in a game of a file."""
        lines = []
        for key, action in self._visits(state, seat):
            place = one_line(key.split("-", 3)[-1]) or f"set {self._sets[key] + 1}"
            lines.append(
                f"At {place} you chose {action}." if action else f"Now: {place}."
            )
        seat_return = self._end(state, seat)
        return "\n".join(
            [
                *lines,
                *([] if seat_return is None else [f"Your return: {seat_return:g}."]),
            ]
        )

    def observe(self, state: State, seat: int) -> str:
        has_history_text = self._is_of_a_file
        text = (
            self._history_text(state, seat)
            if has_history_text
            else self._information(state, seat, "string")
        )
        turn = "\nYour turn." if self.current_player(state) == seat else ""
        return f"You are player_{seat}.\n{ascii_lines(text)}".strip() + turn

    def features(self, state: State, seat: int) -> NDArray[np.float32]:
        if not self._is_of_a_file:
            return np.array(self._information(state, seat, "tensor"), np.float32)
        values = np.zeros(len(self._sets) + 1, np.float32)
        for end in range(len(state) + 1):
            spiel = spiel_state(self.name, state[:end])
            if spiel.current_player() == seat:
                number = self._sets[_set_of(spiel, seat)]
                values[number] = state[end] + 2 if end < len(state) else 1
        values[-1] = self._end(state, seat) or 0.0
        return values

    def action_text(self, state: State, action: int) -> str:
        return action_texts(self.name, state)[action]

    def rules(self, seat: int) -> str:
        kind = loaded(self.name).get_type()
        text = (
            f"The game is {one_line(kind.long_name)} as implemented in OpenSpiel, for "
            f"{self.num_players} players. You are player_{seat}. Returns lie between "
            f"{self.min_return:g} and {self.max_return:g}."
        )
        return f"{text}\n{tree_text(self.name)}".strip()

    def resample(self, state: State, seat: int, rng: random.Random) -> State:
        """A random state that gave this seat the same knowledge after each action.

        The first that a search of `MAX_VISITED` nodes finds; states are not drawn in
        proportion to their probability.

        Raises:
            UnsupportedGame: the search finds none. Returning `state` would show search bots
                what is hidden.
        """
        if self.information == "perfect":
            return state
        views = [self._view(state[:end], seat) for end in range(len(state) + 1)]
        visits = iter(range(MAX_VISITED))
        twin = next(self._alike((), views, seat, rng, visits), None)
        if twin is None:
            raise UnsupportedGame(
                f"no state of OpenSpiel's {self.name!r} that player_{seat} cannot tell from "
                f"this one was found in {MAX_VISITED} nodes; use a policy without search"
            )
        return twin

    def _alike(
        self,
        state: State,
        views: Sequence[Any],
        seat: int,
        rng: random.Random,
        visits: Iterator[int],
    ) -> Iterator[State]:
        depth = len(state)
        if self._view(state, seat) != views[depth] or next(visits, None) is None:
            return
        if depth == len(views) - 1:
            yield state
            return
        actions = [a for a, _ in self.chance_outcomes(state)]
        actions = actions or list(self.legal_actions(state))
        rng.shuffle(actions)
        for action in actions:
            yield from self._alike((*state, action), views, seat, rng, visits)

    def _view(self, state: State, seat: int) -> Any:
        """The player to move, and the information state of a seat."""
        return self.current_player(state), self.information_state(state, seat)

    def _information(self, state: State, seat: int, form: str) -> Any:
        kind, names = loaded(self.name).get_type(), ["observation", "information_state"]
        if self.information != "perfect":
            names.reverse()
        name = names[0] if getattr(kind, f"provides_{names[0]}_{form}") else names[1]
        return getattr(spiel_state(self.name, state), f"{name}_{form}")(seat)


# by short name; OpenSpiel cannot unregister a game
_registered: dict[str, AnyGame] = {}


def to_openspiel(game: str | AnyGame, **params: Any) -> Any:
    """A game as `pyspiel.Game`, registered there as `arena_NAME`.

    Players, actions, information states and returns are the same, so values and NashConv are
    equal. A chance outcome is its index among the outcomes that are possible in that state.
    Games with simultaneous choices become sequential games of imperfect information. All
    rewards are paid at the end. The observation tensor is `Game.features`, the string
    `Game.observe`.

    Args:
        game: id of a game, or the rules.
        **params: parameters of the game, with an id.

    Raises:
        ValueError: a language game, whose actions have no numbers; or as for `make_game`.

    >>> kuhn = to_openspiel("kuhn_poker")
    >>> kuhn.new_initial_state().chance_outcomes()[0]
    (0, 0.3333333333333333)
    """
    if isinstance(game, str):
        game = arena_envs.make_game(game, **params)
    if game.num_actions is None:
        raise ValueError(
            f"want a game with numbered actions, got the language game {game!r:.80}"
        )
    name = _short_name(game)
    if name not in _registered:
        _registered[name] = game
        kind = _type_of(game, name)
        pyspiel.register_game(kind, _game_class(game, kind, _info_of(game)))
    return pyspiel.load_game(name)


def _short_name(game: AnyGame) -> str:
    """The name of a game in OpenSpiel; payoffs of 1 and -1 would give the same letters."""
    name = "arena_" + re.sub(r"\W+", "_", repr(game)).strip("_").lower()
    while _registered.get(name, game) != game:
        name += "_other"
    return name


def _type_of(game: AnyGame, name: str) -> Any:
    kind = pyspiel.GameType
    hides = game.information == "imperfect" or game.simultaneous
    information, utility, mode = kind.Information, kind.Utility, kind.ChanceMode
    sums = utility.IDENTICAL if game.kind == "cooperative" else utility.GENERAL_SUM
    has_chance = game.max_chance_nodes != 0
    return kind(
        short_name=name,
        long_name=repr(game),
        dynamics=kind.Dynamics.SEQUENTIAL,
        chance_mode=mode.EXPLICIT_STOCHASTIC if has_chance else mode.DETERMINISTIC,
        information=information.IMPERFECT_INFORMATION
        if hides
        else information.PERFECT_INFORMATION,
        utility=utility.ZERO_SUM if game.zero_sum else sums,
        reward_model=kind.RewardModel.TERMINAL,
        max_num_players=game.num_players,
        min_num_players=game.num_players,
        provides_information_state_string=True,
        provides_information_state_tensor=False,
        provides_observation_string=True,
        provides_observation_tensor=True,
        provides_factored_observation_string=False,
    )


def _info_of(game: AnyGame) -> Any:
    return pyspiel.GameInfo(
        num_distinct_actions=game.num_actions,
        max_chance_outcomes=_most_outcomes(game),
        num_players=game.num_players,
        min_utility=float(game.min_return),
        max_utility=float(game.max_return),
        utility_sum=0.0 if game.zero_sum else None,
        max_game_length=game.max_turns,
    )


def _most_outcomes(game: AnyGame) -> int:
    """The largest number of outcomes at the chance nodes of 20 random episodes."""
    if game.max_chance_nodes == 0:
        return 0
    rng = random.Random(0)
    return max(
        len(possible_outcomes(game, state))
        for _ in range(20)
        for state, player in random_states(game, rng)
        if player == CHANCE
    )


class _State(pyspiel.State):  # type: ignore[misc]  # not annotated
    """A state of any game; `state` is ours."""

    state: Any

    def is_terminal(self) -> bool:
        return bool(self.current_player() == TERMINAL)

    def __str__(self) -> str:
        return repr(self.state)


def _state_class(game: AnyGame) -> Any:
    """The class of a game's states, as `pyspiel.Game` makes them."""

    class State(_State):
        def __init__(self, spiel: pyspiel.Game) -> None:
            super().__init__(spiel)
            self.state = game.initial_state()

        def current_player(self) -> int:
            return game.current_player(self.state)

        def _legal_actions(self, player: int) -> list[int]:
            return list(game.legal_actions(self.state))

        def chance_outcomes(self) -> list[tuple[int, float]]:
            chances = [chance for _, chance in possible_outcomes(game, self.state)]
            return list(enumerate(chances))

        def _apply_action(self, action: int) -> None:
            if game.current_player(self.state) == CHANCE:
                action = possible_outcomes(game, self.state)[action][0]
            self.state = game.apply(self.state, action)

        def _action_to_string(self, player: int, action: int) -> str:
            if player == CHANCE:
                return str(possible_outcomes(game, self.state)[action][0])
            return game.action_text(self.state, action)

        def returns(self) -> list[float]:
            if not self.is_terminal():
                return [0.0] * game.num_players
            return [float(seat_return) for seat_return in game.returns(self.state)]

        def information_state_string(self, player: int | None = None) -> str:
            player = self.current_player() if player is None else player
            return repr(game.information_state(self.state, player))

    return State


def _game_class(game: AnyGame, kind: pyspiel.GameType, facts: pyspiel.GameInfo) -> Any:
    """A class of games, as `pyspiel.register_game` takes it."""
    state_class = _state_class(game)

    class Spiel(pyspiel.Game):  # type: ignore[misc]  # not annotated
        def __init__(self, params: Any = None) -> None:
            super().__init__(kind, facts, params or {})

        def new_initial_state(self) -> Any:
            return state_class(self)

        def make_py_observer(self, iig_obs_type: Any = None, params: Any = None) -> Any:
            return _Observer(game)

    return Spiel


class _Observer:
    """An observer of OpenSpiel: `tensor`, `dict`, `set_from`, `string_from`."""

    def __init__(self, game: AnyGame) -> None:
        self._game = game
        self.tensor = np.array(game.features(game.initial_state(), 0), np.float32)
        self.dict = {"features": self.tensor}

    def set_from(self, state: _State, player: int) -> None:
        self.tensor[:] = self._game.features(state.state, player)

    def string_from(self, state: _State, player: int) -> str:
        return self._game.observe(state.state, player)
