"""Which credit fits a game: its kind, and what the comparison of estimators found there.

`arena credit suggest` prints it. `advice.json` holds the figures; `benchmarks/credit_bench.py`
measures and writes them.
"""

import json
import random
import warnings
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from arena_credit import FlatPoolWarning, TurnBatch, default_options, estimate
from arena_envs import make_game
from arena_envs.game import CHANCE, TERMINAL, AnyGame, draw, possible_outcomes

FILE = "advice.json"
SHIPPED = Path(__file__).with_name(FILE)  # the results of this package
DEFAULT = "random_effects"  # the trainer's
REFERENCE = "mars"  # the others are compared with it in games
ALPHA = 0.05  # p below it is significant
SMALL_GROUP = 4  # the largest small group: half way between 2 and 8 in ratio
NUM_STARTS, NUM_SAMPLES = 10, 4  # random episodes; those of a start share chance
NUM_GROUPS, GROUP = 8, 8  # random episodes in which noise is measured
WIDE = 2.365 / NUM_GROUPS**0.5  # half a 95 % interval over them (Student's t)
BY_TURN = ("game", "seat", "turn")
COMPARED: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "episode (game, seat)": ("rloo", {"pool": BY_TURN[:2]}),
    "GRPO without std": ("rloo", {}),
    "mars (game, seat)": ("mars_loo", {"pool": BY_TURN[:2]}),
    "mars (game, seat, turn)": ("mars_loo", {"pool": BY_TURN}),
}  # with the mean of the others, so that no factor of the pool's size differs


class Facts(NamedTuple):
    """What decides which credit fits a game.

    players: number of seats.
    cooperative: whether all seats are one team, by the game's kind.
    turns: the largest number of turns of a seat in random play.
    on_the_way: whether there are rewards before the end, declared (`pays`) or seen.
    play_decides: whether episodes with the same draws of chance differ in length.
    chance: whether there are draws of chance.
    group: number of episodes of each start in training; None if not known.
    """

    players: int
    cooperative: bool
    turns: int
    on_the_way: bool
    play_decides: bool
    chance: bool
    group: int | None = None

    def words(self) -> dict[str, str]:
        """Each known fact in words."""
        words = {
            "players": f"{self.players} player{'s' * (self.players > 1)}",
            "cooperative": "cooperative" if self.cooperative else "not cooperative",
            "turns": "one turn per seat"
            if self.turns == 1
            else f"up to {self.turns} turns per seat",
            "on_the_way": f"rewards {'on the way' if self.on_the_way else 'at the end'}",
            "play_decides": "play decides the length"
            if self.play_decides
            else "play does not decide the length",
            "chance": "with chance" if self.chance else "without chance",
        }
        if self.group is not None:
            words["group"] = f"groups of {self.group}"
        return words

    def differing(self, other: "Facts") -> list[str]:
        """The names of the facts that differ.

        `turns` differs only between one and several, `group` only between small and large.
        A group that is not known does not differ.

        >>> one = Facts(2, False, 2, False, True, True, group=8)
        >>> one.differing(one._replace(turns=4)), one.differing(one._replace(turns=1))
        ([], ['turns'])
        >>> one.differing(one._replace(group=16)), one.differing(one._replace(group=2))
        ([], ['group'])
        """
        pairs = zip(self._fields, self._kind(), other._kind(), strict=True)
        found = [name for name, a, b in pairs if a != b]
        unknown = self.group is None or other.group is None
        return [name for name in found if not (name == "group" and unknown)]

    def _kind(self) -> tuple[object, ...]:
        """The facts, with the turns up to 2, and whether the groups are small."""
        small = (self.group or 0) <= SMALL_GROUP
        return (*self._replace(turns=min(self.turns, 2))[:-1], small)


class _Episode(NamedTuple):
    turns: tuple[int, ...]  # of each seat
    on_the_way: bool
    chance: bool
    rewards: list[
        tuple[int, int, float]
    ]  # seat, its turn, and what it is paid until its next


def facts_of(game: AnyGame, group: int | None = None) -> Facts:
    """The facts of a game; random play may miss rare ones.

    Args:
        game: the rules.
        group: number of episodes of each start in training; None if not known.
    """
    rng = random.Random(0)
    starts = []
    for _ in range(NUM_STARTS):
        luck: list[float] = []
        starts.append([_play(game, luck, rng) for _ in range(NUM_SAMPLES)])
    episodes = [episode for start in starts for episode in start]
    return Facts(
        players=game.num_players,
        cooperative=game.kind == "cooperative",
        turns=max(max(episode.turns) for episode in episodes),
        on_the_way=getattr(game, "pays", "end") == "on_the_way"  # the fact is optional
        or any(episode.on_the_way for episode in episodes),
        play_decides=any(len({sum(e.turns) for e in start}) > 1 for start in starts),
        chance=any(episode.chance for episode in episodes),
        group=group,
    )


