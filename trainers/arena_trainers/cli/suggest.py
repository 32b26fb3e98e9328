"""Which credit fits a game: what estimators declare, and what their comparison measured there.

`arena credit suggest` prints it. `advice.json` holds the measured figures; `benchmarks/credit_bench.py`
measures and writes them.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from arena_credit import default_options
from arena_envs import make_game
from arena_envs.game import AnyGame
from arena_trainers.cli.declared_credit import declared_lines
from arena_trainers.cli.game_facts import (
    DEFAULT,
    GROUP,
    NUM_GROUPS,
    Facts,
    facts_of,
    noise_of,
)

FILE = "advice.json"
SHIPPED = Path(__file__).with_name(FILE)  # the results of this package
REFERENCE = "mars"  # the others are compared with it in games
ALPHA = 0.05  # p below it is significant


class MeanDifference(NamedTuple):
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
    changed_options = {k: v for k, v in options.items() if v != defaults[k]}
    pool = (
        f" ({', '.join(changed_options.pop('pool'))})"
        if "pool" in changed_options
        else ""
    )
    return estimator + pool + "".join(f" {k}={v}" for k, v in changed_options.items())


class GameAdvice(NamedTuple):
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
    gains: Mapping[str, MeanDifference]
    choices: Mapping[str, MeanDifference]
    unchanged: Sequence[str]

    def is_of(self, game: AnyGame) -> bool:
        """Whether it was measured on these rules."""
        return self.game is not None and make_game(self.game[0], **self.game[1]) == game


class Advice(NamedTuple):
    """What was measured on each game, and lists of what was not, by title."""

    games: Sequence[GameAdvice]
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
        games = [GameAdvice(**{**entry, **_parts(entry)}) for entry in file["games"]]
        return Advice(games, file["limits"])
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"want advice in {path}, got a damaged file ({type(error).__name__}: "
            f"{error}); write it again with benchmarks/credit_bench.py"
        ) from error


def _parts(entry: Mapping[str, Any]) -> dict[str, Any]:
    gains = {
        key: {name: MeanDifference(*figures) for name, figures in entry[key].items()}
        for key in ("gains", "choices")
    }
    return {"facts": Facts(**entry["facts"]), **gains}


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
    lines: list[str] = []
    facts_by_game: dict[str, Facts] = {}
    for name, game in games:
        facts = facts_by_game[name] = facts_of(game, group)
        lines.append(f"{name}: {', '.join(facts.words().values())}")
        lines += _by_play(game, facts)
        for game_advice in nearest_games(game, facts, advice.games):
            lines += _suggested(game_advice, game, facts, used)
        lines.append("")
    variants = {variant for entry in advice.games for variant in entry.gains}
    compared = {REFERENCE, *(variant.partition(" ")[0] for variant in variants)}
    lines += declared_lines(facts_by_game, compared)
    for title, limits in advice.limits.items():
        lines += [f"{title}:", *(f"- {line}" for line in limits)]
    return lines


def _by_play(game: AnyGame, facts: Facts) -> list[str]:
    """The default, and its noise in random play of the game."""
    group = facts.group or GROUP
    noise = noise_of(game, group)
    lines = [f"  Take credit: {DEFAULT} (the default)"]
    if noise:
        first, *others = (f"{name} {x:.2f} ± {y:.2f}" for name, (x, y) in noise.items())
        lines += [
            f"    Expected gain, as noise relative to {DEFAULT}: {first}",
            f"    Likewise: {', '.join(others)}; 95 % intervals, {NUM_GROUPS * group} random "
            f"episodes, groups of {group}",
        ]
    return lines


def nearest_games(
    game: AnyGame, facts: Facts, measured: Sequence[GameAdvice]
) -> list[GameAdvice]:
    """What was measured on the game itself, and on the games with most facts in common.

    The latter only if the game itself was not measured, or with other groups.
    """
    distances = [len(facts.differing(m.facts)) for m in measured]
    same = [m.is_of(game) for m in measured]
    measurements = list(zip(measured, same, distances, strict=True))
    equal = [m for m, is_same, distance in measurements if is_same and not distance]
    if equal:
        return equal
    least = min(distances)
    return [m for m, is_same, distance in measurements if is_same or distance == least]


def _suggested(
    game_advice: GameAdvice, game: AnyGame, facts: Facts, used: str | None
) -> list[str]:
    words, differing = game_advice.facts.words(), facts.differing(game_advice.facts)
    short = ["turns"] if 2 * game_advice.facts.turns < facts.turns else []
    differing_facts = ", ".join(
        words[name] for name in dict.fromkeys([*differing, *short])
    )
    source = f"  Measured on {game_advice.title} ({words['group']})"
    if game_advice.is_of(game):
        source += ", the same game"
    source += f", which differs by: {differing_facts}." if differing_facts else "."
    if game_advice.missing:
        return [source, f"    No result: {missing_text(game_advice.missing)}."]
    lines = [source, f"    Best level and pool there: {game_advice.settings}"]
    lead = game_advice.gains.get(game_advice.lead)
    best = game_advice.gains.get(game_advice.best)
    if game_advice.take != game_advice.lead:
        lines.append(
            f"    No level or pool is significantly better. The best, {game_advice.lead}, gains "
            f"{lead}"
        )
    elif lead is not None:
        lines.append(f"    Gain over mars (game, seat): {lead}")
    if best is not None and game_advice.best != game_advice.lead:
        lines.append(f"    Best of all estimators: {game_advice.best} gains {best}")
    if used is not None and used in game_advice.gains:
        lines.append(f"    The recipe's {used} gains {game_advice.gains[used]}")
    elif used not in (None, REFERENCE):
        lines.append(f"    The recipe's {used} was not measured")
    good = [
        f"    Choice {k}: {v}"
        for k, v in game_advice.choices.items()
        if v.is_significant
    ]
    lines += good
    if num := len(game_advice.choices) - len(good):
        lines.append(f"    Choices without a significant gain (p >= {ALPHA}): {num}")
    if game_advice.unchanged:
        lines.append(
            f"    Choices that change no run: {'; '.join(game_advice.unchanged)}"
        )
    return lines


def missing_text(num_missing: int) -> str:
    """How many runs are missing, and what to do."""
    subject = (
        "1 run is missing" if num_missing == 1 else f"{num_missing} runs are missing"
    )
    return f"{subject}; run python benchmarks/credit_bench.py"
