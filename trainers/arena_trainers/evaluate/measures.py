"""Measures of how a policy plays, from recorded episodes; probes of what it believes.

A measure is a function of episodes, the game and a seat:

    Measure(episodes, game, seat) -> {name: Estimate(value, low, high, num)}

| Measure | What it tells of a seat's turns |
|---|---|
| `choice_bias` | by position in the list of legal actions, how much more often it is chosen than by uniform random play |
| `action_entropy` | entropy of the action given the information set, in nats |
| `serial_dependence` | how much more often a choice repeats the seat's last one than by independence |
| `mutual_information` | between reply and information set, in nats: 0 if the policy ignores what it reads (collapse) |
| `regret` | loss of expected return by a turn's action, against an exact reference |
| `profile_accuracy` | share of turns whose action is best against that reference |
| `cost` | tokens, or characters, of replies and prompts in an episode |

`episodes` are complete (`without_lost`). Without episodes a measure gives nothing, or a ValueError
if it does not suit the game. Other distributions name theirs in the entry-point group
`arena.measures`; `check_measure` names the first promise that one breaks.

An information set is known exactly here: `Game.information_state`. An interval is that of
`mean_interval` over the jackknife's pseudo-values, an episode being one observation (Tukey 1958).
"""

import copy
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from statistics import fmean
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import numpy as np

from arena_envs.doors import Door, broken
from arena_envs.game import AnyGame
from arena_envs.solvers.enumeration import Memory
from arena_trainers.evaluate.intervals import Estimate, mean_interval
from arena_trainers.evaluate.move_values import (
    MoveSolver,
    MoveValues,
    Source,
    source_of,
)
from arena_trainers.evaluate.result_rows import token_ids
from arena_wrappers import Episode, Turn, play, turn_states
from arena_wrappers.play import game_of

T = TypeVar("T")
BLOCKS = 100  # observations of the jackknife; further episodes share one
NUM_SHUFFLES = 100
NUM_POSITIONS = 8  # of `choice_bias`


class Measure(Protocol):
    """Estimates of one seat's play."""

    def __call__(
        self, episodes: Sequence[Episode], game: AnyGame, seat: int
    ) -> Mapping[str, Estimate]:
        """The estimates by name; names begin with that of the measure."""


_HERE = "arena_trainers.evaluate.measures"
measures: Door[Any] = Door(
    "measure",
    "arena.measures",
    {
        name: f"{_HERE}:{name}"
        for name in (
            *("action_entropy", "choice_bias", "cost", "mutual_information"),
            *("profile_accuracy", "regret", "serial_dependence"),
        )
    },
    given=("episodes", "game", "seat"),
    kit=f"{_HERE}:check_measure",
)


def measure_of(spec: str) -> Measure:
    """The measure that a string of the grammar names, such as `mutual_information(of=action)`.

    Raises:
        ValueError: an unknown measure or option.
        ImportError: it cannot be imported.
    """
    one = measures.read(spec)
    maker = measures.find(one.name)
    if isinstance(maker, type):
        made: Measure = measures.make(spec)
        return made
    return lambda episodes, game, seat: measures.make(
        spec, episodes=episodes, game=game, seat=seat
    )


def measures_for(game: AnyGame, specs: Sequence[str]) -> list[Measure]:
    """The measures of a game; raises ValueError for one that does not suit it."""
    made = [*map(measure_of, specs)]
    for measure in made:
        measure([], game, 0)
    return made


def estimated(
    groups: Iterable[Sequence[T]],
    statistic: Callable[[Sequence[T]], float],
    low: float = -math.inf,
    high: float = math.inf,
) -> Estimate | None:
    """A statistic of all observations, with an interval over groups; None without observations.

    Args:
        groups: the observations of each episode, in an order that does not depend on that of
            the episodes; empty ones do not count.
        statistic: of at least one observation.
        low: its least possible value.
        high: its largest possible value.
    """
    full = [group for group in groups if group]
    if not full:
        return None
    num = min(len(full), BLOCKS)
    blocks = [list(chain.from_iterable(full[i::num])) for i in range(num)]
    value = statistic(list(chain.from_iterable(blocks)))
    rest = [value]
    if num > 1:
        rest = [
            statistic(list(chain.from_iterable(blocks[:i] + blocks[i + 1 :])))
            for i in range(num)
        ]
    middle = fmean(rest)
    pseudo = [round(value + (num - 1) * (middle - one), 12) for one in rest]
    ends = mean_interval(pseudo, min(low, *pseudo, value), max(high, *pseudo, value))
    lower, upper = max(low, min(ends[0], value)), min(high, max(ends[1], value))
    return Estimate(
        value,
        lower if math.isfinite(lower) else None,
        upper if math.isfinite(upper) else None,
        len(full),
    )