def _play(game: AnyGame, luck: list[float], rng: random.Random) -> _Episode:
    """A random episode; draws of chance use the numbers of `luck`, which it extends."""
    state: Any = game.initial_state()
    draws, on_the_way = 0, False
    paid: list[list[float]] = [[] for _ in range(game.num_players)]  # before each turn
    while (player := game.current_player(state)) != TERMINAL:
        on_the_way |= any(game.returns(state))
        if player == CHANCE:
            outcomes, chances = zip(*possible_outcomes(game, state), strict=True)
            if draws == len(luck):
                luck.append(rng.random())
            action = outcomes[draw(list(accumulate(chances)), luck[draws])]
            draws += 1
        else:
            action = rng.choice(game.legal_actions(state))
            paid[player].append(game.returns(state)[player])
        state = game.apply(state, action)
    rewards = [
        (seat, turn, after - before)
        for seat, had in enumerate(paid)
        for turn, (before, after) in enumerate(
            pairwise([*had, game.returns(state)[seat]])
        )
    ]
    return _Episode(tuple(map(len, paid)), on_the_way, draws > 0, rewards)


def noise_of(game: AnyGame, group: int) -> dict[str, tuple[float, float]]:
    """The noise of `COMPARED` in random play, relative to that of the default; all unbiased.

    So it is the mean square of the advantage: a ratio, and half its 95 % interval over starts.

    Args:
        game: the rules.
        group: episodes of each start; they share the draws of chance.
    """
    rng, rows = random.Random(0), []
    for start in range(NUM_GROUPS):
        luck: list[float] = []
        for number in range(start * group, (start + 1) * group):
            played = _play(game, luck, rng).rewards
            rows += [(number, start, *row) for row in played]
    episode, of, seat, turn, reward = map(np.array, zip(*rows, strict=True))
    turns = TurnBatch(
        reward=reward,
        game=0 * episode,
        episode=episode,
        seat=seat,
        turn=turn,
        group=of,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlatPoolWarning)
        own = np.bincount(of, estimate(DEFAULT, turns).advantage ** 2)  # of each start
        found = {}
        for title, (name, options) in COMPARED.items():
            if own.any() and (group > 1 or "pool" in options):
                noise = np.bincount(of, estimate(name, turns, **options).advantage ** 2)
                ratio = noise.sum() / own.sum()
                spread = np.std(noise - ratio * own, ddof=1) / own.mean()
                found[title] = (float(ratio), WIDE * float(spread))
    return found


class Difference(NamedTuple):
    """A difference of two means, half its 95 % interval, and its p-value (a t-test).

    The interval is not corrected for the number of comparisons; p may be.
    """

    value: float
    wide: float
    p: float

    @property
    def is_significant(self) -> bool:
        """Whether p is below 0.05."""
        return self.p < ALPHA

    def __str__(self) -> str:
        return f"{self.value:+z.3f} ± {self.wide:.3f}, p {p_value(self.p)}"


