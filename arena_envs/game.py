"""The rules of a game: pure functions of an immutable state.

Everything else in this project (environments, prompts, solvers, training) is built on
the methods of `Game`. A game is a frozen dataclass of its parameters; a state is any
immutable, hashable value. Chance is explicit, so every small game can be solved exactly
and every game can be replayed from its list of actions.

Write a game by inheriting from `BaseGame`, which carries the defaults.
"""

import math
import random
import sys
import tomllib
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import Field, field, fields, replace
from functools import cache, cached_property, lru_cache
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Literal,
    Protocol,
    TypeVar,
    get_args,
    get_origin,
)
from zlib import crc32

if TYPE_CHECKING:
    import numpy
    from numpy.typing import ArrayLike as ArrayLike

    np = numpy
    Floats = np.typing.NDArray[np.float64]
    Ints = np.typing.NDArray[np.intp]
    Mask = np.typing.NDArray[np.int8]
    Vector = np.typing.NDArray[np.float32]
else:

    class _Numpy:
        """numpy, imported when it is first used: only features, masks and solvers need it."""

        def __getattr__(self, name: str) -> Any:
            attribute = getattr(import_module("numpy"), name)
            setattr(self, name, attribute)  # asked once
            return attribute

    np = _Numpy()
    ArrayLike = Floats = Ints = Mask = Vector = Any

CHANCE, TERMINAL = -1, -4  # values of `current_player`, the same as OpenSpiel's
MAX_ENUMERATED = 20_000  # states of a game that the default of `resample` lists
MAX_TEXT = 20_000  # characters of an observation's text or of an utterance

Kind = Literal["competitive", "cooperative", "mixed"]
Information = Literal["perfect", "imperfect"]
Pays = Literal["end", "on_the_way"]
InfosetKey = tuple[int, Hashable]  # seat, its information state
SPLITS = ("train", "test")  # of instances, see `Game.instances`

S = TypeVar("S", bound=Hashable)
A = TypeVar("A", bound=Hashable)
T = TypeVar("T")


class IllegalAction(ValueError):
    """An action, or the text of one, that the rules do not allow now."""


class ExtensiveForm(Protocol[S, A]):
    """The tree of a game: states, actions, chance, payments and what each seat knows.

    It is all that exact computations need.
    """

    @property
    def num_players(self) -> int:
        """Number of seats."""

    @property
    def teams(self) -> Sequence[int]:
        """Team of each seat; one in cooperative games, all different without teams."""

    def initial_state(self) -> S:
        """The state before anything has happened."""

    def current_player(self, state: S) -> int:
        """The seat to move, `CHANCE` or `TERMINAL`."""

    def chance_outcomes(self, state: S) -> Sequence[tuple[A, float]]:
        """Outcomes of a chance node with their probabilities, which sum to 1.

        An outcome is an int, a float or a str, so that records can hold it.
        """

    def legal_actions(self, state: S) -> Sequence[A]:
        """Actions of the seat to move, ascending; empty at the end and at chance nodes.

        In language games: a finite core of utterances, enough to play the game.
        """

    def apply(self, state: S, action: A) -> S:
        """The state after a legal action or a possible chance outcome."""

    def returns(self, state: S) -> Sequence[float]:
        """Return of each seat so far; a reward is the difference between two states."""

    def information_state(self, state: S, seat: int) -> Hashable:
        """Key of all that this seat knows, with perfect recall.

        A perfect-information game may use the position.
        """