def _named(**found: Estimate | None) -> dict[str, Estimate]:
    return {name: one for name, one in found.items() if one is not None}


class _Choice(NamedTuple):
    """A turn with its state."""

    turn: Turn
    state: Any


def _turns(
    episodes: Sequence[Episode], game: AnyGame, seat: int
) -> Iterator[list[_Choice]]:
    """The seat's turns of each episode."""
    for one in sorted(episodes, key=lambda one: (one.seed, one.sample)):
        states = turn_states(one, game)
        yield [
            _Choice(turn, state)
            for turn, state in zip(one.turns, states, strict=True)
            if turn.seat == seat
        ]


def _place(game: AnyGame, choice: _Choice) -> int | None:
    """The position of the action in the list of legal ones; None if it was not chosen from it."""
    turn = choice.turn
    if turn.invalid is not None:
        return None
    text = turn.action
    if not isinstance(text, str):
        text = game.action_text(choice.state, text)
    return list(turn.legal).index(text) if text in turn.legal else None


def choice_bias(
    episodes: Sequence[Episode], game: AnyGame, seat: int
) -> dict[str, Estimate]:
    """Share of turns at each position of the list of legal actions, less that of uniform play.

        bias_p = mean over turns with K > p legal actions of 1[position = p] - 1/K

    Of positions 0 to 7, and of the last one. Prompts list actions in one order, so that a bias
    may be a merit of the action: compare with the solver. Turns with one legal action do not count.
    """
    taken: list[list[tuple[int, int]]] = [
        [
            (place, len(one.turn.legal))
            for one in turns
            if len(one.turn.legal) > 1 and (place := _place(game, one)) is not None
        ]
        for turns in _turns(episodes, game, seat)
    ]
    most = max((size for pairs in taken for _, size in pairs), default=0)

    def bias(pairs: Sequence[tuple[int, int]]) -> float:
        return fmean((place == 0) - 1 / size for place, size in pairs)

    found = {}
    for p in range(min(most, NUM_POSITIONS)):
        moved = [[(at - p, size) for at, size in e if size > p] for e in taken]
        found[f"choice_bias.{p}"] = estimated(moved, bias, -0.5, 1 - 1 / most)
    last = [[(size - 1 - at, size) for at, size in pairs] for pairs in taken]
    found["choice_bias.last"] = estimated(last, bias, -0.5, 1 - 1 / max(most, 1))
    return _named(**found)


Seen = tuple[Any, Any]  # information set, and what was chosen in it


def _sum(counts: Counter[Any]) -> float:
    """Σ c log c."""
    return math.fsum(c * math.log(c) for c in counts.values())


def _conditional_entropy(pairs: Sequence[Seen]) -> float:
    states, joint = Counter(state for state, _ in pairs), Counter(pairs)
    plug_in = (_sum(states) - _sum(joint)) / len(pairs)
    return plug_in + (len(joint) - len(states)) / (2 * len(pairs))


def _information(pairs: Sequence[Seen]) -> float:
    states, joint = Counter(state for state, _ in pairs), Counter(pairs)
    chosen, num = Counter(choice for _, choice in pairs), len(pairs)
    plug_in = math.log(num) - (_sum(states) + _sum(chosen) - _sum(joint)) / num
    return plug_in + (len(states) + len(chosen) - len(joint) - 1) / (2 * num)


def action_entropy(
    episodes: Sequence[Episode], game: AnyGame, seat: int
) -> dict[str, Estimate]:
    """Entropy of the action given the information set, in nats, by visits.

        H(A | I) = -Σ n(i, a)/N log(n(i, a)/n(i)) + (K_ia - K_i) / 2N

    N turns with a valid reply, K_ia pairs and K_i information sets that occur: the plug-in
    estimate with the correction of Miller and Madow (1955). 0 for a deterministic policy.
    Biased downwards where information sets occur once; in games of talk they all do.
    """
    seen: list[list[Seen]] = [
        [
            (game.information_state(one.state, seat), one.turn.action)
            for one in turns
            if one.turn.invalid is None
        ]
        for turns in _turns(episodes, game, seat)
    ]
    return _named(action_entropy=estimated(seen, _conditional_entropy, 0.0))


