"""The guide: which credit for which kind of game, and the figures behind it."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from arena_envs.game import AnyGame
from arena_trainers.bench.comparison import (
    CHOICES,
    Comparison,
    comparisons,
    model_comparisons,
)
from arena_trainers.bench.exact_values import EXACT
from arena_trainers.bench.facts import Facts, facts_of
from arena_trainers.bench.learning import REFERENCE
from arena_trainers.bench.models import MODEL_PAIRS
from arena_trainers.bench.runs import Found
from arena_trainers.bench.settings import NUM_SAMPLES
from arena_trainers.bench.statistics import ALPHA, Difference
from arena_trainers.bench.tables import gain, p_value, table
from arena_trainers.bench.variants import CROSSING, Variant, variants
from arena_trainers.credit import needed_columns

PAGE = "choose.md"
UNMEASURED = (
    "games without chance, games of one player or of more than three, and competitive games in "
    "which every seat has one turn",
    f"groups of other sizes than 2 and {NUM_SAMPLES}, and groups of 2 in other games than Kuhn "
    "poker",
)

HEAD = """\
# Which credit for which game

Written by `arena credit bench` from [bench.json](bench.json); [README.md](README.md) has all
figures and says how they were measured. For your games: `arena credit suggest --games kuhn_poker`.