class Game(ExtensiveForm[S, A], Protocol[S, A]):
    """The methods and facts that make an object playable here.

    Actions are the integers `0 .. num_actions - 1`, the same for every seat. In language
    games `num_actions` is None and an action is an immutable utterance. If not all seats
    read its message, an utterance has an attribute `audience`: the seats that read it. The
    message changes nothing that other seats know or are shown. No legal action has the words
    of a message.
    """

    @property
    def num_actions(self) -> int | None:
        """Number of distinct actions, or None in language games."""

    @property
    def kind(self) -> Kind:
        """Whether the interests of the seats are opposed, shared or mixed."""

    @property
    def information(self) -> Information:
        """Whether every seat sees the whole state.

        Then each state has its own information state.
        """

    @property
    def simultaneous(self) -> bool:
        """Whether seats choose at the same time.

        Then every seat chooses once in each round, in ascending order. Until the round is
        over, the choices of others affect neither a seat's legal actions nor what it sees,
        and no seat is paid.
        """

    @property
    def zero_sum(self) -> bool:
        """Whether the returns of all seats sum to zero (forfeits apart)."""

    @property
    def min_return(self) -> float:
        """Lowest possible return of a seat at the end."""

    @property
    def max_return(self) -> float:
        """Highest possible return of a seat at the end."""

    @property
    def max_turns(self) -> int:
        """Largest possible number of turns of an episode, all seats together."""

    @property
    def max_chance_nodes(self) -> int | None:
        """Largest possible number of chance nodes of an episode; None if it is unknown."""

    def observe(self, state: S, seat: int) -> str:
        """All that this seat needs to know, as text that a person can read.

        ASCII, but for words that a player wrote in a language game: what another seat wrote
        is shown by `arena_envs.hostile.quoted`, or at least passes `break_markup`.
        """

    def features(self, state: S, seat: int) -> Vector:
        """float32[k], the knowledge of `observe` as numbers; k is constant.

        At the seat's turn, they tell apart what the text tells apart.
        """

    def action_text(self, state: S, action: A) -> str:
        """Canonical text of an action of the seat to move.

        One line of ASCII without brackets, braces and commas, which stand around the
        actions in prompts and replies.
        """

    def parse(self, state: S, text: str) -> A:
        """The legal action that a text names.

        Raises:
            IllegalAction: it names none or several; no text raises anything else.
        """

    def rules(self, seat: int) -> str:
        """The rules, as this seat reads them before the first turn."""

    def resample(self, state: S, seat: int, rng: random.Random) -> S:
        """A random state among those that this seat cannot tell from `state`."""

    def shown_actions(self, state: S) -> Sequence[A]:
        """The legal actions that a prompt may list; the player must think of all others."""

    def forfeit(self, state: S, seat: int) -> Sequence[float]:
        """Returns of all seats if this seat breaks the rules now, in games of one or two seats.

        The team of the seat gains nothing by it, the others lose nothing that they have, and
        the sum of a zero-sum game stays 0.
        """

    def default_action(self, state: S) -> A:
        """The legal action that a bad reply becomes, in games of three or more seats.

        It depends only on what the seat to move knows. `penalized` says what it costs.
        """

    def measures(self, state: S) -> Mapping[str, float]:
        """Further numbers about an episode, from its last state, such as efficiency.

        Finite numbers; the same names in every state; empty without any.
        """

    @property
    def pays(self) -> Pays:
        """The time of payments: `"end"` if all returns are 0 until the last state.

        It decides which credit fits the game (`arena credit suggest`).
        """

    @property
    def measure_bounds(self) -> Mapping[str, tuple[float, float]]:
        """Lowest and highest possible value of measures, by name, if they are known."""

    @property
    def known_value(self) -> str | None:
        """A known result for these parameters, such as the value; None if there is none."""

    @property
    def knobs(self) -> Mapping[str, tuple[Any, ...]]:
        """Values of parameters from easy to hard, by parameter; empty if there are none.

        Every value builds the game, with all other parameters as they are. For teams and
        single seats, the mean return of random play falls from one value to the next, as a
        share of the range of returns.
        """

    @property
    def instances(self) -> Sequence[Hashable]:
        """The outcomes of chance: maps, words, levels or values; empty if nothing is held out.

        Some hundreds of them if there are many.
        A game with instances has a parameter `split`: `"train"`, the default, and `"test"`
        have none in common.
        """

    @property
    def heuristic(self) -> str | None:
        """The string of a bot that plays this game well, such as `"mcts:100"`, or None.

        Evaluations use it as the baseline of the game.
        """

    @property
    def scene(self) -> str | None:
        """`"module:function"` that draws states, see `arena_envs.scenes`.

        None shows the texts of `observe`.
        """