def mutual_information(
    episodes: Sequence[Episode],
    game: AnyGame,
    seat: int,
    *,
    of: Literal["reply", "action"] = "reply",
) -> dict[str, Estimate]:
    """Mutual information of reply and information set, in nats: the meter of collapse.

        I(R; I) = H(R) + H(I) - H(R, I) + (K_i + K_r - K_ir - 1) / 2N

    The plug-in estimate over the turns of the records, with the correction of Miller and Madow.
    `mutual_information.null` is its mean where replies are shuffled among all turns, with the
    central 95 % of 100 shuffles: what a policy gets that ignores its prompt. Long replies that never
    repeat measure nothing, and then both are equal: take `of=action`.

    Args:
        episodes: complete ones.
        game: the rules.
        seat: whose replies.
        of: "reply", the text without outer white space, or "action", where all invalid replies
            are one; the names then begin with `mutual_information.action`.
    """
    if of not in ("reply", "action"):
        raise ValueError(f"want of=reply or of=action, got {of!r}")
    seen: list[list[Seen]] = [
        [
            (
                game.information_state(one.state, seat),
                one.turn.reply.strip()
                if of == "reply"
                else one.turn.invalid is None and one.turn.action,
            )
            for one in turns
        ]
        for turns in _turns(episodes, game, seat)
    ]
    found = estimated(seen, _information)
    if found is None:
        return {}
    states, replies = zip(*chain.from_iterable(seen), strict=True)
    rng = np.random.default_rng(0)
    order = [rng.permutation(len(replies)) for _ in range(NUM_SHUFFLES)]
    null = [
        _information([(s, replies[i]) for s, i in zip(states, places, strict=True)])
        for places in order
    ]
    low, high = (float(end) for end in np.quantile(null, [0.025, 0.975]))
    shuffled = Estimate(fmean(null), low, high, found.num)
    name = "mutual_information" + (".action" if of == "action" else "")
    return {name: found, f"{name}.null": shuffled}


def _repeats(pairs: Sequence[tuple[Any, Any]]) -> float:
    num = len(pairs)
    if num < 2:
        return 0.0
    before, after = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    same: int = sum(a == b for a, b in pairs)
    by_chance = sum(count * after[action] for action, count in before.items())
    return (same - by_chance / num) / (num - 1)


def serial_dependence(
    episodes: Sequence[Episode], game: AnyGame, seat: int
) -> dict[str, Estimate]:
    """How much more often an action repeats the seat's last one than if both were independent.

        (n / (n - 1)) (mean of 1[a_t = a_t+1] - Σ_a p(a) q(a))

    over the n pairs of neighbouring turns with the same list of legal actions; p and q are the
    shares of `a` among first and second actions. Unbiased where pairs are independent. Below 0: it
    alternates too often (Walker and Wooders 2001). Play that depends on the state differs from 0, too.
    """
    pairs = [
        [
            (before.turn.action, after.turn.action)
            for before, after in pairwise(turns)
            if len(before.turn.legal) > 1
            and list(before.turn.legal) == list(after.turn.legal)
            and before.turn.invalid is after.turn.invalid is None
        ]
        for turns in _turns(episodes, game, seat)
    ]
    return _named(serial_dependence=estimated(pairs, _repeats, -1.0, 1.0))


_sources: Memory[Source] = Memory(4)


def _valued(
    episodes: Sequence[Episode], game: AnyGame, seat: int
) -> Iterator[list[tuple[Turn, MoveValues]]]:
    """The seat's turns that have values, by episode; raises ValueError if the game has none."""
    source = _sources.recall(game, lambda: source_of(game))
    if isinstance(source, str):
        raise ValueError(
            f"want a game with exact values for regret and profile_accuracy: {source}; leave "
            "the measure out"
        )
    solver = MoveSolver({(type(game), repr(game)): source})
    for turns in _turns(episodes, game, seat):
        solved = solver.solve(game, [t for t, _ in turns], [s for _, s in turns]).turns
        yield [
            (one.turn, values)
            for one, values in zip(turns, solved, strict=True)
            if values is not None
        ]