"""


class Advice(NamedTuple):
    """What the runs of a game say.

    take: `lead` if it is significantly better than the reference, else the reference.
    lead: the variant with the best mean among levels and pools (`CROSSING`).
    best: the variant with the best mean among all that need no exact values.
    """

    take: str
    lead: str
    best: str


def advice_of(compared: Comparison) -> Advice | None:
    """The advice of a game; None as long as a run is missing."""
    if compared.missing:
        return None
    crossed = {v.name for line in CROSSING for v in line.cells.values()}
    lead = next(name for name in compared.means if name in crossed)
    best = next(
        name
        for name in compared.means
        if EXACT.isdisjoint(needed_columns(variants()[name].estimator))
    )
    found = compared.gains.get(lead)
    better = found is not None and found.is_significant
    return Advice(lead if better else REFERENCE, lead, best)


def settings_text(variant: Variant) -> str:
    """The options of `arena train` that choose a variant.

    >>> settings_text(Variant("mars", {"pool": ("group", "seat"), "scale": "std"}))
    'credit: mars, credit_args: {pool: [group, seat], scale: std}'
    """
    options = [
        f"{key}: {'[' + ', '.join(value) + ']' if key == 'pool' else value}"
        for key, value in variant.options.items()
    ]
    args = f", credit_args: {{{', '.join(options)}}}" if options else ""
    return f"credit: {variant.estimator}{args}"


def page(runs: Found) -> str:
    """The guide, in Markdown."""
    compared = comparisons(runs)
    head = ["Kind of game", "Measured on", "Take", "Gain over `mars` (game, seat)"]
    head += ["Best of all", "Largest effect of one choice"]
    rows = [[_kind(_measured(one)), *_cells(one)] for one in compared]
    about = (
        f"\n- **Take** is the best variant among turn and episode levels with all their "
        f"pools, if it is significantly better than `{REFERENCE}` over game and seat; "
        f"otherwise `{REFERENCE}`.\n"
        "- **Best of all** is chosen from all estimators that need no exact values. It is "
        "chosen by its result, so its gain is biased upward.\n"
        "- Gains are in NashConv or score; positive is better. ± is a 95 % interval. Bold is "
        "significant, with Holm's correction.\n"
    )
    return HEAD + table(head, rows) + about + "".join(_limits(runs, "\n**{}**\n\n"))


def _limits(runs: Found, title: str) -> list[str]:
    """What was not measured, and what was measured with a language model, as lists."""
    parts = {"Not measured": UNMEASURED, "With a language model": _of_models(runs)}
    return [
        title.format(name) + "".join(f"- {line}\n" for line in lines)
        for name, lines in parts.items()
    ]


def _of_models(runs: Found) -> list[str]:
    """What was measured with a language model, or that nothing was."""
    lines = []
    for one in model_comparisons(runs):
        if one.missing:
            lines.append(f"{one.title}: {missing_text(one)}")
        for after, before in () if one.missing else MODEL_PAIRS:
            found = one.gains_over(before)[after]
            lines.append(f"{one.title}: gain of {after} over {before}: {_plain(found)}")
    return lines or [
        "nothing: all figures are of tabular policies, which have no tokens and no clipping"
    ]


def _measured(compared: Comparison) -> Facts:
    """The kind of a game that was measured, with the size of its groups."""
    setting = compared.setting
    return facts_of(setting.game(), setting.num_samples)


def _kind(facts: Facts) -> str:
    words = facts.words()
    return ", ".join(value for key, value in words.items() if key != "chance")


def _cells(compared: Comparison) -> list[str]:
    title, advice = compared.title, advice_of(compared)
    if advice is None:
        return [title, f"no result: {missing_text(compared)}", "-", "-", "-"]
    taken = variants()[advice.take]
    if advice.lead == REFERENCE:
        words = f"`{REFERENCE}` has the best mean"
    else:
        words = gain(compared.gains[advice.lead])
        if advice.take != advice.lead:
            words = f"none is significantly better; the best, `{advice.lead}`: {words}"
    return [
        title,
        f"`{settings_text(taken)}`",
        words,
        f"`{advice.best}`: {gain(compared.gains.get(advice.best))}",
        _largest(compared),
    ]


def missing_text(compared: Comparison) -> str:
    """How many runs are missing."""
    num = sum(len(seeds) for seeds in compared.missing.values())
    what = "1 run is missing" if num == 1 else f"{num} runs are missing"
    return f"{what}; run `arena credit bench`"


def _largest(compared: Comparison) -> str:
    """The significant choice with the largest gain or loss."""
    found = {k: v for k, v in compared.choices.items() if v.is_significant}
    same = len(compared.unchanged)
    if not found:
        rest = f"; {same} change{'s' * (same == 1)} no run" if same else ""
        return f"none of {len(CHOICES)} choices is significant{rest}"
    name = max(found, key=lambda key: abs(found[key].value))
    return f"{name}: {gain(found[name])}"


def suggest(
    games: Iterable[tuple[str, AnyGame]],
    runs: Found,
    used: str | None = None,
    group: int | None = None,
) -> list[str]:
    """Advice for some games, line by line.

    Args:
        games: names and rules.
        runs: the runs of the comparison.
        used: name of the variant that a recipe uses; None without a recipe.
        group: number of episodes of each start in the recipe; None without a recipe.
    """
    if not any(runs.values()):
        return ["no results yet; run `arena credit bench`, which measures them"]
    compared = comparisons(runs)
    measured = {one.name: _measured(one) for one in compared}
    lines = []
    for name, game in games:
        facts = facts_of(game, group)
        lines.append(f"{name}: {', '.join(facts.words().values())}")
        near = nearest(game, facts, compared, measured)
        for one in near:
            lines += _suggested(one, game, facts, measured[one.name], used)
        lines.append("")
    return [*lines, *"".join(_limits(runs, "{}:\n")).splitlines()]


def nearest(
    game: AnyGame,
    facts: Facts,
    compared: Sequence[Comparison],
    measured: dict[str, Facts],
) -> list[Comparison]:
    """What was measured on the game itself, and on the games with most facts in common.

    The latter only if the game itself was not measured, or with other groups.
    """
    distance = {one.name: len(facts.differing(measured[one.name])) for one in compared}
    same = [one for one in compared if one.setting.game() == game]
    equal = [one for one in same if not distance[one.name]]
    least = min(distance.values())
    near = [one for one in compared if one in same or distance[one.name] == least]
    return equal or near


def _suggested(
    compared: Comparison,
    game: AnyGame,
    facts: Facts,
    measured: Facts,
    used: str | None,
) -> list[str]:
    title, advice = compared.title, advice_of(compared)
    words, differing = measured.words(), facts.differing(measured)
    short = ["turns"] if 2 * measured.turns < facts.turns else []
    other = ", ".join(words[name] for name in dict.fromkeys([*differing, *short]))
    source = f"  Measured on {title} ({words['group']})"
    if compared.setting.game() == game:
        source += ", the same game"
    source += f", which differs by: {other}." if other else "."
    if advice is None:
        return [source, f"    No result: {missing_text(compared)}."]
    lines = [source, f"    Take {settings_text(variants()[advice.take])}"]
    lead, best = compared.gains.get(advice.lead), compared.gains.get(advice.best)
    if advice.take != advice.lead:
        lines.append(
            f"    No level or pool is significantly better. The best, {advice.lead}, gains "
            f"{_plain(lead)}"
        )
    elif lead is not None:
        lines.append(f"    Gain over mars (game, seat): {_plain(lead)}")
    if best is not None and advice.best != advice.lead:
        lines.append(f"    Best of all estimators: {advice.best} gains {_plain(best)}")
    if used is not None and used in compared.gains:
        lines.append(f"    The recipe's {used} gains {_plain(compared.gains[used])}")
    elif used not in (None, REFERENCE):
        lines.append(f"    The recipe's {used} was not measured")
    return [*lines, *_choice_lines(compared)]


def _choice_lines(compared: Comparison) -> list[str]:
    """The significant choices with their gains, and the number of the others."""
    found = compared.choices
    lines = [
        f"    Choice {k}: {_plain(v)}" for k, v in found.items() if v.is_significant
    ]
    num = len(found) - len(lines)
    if num:
        lines.append(f"    Choices without a significant gain (p >= {ALPHA}): {num}")
    if compared.unchanged:
        lines.append(f"    Choices that change no run: {'; '.join(compared.unchanged)}")
    return lines


def _plain(found: Difference | None) -> str:
    if found is None:
        return "-"
    return f"{found.value:+z.3f} ± {found.wide:.3f}, p {p_value(found.p)}"