AnyExtensiveForm = ExtensiveForm[Any, Any]
AnyGame = Game[Any, Any]
AnyState = Hashable  # a state of any game
AnyAction = Hashable  # an action, or an outcome of chance, of any game


ParamLimit = float | Callable[[Any], float]  # of a parameter, or a function of the game


def param(
    default: Any,
    low: ParamLimit = -math.inf,
    high: ParamLimit = math.inf,
    *,
    knob: Sequence[Hashable] = (),
) -> Any:
    """A parameter of a game: an int or a float from `low` to `high`, as it is annotated.

    A limit that depends on other parameters is a function of the game. See `Game.knobs` for `knob`.
    """
    return field(default=default, metadata={"limits": (low, high), "knob": knob})


class BaseGame(Generic[S, A]):
    """Defaults for the methods of `Game` that most games share."""

    simultaneous = False
    zero_sum = False
    information: Information = "imperfect"
    default_value: ClassVar[str | None] = None  # `known_value` by default parameters
    pays_rounds: ClassVar[bool] = False  # whether each of several `num_rounds` pays
    shares_measured: ClassVar[Sequence[str]] = ()  # names of measures from 0 to 1
    verbs: ClassVar[Sequence[str]] = ()  # that a text may have before an action
    seat_roles: ClassVar[Sequence[str]] = ()  # what each seat is, such as "seller"
    seat_tones: ClassVar[Sequence[str]] = ()  # colors of seats other than `seat_tone`

    def __post_init__(self) -> None:
        """Checks the parameters by their annotations and limits, see `param`; lists become tuples.

        Raises:
            ValueError: a parameter is no bool, none of the values of a `Literal`, or out of range.
        """
        for parameter in fields(self):  # type: ignore[arg-type] # games are dataclasses
            object.__setattr__(
                self, parameter.name, as_tuples(getattr(self, parameter.name))
            )
        # limits that are functions last: they rely on other parameters
        for parameter in sorted(
            fields(self),  # type: ignore[arg-type] # games are dataclasses
            key=lambda parameter: any(
                map(callable, parameter.metadata.get("limits", ()))
            ),
        ):
            self._check_parameter(parameter)

    def _check_parameter(self, parameter: Field[Any]) -> None:
        """Checks one parameter by its annotation, and by its limits if it has some."""
        name, value = parameter.name, getattr(self, parameter.name)
        limits = parameter.metadata.get("limits")
        is_left_out = value is None and parameter.default is None
        if parameter.type in (bool, "bool"):
            check_bool(name, value)
        elif get_origin(parameter.type) is Literal:
            choices = get_args(parameter.type)
            if value not in choices:
                raise ValueError(
                    f"want {name} among {', '.join(choices)}, got {value!r:.80}"
                )
        elif limits and not is_left_out:
            low, high = (limit(self) if callable(limit) else limit for limit in limits)
            is_float = parameter.type in (float, "float")
            check = check_number if is_float else check_int
            check(name, value, low, high)

    first_state: S
    kind: ClassVar[Kind]

    @property
    def max_chance_nodes(self) -> int | None:
        return None

    def initial_state(self) -> S:
        """`first_state`, which suits a state that parameters do not change."""
        return self.first_state

    @property
    def teams(self: Game[S, A]) -> Sequence[int]:
        """One in cooperative games; else each seat is its own."""
        num = self.num_players
        return (0,) * num if self.kind == "cooperative" else range(num)

    def chance_outcomes(self, state: S) -> Sequence[tuple[A, float]]:
        """No outcomes, which is right without chance."""
        return ()

    def information_state(self: Game[S, A], state: S, seat: int) -> Hashable:
        """`state` itself, which is right where information is perfect."""
        if self.information != "perfect":
            raise NotImplementedError(
                f"{self!r} lacks `information_state`, which a game that hides information "
                "needs. Write it: a key of all that the seat knows, its own actions too."
            )
        return state

    def parse(self: Game[S, A], state: S, text: str) -> A:
        """Reads canonical texts, whatever their case and white space, also after `verbs`."""
        folded = fold(text)
        for verb in getattr(self, "verbs", ()):
            folded = folded.removeprefix(f"{verb} ")
        legal = {fold(self.action_text(state, a)): a for a in self.legal_actions(state)}
        if folded not in legal:
            raise IllegalAction(f"want one of {list(legal)}, got {text[:80]!r}")
        return legal[folded]

    def resample(self: Game[S, A], state: S, seat: int, rng: random.Random) -> S:
        """A draw by enumeration; `state` itself where information is perfect.

        States are drawn by the probability of the chance outcomes that lead there.

        Raises:
            NotImplementedError: the game hides information and has more than
                `MAX_ENUMERATED` states, or `state` is reached by words outside the core.
        """
        if self.information == "perfect":
            return state
        key = (self.current_player(state), seat, self.information_state(state, seat))
        if key not in (by_view := _alike(self)):  # type: ignore[arg-type] # games hash
            raise NotImplementedError(
                f"{self!r} lacks `resample`, which a game that hides information needs, unless "
                f"all its states can be enumerated (up to {MAX_ENUMERATED:,}). Write it: a "
                "random state among those that the seat cannot tell from this one."
            )
        states, weights = by_view[key]
        alike: S = rng.choices(states, weights)[0]
        return alike

    def shown_actions(self: Game[S, A], state: S) -> Sequence[A]:
        """All legal actions, which is right where their list gives nothing away."""
        return self.legal_actions(state)

    def forfeit(self: Game[S, A], state: S, seat: int) -> Sequence[float]:
        """The offender's team falls to `min_return`.

        In a zero-sum game the others get what it loses; else they keep what they have.
        """
        returns = self.returns(state)
        if self.zero_sum:
            returns = (-self.min_return,) * self.num_players
        pairs = zip(self.teams, returns, strict=True)
        losing_team = self.teams[seat]
        return [
            self.min_return if team == losing_team else team_return
            for team, team_return in pairs
        ]

    def default_action(self: Game[S, A], state: S) -> A:
        """The first legal action."""
        return self.legal_actions(state)[0]

    def measures(self, state: S) -> Mapping[str, float]:
        return {}

    @property
    def pays(self: Any) -> Pays:
        return "on_the_way" if self.pays_rounds and self.num_rounds > 1 else "end"

    @property
    def measure_bounds(self) -> Mapping[str, tuple[float, float]]:
        return dict.fromkeys(self.shares_measured, (0.0, 1.0))

    @property
    def known_value(self) -> str | None:
        value = self.default_value
        return value if value and self == type(self)() else None

    @property
    def knobs(self) -> Mapping[str, tuple[Any, ...]]:
        """The knobs of the parameters, see `param`, as far as they build this game."""
        params = getattr(self, "__dataclass_fields__", {}).items()
        knob_values = {
            name: tuple(
                value
                for value in parameter.metadata["knob"]
                if _fits(self, name, value)
            )
            for name, parameter in params
            if "knob" in parameter.metadata
        }
        return {name: values for name, values in knob_values.items() if values}

    @property
    def instances(self) -> Sequence[Hashable]:
        return ()

    @property
    def heuristic(self) -> str | None:
        return None

    @property
    def scene(self) -> str | None:
        """The function `scene` of the module of the game, if there is one."""
        for module in (cls.__module__ for cls in type(self).__mro__):
            if callable(getattr(sys.modules.get(module), "scene", None)):
                return f"{module}:scene"
        return None