def regret(
    episodes: Sequence[Episode], game: AnyGame, seat: int
) -> dict[str, Estimate]:
    """Mean over turns of the largest value of an action, less that of the action played.

    Values are those of `arena_trainers.evaluate.move_values`: everybody goes on by minimax, a best
    joint policy, or an equilibrium that CFR+ finds. Turns with an invalid reply, and those that this
    reference never reaches, do not count.
    """
    lost = [
        [values.regret for _, values in turns if values.regret is not None]
        for turns in _valued(episodes, game, seat)
    ]
    most = game.max_return - game.min_return
    return _named(regret=estimated(lost, fmean, 0.0, most))


def profile_accuracy(
    episodes: Sequence[Episode], game: AnyGame, seat: int
) -> dict[str, Estimate]:
    """Share of turns whose action is a best response to the reference profile of `regret`.

    At an equilibrium these are all actions that it mixes, and dominant ones. An invalid reply
    counts as none; turns that the reference never reaches do not count.
    """
    best = [
        [float(values.regret == 0) for _, values in turns]
        for turns in _valued(episodes, game, seat)
    ]
    return _named(profile_accuracy=estimated(best, fmean, 0.0, 1.0))


def cost(episodes: Sequence[Episode], game: AnyGame, seat: int) -> dict[str, Estimate]:
    """Means over episodes of what the seat wrote and read.

    `cost.reply_characters` and `cost.prompt_characters`; also `cost.reply_tokens` and
    `cost.prompt_tokens` where the policy reports the tokens of every turn. The calls of all roles of
    a turn count in tokens. Answers to probes do not count.
    """
    every = [[one.turn for one in turns] for turns in _turns(episodes, game, seat)]
    counted: dict[str, Callable[[Turn], int]] = {
        "reply_characters": lambda turn: len(turn.reply),
        "prompt_characters": lambda turn: sum(len(m["content"]) for m in turn.messages),
    }
    if all(token_ids(turn) for turns in every for turn in turns):
        counted["reply_tokens"] = lambda turn: sum(map(len, token_ids(turn)))
        counted["prompt_tokens"] = _prompt_tokens
    found = {
        f"cost.{name}": estimated(
            [[float(sum(map(size, turns)))] for turns in every], fmean, 0.0
        )
        for name, size in counted.items()
    }
    return _named(**found)


def _prompt_tokens(turn: Turn) -> int:
    if turn.generations:
        return sum(len(one.prompt_ids) for one in turn.generations)
    return len(turn.prompt_ids or ())


def check_measure(measure: Measure, episodes: Sequence[Episode] | None = None) -> None:
    """Measures recorded episodes, and looks at the estimates.

    | promise | what is checked |
    |---|---|
    | nothing of nothing | no episodes give no estimates |
    | estimates | names, and `Estimate`s: a finite value within its interval, `num` of at least 1 |
    | same again | equal calls give equal estimates |
    | order | the order of the episodes does not matter |
    | arguments | the episodes are left as they are |

    Args:
        measure: a function of episodes, game and seat.
        episodes: of one game; by default Kuhn poker by random play.

    Raises:
        BrokenPromise: names the first promise that is broken.
    """
    given = list(
        play("kuhn_poker", "random", range(24)) if episodes is None else episodes
    )
    game, before = game_of(given[0]), copy.deepcopy(given)
    mixed = random.Random(0).sample(given, len(given))
    for seat in range(game.num_players):
        if found := dict(measure([], game, seat)):
            broken("nothing of nothing", f"no episodes give {sorted(found)}")
        found = dict(measure(given, game, seat))
        if given != before:
            broken("arguments", "the episodes have changed")
        for name, one in found.items():
            _check_estimate(name, one)
        if dict(measure(given, game, seat)) != found:
            broken("same again", "two calls give different estimates")
        if dict(measure(mixed, game, seat)) != found:
            broken("order", "the episodes in another order give different estimates")


def _check_estimate(name: str, one: Estimate) -> None:
    if not isinstance(name, str) or not isinstance(one, Estimate):
        broken("estimates", f"want an Estimate by name, got {name!r}: {one!r:.80}")
    low = -math.inf if one.low is None else one.low
    high = math.inf if one.high is None else one.high
    if not (math.isfinite(one.value) and low <= one.value <= high and one.num >= 1):
        broken("estimates", f"want a value within its interval, got {name}: {one}")