def p_value(p: float) -> str:
    """A p-value with three digits."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def variant_name(estimator: str, options: Mapping[str, Any]) -> str:
    """The estimator, and the options that differ from the published form.

    >>> variant_name("mars", {"pool": ("game", "seat", "turn")})
    'mars (game, seat, turn)'
    """
    defaults = default_options(estimator)
    other = {k: v for k, v in options.items() if v != defaults[k]}
    pool = f" ({', '.join(other.pop('pool'))})" if "pool" in other else ""
    return estimator + pool + "".join(f" {k}={v}" for k, v in other.items())


class Measured(NamedTuple):
    """What was measured on a game. Differences are gains: positive is better.

    title: of the game.
    game: id and parameters; None for rules that have no id.
    facts: of the game, with the size of its groups.
    missing: number of runs that are missing; if any is, there is no advice.
    settings: options of `arena train` to take, as text.
    take, lead, best: names of variants: to take; with the best mean among levels and pools;
        with the best mean of all that need no exact values.
    gains: of each variant over the reference.
    choices: gain by each choice.
    unchanged: titles of the choices that change no run.
    """

    title: str
    game: tuple[str, Mapping[str, Any]] | None
    facts: Facts
    missing: int
    settings: str
    take: str
    lead: str
    best: str
    gains: Mapping[str, Difference]
    choices: Mapping[str, Difference]
    unchanged: Sequence[str]

    def is_of(self, game: AnyGame) -> bool:
        """Whether it was measured on these rules."""
        return self.game is not None and make_game(self.game[0], **self.game[1]) == game


class Advice(NamedTuple):
    """What was measured on each game, and lists of what was not, by title."""

    games: Sequence[Measured]
    limits: Mapping[str, Sequence[str]]


def read_advice(path: Path) -> Advice:
    """The advice of a file.

    Raises:
        ValueError: there is no such file, or it holds something else.
    """
    if not path.exists():
        raise ValueError(
            f"want results in {path}, found no file; run python "
            "benchmarks/credit_bench.py with this --directory, or leave the option out "
            "for the results of this package"
        )
    try:
        file = json.loads(path.read_text(encoding="utf-8"))
        games = [Measured(**{**one, **_parts(one)}) for one in file["games"]]
        return Advice(games, file["limits"])
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"want advice in {path}, got a damaged file ({type(error).__name__}: "
            f"{error}); write it again with benchmarks/credit_bench.py"
        ) from error


def _parts(one: Mapping[str, Any]) -> dict[str, Any]:
    gains = {
        key: {name: Difference(*found) for name, found in one[key].items()}
        for key in ("gains", "choices")
    }
    return {"facts": Facts(**one["facts"]), **gains}


def suggest(
    games: Iterable[tuple[str, AnyGame]],
    advice: Advice,
    used: str | None = None,
    group: int | None = None,
) -> list[str]:
    """Advice for some games, line by line.

    Args:
        games: names and rules.
        advice: what was measured.
        used: name of the variant that a recipe uses; None without a recipe.
        group: number of episodes of each start in the recipe; None without a recipe.
    """
    lines = []
    for name, game in games:
        facts = facts_of(game, group)
        lines.append(f"{name}: {', '.join(facts.words().values())}")
        lines += _by_play(game, facts)
        for one in nearest(game, facts, advice.games):
            lines += _suggested(one, game, facts, used)
        lines.append("")
    for title, limits in advice.limits.items():
        lines += [f"{title}:", *(f"- {line}" for line in limits)]
    return lines


def _by_play(game: AnyGame, facts: Facts) -> list[str]:
    """The default, and its noise in random play of the game."""
    group = facts.group or GROUP
    noise = noise_of(game, group)
    pool = ", ".join(BY_TURN)
    lines = [f"  Take credit: {DEFAULT}, credit_args: {{pool: [{pool}]}} (the default)"]
    if noise:
        first, *others = (f"{name} {x:.2f} ± {y:.2f}" for name, (x, y) in noise.items())
        lines += [
            f"    Expected gain, as noise relative to {DEFAULT}: {first}",
            f"    Likewise: {', '.join(others)}; 95 % intervals, {NUM_GROUPS * group} random "
            f"episodes, groups of {group}",
        ]
    return lines


def nearest(
    game: AnyGame, facts: Facts, measured: Sequence[Measured]
) -> list[Measured]:
    """What was measured on the game itself, and on the games with most facts in common.

    The latter only if the game itself was not measured, or with other groups.
    """
    distances = [len(facts.differing(one.facts)) for one in measured]
    same = [one.is_of(game) for one in measured]
    found = list(zip(measured, same, distances, strict=True))
    equal = [one for one, is_same, distance in found if is_same and not distance]
    least = min(distances)
    return equal or [
        one for one, is_same, distance in found if is_same or distance == least
    ]


def _suggested(
    one: Measured, game: AnyGame, facts: Facts, used: str | None
) -> list[str]:
    words, differing = one.facts.words(), facts.differing(one.facts)
    short = ["turns"] if 2 * one.facts.turns < facts.turns else []
    other = ", ".join(words[name] for name in dict.fromkeys([*differing, *short]))
    source = f"  Measured on {one.title} ({words['group']})"
    if one.is_of(game):
        source += ", the same game"
    source += f", which differs by: {other}." if other else "."
    if one.missing:
        return [source, f"    No result: {missing_text(one.missing)}."]
    lines = [source, f"    Best level and pool there: {one.settings}"]
    lead, best = one.gains.get(one.lead), one.gains.get(one.best)
    if one.take != one.lead:
        lines.append(
            f"    No level or pool is significantly better. The best, {one.lead}, gains "
            f"{lead}"
        )
    elif lead is not None:
        lines.append(f"    Gain over mars (game, seat): {lead}")
    if best is not None and one.best != one.lead:
        lines.append(f"    Best of all estimators: {one.best} gains {best}")
    if used is not None and used in one.gains:
        lines.append(f"    The recipe's {used} gains {one.gains[used]}")
    elif used not in (None, REFERENCE):
        lines.append(f"    The recipe's {used} was not measured")
    good = [f"    Choice {k}: {v}" for k, v in one.choices.items() if v.is_significant]
    lines += good
    if num := len(one.choices) - len(good):
        lines.append(f"    Choices without a significant gain (p >= {ALPHA}): {num}")
    if one.unchanged:
        lines.append(f"    Choices that change no run: {'; '.join(one.unchanged)}")
    return lines


def missing_text(num: int) -> str:
    """How many runs are missing, and what to do."""
    what = "1 run is missing" if num == 1 else f"{num} runs are missing"
    return f"{what}; run python benchmarks/credit_bench.py"