def _fits(game: Any, name: str, value: Any) -> bool:
    try:
        replace(game, **{name: value})
    except ValueError:
        return False
    return True


@lru_cache(4)
def _alike(game: Any) -> dict[Any, tuple[list[Any], list[float]]]:
    """States and their weights by seat to move, seat and information state; empty for large games."""
    by_view: dict[Any, dict[Any, float]] = {}
    layer, num = {game.initial_state(): 1.0}, 0
    while layer:
        after: dict[Any, float] = {}
        for state, weight in layer.items():
            player = game.current_player(state)
            for seat in range(game.num_players):
                key = (player, seat, game.information_state(state, seat))
                weights = by_view.setdefault(key, {})
                weights[state] = weights.get(state, 0.0) + weight
            chances = dict(game.chance_outcomes(state)) if player == CHANCE else {}
            for action in possible_actions(game, state):
                next_state = game.apply(state, action)
                after[next_state] = after.get(next_state, 0.0) + weight * chances.get(
                    action, 1.0
                )
        layer, num = after, num + len(layer)
        if num + len(layer) > MAX_ENUMERATED:
            return {}
    return {key: (list(w), list(w.values())) for key, w in by_view.items()}


def fold(text: str) -> str:
    r"""`text` in lower case, with runs of white space as one blank.

    >>> fold("  Reveal\n rank 1 ")
    'reveal rank 1'
    """
    return " ".join(text.split()).casefold()


