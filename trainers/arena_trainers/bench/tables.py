"""Tables of the comparison, in Markdown."""

from collections.abc import Iterable, Sequence

from arena_trainers.bench.comparison import CHOICES, Comparison
from arena_trainers.bench.learning import REFERENCE
from arena_trainers.bench.statistics import Difference
from arena_trainers.bench.variants import CRITIC, CROSSING, POOLS, Line

NO_POOL = "no pool"  # title of the column of an estimator without a pool


def choices(compared: Sequence[Comparison]) -> str:
    """What each choice gains, by game."""
    head = ["What changes", *(one.title for one in compared)]
    rows = [
        [choice.title, *(gain(one.choices.get(choice.title)) for one in compared)]
        for choice in CHOICES
    ]
    return table(head, rows)


def crossing(compared: Comparison) -> str:
    """Levels by pools: gain over the reference, cosine and variance."""
    head = ["Level", "Estimator", *POOLS, NO_POOL]
    rows = [_crossing_row(compared, line) for line in (*CROSSING, CRITIC)]
    return table(head, rows)


def _crossing_row(compared: Comparison, line: Line) -> list[str]:
    cells = []
    for pool in (*POOLS, NO_POOL):
        variant = line.cells.get(pool)
        cells.append("" if variant is None else _cell(compared, variant.name))
    return [line.level, line.title, *cells]


def _cell(compared: Comparison, name: str) -> str:
    if name not in compared.means:
        return "-"
    found = f"{compared.means[name].mean:.3f}"
    if name != REFERENCE:
        found = gain(compared.gains.get(name))
    variance, cosine, _ = compared.gradient(name)
    if cosine is None:
        return found
    return f"{found}<br>cosine {cosine:.2f}, variance {number(variance)}"


def everything(compared: Comparison) -> str:
    """All variants, the best first."""
    measure = "NashConv" if not compared.higher else "Score"
    head = ["Variant", measure, "95 %", "seeds", f"Gain over `{REFERENCE}`", "p"]
    head += ["Variance", "Cosine", "Direction"]
    return table(head, [_row(compared, name) for name in compared.means])


def _row(compared: Comparison, name: str) -> list[str]:
    mean, found = compared.means[name], compared.gains.get(name)
    variance, cosine, direction = compared.gradient(name)
    return [
        f"`{name}`",
        f"{mean.mean:.3f}",
        f"{mean.low:.3f} to {mean.high:.3f}" if mean.num > 1 else "-",
        str(mean.num),
        "" if name == REFERENCE else gain(found),
        "" if found is None else p_value(found.p),
        number(variance),
        "-" if cosine is None else f"{cosine:.3f}",
        "-" if direction is None else f"{direction:.3f}",
    ]


def gain(found: Difference | None) -> str:
    """A gain with half its interval, in bold if it is significant; "-" for none.

    >>> gain(Difference(-0.0312, 0.01, 0.002))
    '**-0.031** ± 0.010'
    """
    if found is None:
        return "-"
    value = f"{found.value:+z.3f}"
    bold = f"**{value}**" if found.is_significant else value
    return f"{bold} ± {found.wide:.3f}"


def p_value(p: float) -> str:
    """A p-value with three digits."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def number(value: float | None) -> str:
    """Three significant digits; "-" for None."""
    return "-" if value is None else f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