def legal_actions_of(game: Game[S, A], state: S, seat: int) -> Sequence[A]:
    """Legal actions of a seat that may choose now, else none.

    A seat may choose at its turn. In a simultaneous game, it may choose from the start of
    the round until it has chosen.
    """
    player = game.current_player(state)
    if game.simultaneous:
        # the choices of other seats do not affect this seat's legal actions
        while 0 <= player < seat:
            state = game.apply(state, game.legal_actions(state)[0])
            player = game.current_player(state)
    return game.legal_actions(state) if player == seat else ()


def penalized(
    game: AnyGame, returns: Sequence[float], num_bad: Sequence[int]
) -> tuple[float, ...]:
    """Returns less the penalties for bad replies, in a game of three or more seats.

    A team with n bad replies pays n / (n + 9) of the range from `min_return` to
    `max_return` for each member, so the first costs a tenth, and every further one something.
    In a zero-sum game the other seats get equal shares of it.
    """
    net_returns, spread = list(returns), game.max_return - game.min_return
    for team in {game.teams[seat] for seat, n in enumerate(num_bad) if n}:
        team_seats = [
            seat for seat in range(len(net_returns)) if game.teams[seat] == team
        ]
        num = sum(num_bad[seat] for seat in team_seats)
        cost = spread * num / (num + 9)
        share = (
            cost * len(team_seats) / (len(net_returns) - len(team_seats))
            if game.zero_sum
            else 0.0
        )
        for seat in range(len(net_returns)):
            net_returns[seat] += -cost if seat in team_seats else share
    return tuple(net_returns)


def bounds_of(game: AnyGame) -> tuple[float, float]:
    """Lowest and highest possible return of a seat, `penalized` for bad replies."""
    low, high = game.min_return, game.max_return
    if game.num_players < 3:
        return low, high
    teams = [*game.teams]
    shares = {
        team: teams.count(team) / max(1, len(teams) - teams.count(team))
        for team in teams
    }
    most = sum(shares.values()) - min(shares.values()) if game.zero_sum else 0.0
    return low - (high - low), high + most * (high - low)


def check_int(name: str, value: object, low: int, high: int) -> None:
    """Raises ValueError for a parameter that is no integer from `low` to `high`."""
    if type(value) is not int or not low <= value <= high:
        raise ValueError(
            f"want an integer {name} from {low} to {high}, got {value!r:.80}"
        )


def check_number(
    name: str, value: object, low: float = -math.inf, high: float = math.inf
) -> None:
    """Raises ValueError for a parameter that is no number from `low` to `high`."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not low <= value <= high:  # type: ignore[operator] # a number
        above = "" if low == -math.inf else f" of at least {low:g}"
        bounds = above if high == math.inf else f" from {low} to {high}"
        raise ValueError(f"want a number {name}{bounds}, got {value!r:.80}")


def check_bool(name: str, value: object) -> None:
    """Raises ValueError for a parameter that is neither True nor False."""
    if type(value) is not bool:
        raise ValueError(f"want {name} True or False, got {value!r:.80}")


def of_split(instances: Iterable[T], split: str) -> tuple[T, ...]:
    """The half of some instances that a split draws from; chance has drawn it, once for all.

    Args:
        instances: distinct; equal instances in the same order give the same halves.
        split: `"train"` or `"test"`; without a second instance, there is no `"test"`.

    Raises:
        ValueError: another split, or no instance for it.

    >>> of_split(range(5), "train"), of_split(range(5), "test")
    ((2, 1, 0), (4, 3))
    """
    if split not in SPLITS:
        raise ValueError(f"want split 'train' or 'test', got {split!r:.80}")
    shuffled = list(instances)
    random.Random(0).shuffle(shuffled)
    middle = (len(shuffled) + 1) // 2
    half = tuple(shuffled[:middle] if split == "train" else shuffled[middle:])
    if not half:
        raise ValueError(
            f"want at least 2 instances for split={split!r}, got {len(shuffled)}"
        )
    return half


def split_of(instance: str) -> str:
    """The split that a generated instance belongs to, by its text: each gets about half.

    >>> [split_of(lake) for lake in ("SFFG", "SFHG", "SHFG")]
    ['train', 'test', 'test']
    """
    return SPLITS[crc32(instance.encode()) >> 8 & 1]


def check_split(split: object, is_drawn: bool) -> None:
    """Raises ValueError for an unknown split, and for `"test"` where no instance is drawn."""
    if split not in SPLITS:
        raise ValueError(f"want split 'train' or 'test', got {split!r:.80}")
    if split == "test" and not is_drawn:
        raise ValueError(
            "want split='train' where the parameters fix the instance, got 'test'; let chance "
            "draw it, as by default"
        )


def next_entries(
    instances: Sequence[tuple[T, ...]], prefix: tuple[T, ...]
) -> list[tuple[T, float]]:
    """The chance outcomes of an instance that is drawn entry by entry, all equally likely.

    Args:
        instances: all of one length.
        prefix: the entries so far.

    >>> next_entries([(0, 1), (0, 2), (3, 1), (3, 1)], (0,))
    [(1, 0.5), (2, 0.5)]
    """
    num = len(prefix)
    counts = Counter(
        instance[num] for instance in instances if instance[:num] == prefix
    )
    total = sum(counts.values())
    return [(entry, count / total) for entry, count in sorted(counts.items())]


def hidden_again(
    instances: Sequence[tuple[T, ...]],
    entries: tuple[T, ...],
    seat: int,
    rng: random.Random,
) -> tuple[T, ...]:
    """The entries drawn so far, one a seat, with those of the other seats drawn again."""
    own_entry = entries[seat : seat + 1]
    return rng.choice(
        [
            instance
            for instance in instances
            if instance[seat : seat + 1] == own_entry or not own_entry
        ]
    )[: len(entries)]


MIN_HELD_OUT = 100  # instances; fewer are all drawn, as in small games that are solved


class HoldsOut(Generic[T]):
    """A game whose instances can be listed: `split` draws from a half, if there are many.

    A subclass is a frozen dataclass with the parameter `split`, and has `all_instances`.
    """

    split: str

    @cached_property
    def all_instances(self) -> Sequence[T]:
        """The instances of both splits."""
        raise NotImplementedError

    @cached_property
    def drawn(self) -> Sequence[T]:
        """The instances that chance draws from, all equally likely."""
        everything = self.all_instances
        is_split = len(everything) >= MIN_HELD_OUT
        check_split(self.split, is_split)
        return of_split(everything, self.split) if is_split else tuple(everything)

    @property
    def instances(self) -> Sequence[Any]:
        return self.drawn if len(self.all_instances) >= MIN_HELD_OUT else ()


def as_tuples(value: Any) -> Any:
    """Lists as tuples, also inside: JSON, YAML and TOML have lists only, and games hash."""
    if isinstance(value, dict):
        return {name: as_tuples(inner) for name, inner in value.items()}
    return tuple(map(as_tuples, value)) if type(value) in (list, tuple) else value


def by_player(facts: Iterable[tuple[int, object]]) -> str:
    """What is told of seats.

    >>> by_player([(0, "bets"), (1, "folds")])
    'player_0 bets, player_1 folds'
    """
    return ", ".join([f"player_{seat} {fact}" for seat, fact in facts])


def others_again(
    choices: Sequence[int], seat: int, draw: Callable[[int], int]
) -> tuple[int, ...]:
    """Choices by seat with those of all other seats drawn again, by their seat."""
    return tuple(c if s == seat else draw(s) for s, c in enumerate(choices))


def share_of(flags: Sequence[bool], default: float = 1.0) -> float:
    """The share of True; the default if there is nothing."""
    return sum(flags) / len(flags) if flags else default


def counted(number: int, noun: str) -> str:
    """A number with its noun, which takes an s unless the number is 1.

    >>> counted(1, "card"), counted(0, "card")
    ('1 card', '0 cards')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


class _Counted(int):
    """An integer or a flag of a template."""

    def __format__(self, spec: str) -> str:
        if "|" in spec:  # the first text for 1 and True
            return spec.split("|")[self != 1].replace("#", str(int(self)))
        is_noun = len(spec) > 1 and spec[-1].isalpha() and spec[-2].isalpha()
        return counted(self, spec) if is_noun else super().__format__(spec)


class _Fields(dict[str, Any]):
    """The fields of a template: its parts, and attributes of `game`."""

    def __missing__(self, field: str) -> Any:
        name, plus, step = field.replace("-", "+-").partition("+")
        value = getattr(self["game"], name)
        return _shown(value + int(step) if plus else value)


def _shown(value: Any) -> Any:
    if isinstance(value, int):
        return _Counted(value)
    return ", ".join(map(str, value)) if isinstance(value, (tuple, list)) else value


@cache
def _templates() -> dict[str, str]:
    texts = Path(__file__).with_name("games") / "rules.toml"
    document = tomllib.loads(texts.read_text("utf-8"))
    return {name: " ".join(text.split()) for name, text in document.items()}


def filled(name: str, game: Any, /, **parts: object) -> str:
    """A text of `games/rules.toml`, whose head says what its fields are.

    Args:
        name: of the text.
        game: whose attributes fields may be.
        **parts: other fields by name.
    """
    fields = {part: _shown(value) for part, value in parts.items()}
    return _templates()[name].format_map(_Fields(fields, game=game))


def over_text(score: float) -> str:
    """A sentence: the game is over, and a seat's score.

    >>> over_text(-0.0), over_text(1 / 3)
    ('The game is over: your score is 0.', 'The game is over: your score is 0.3333.')
    """
    return f"The game is over: your score is {round(score, 4) + 0.0:.10g}."


def draw(cumulative: Sequence[float], u: float) -> int:
    """Index of the outcome that a number from 0 to 1 selects.

    The least i with u < F(i); the last one if rounding leaves all of F at or below u.

    Args:
        cumulative: F, the probabilities summed up to and including each outcome; at least
            one.
        u: uniform in [0, 1).

    >>> [draw([0.25, 1.0], u) for u in (0.0, 0.25, 0.999)]
    [0, 1, 1]
    """
    return bisect(cumulative, u, 0, len(cumulative) - 1)


def sample_chance(game: AnyGame, state: AnyState, rng: random.Random) -> Any:
    """An outcome of a chance node, drawn by its probability with one number of `rng`."""
    outcomes, chances = zip(*game.chance_outcomes(state), strict=True)
    return outcomes[draw(list(accumulate(chances)), rng.random())]


def possible_outcomes(game: AnyGame, state: AnyState) -> list[tuple[Any, float]]:
    """The outcomes of a chance node with a probability above 0, and their probabilities."""
    return [pair for pair in game.chance_outcomes(state) if pair[1] > 0]


def possible_actions(game: AnyGame, state: AnyState) -> Sequence[Any]:
    """Legal actions; at a chance node, the outcomes with a probability above 0."""
    if game.current_player(state) == CHANCE:
        return [outcome for outcome, _ in possible_outcomes(game, state)]
    return game.legal_actions(state)


def random_states(game: AnyGame, rng: random.Random) -> Iterator[tuple[Any, int]]:
    """States of an episode of uniform random play, each with the seat to move or `CHANCE`.

    The terminal state is left out. `rng` is drawn from between two states.
    """
    state = game.initial_state()
    while (player := game.current_player(state)) != TERMINAL:
        yield state, player
        if player == CHANCE:
            action = sample_chance(game, state, rng)
        else:
            action = rng.choice(game.legal_actions(state))
        state = game.apply(state, action)
