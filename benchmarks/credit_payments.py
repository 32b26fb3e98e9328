"""How noisy credit is, by when a game pays: `rounds` with one option at a time.

The policy is fixed: in every row it gives the right answer half of the time. All variants see the
same batches. The noise of a variant is E[A²] E[A*²] / E[A A*]², with A* the exact advantage: the
mean square of the advantage after it is scaled so that its regression on A* has slope 1,
relative to the least possible. Its interval is a 95 % jackknife over batches, of its logarithm.

    python benchmarks/credit_payments.py

writes payments.json in about one CPU minute; then `python benchmarks/credit_bench.py` writes
the pages and the package's advice from it.
"""

import json
import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

from arena_envs.games.rounds import Rounds
from arena_trainers.cli.suggest import Payment
from arena_trainers.credit import FlatPoolWarning
from comparing import run_script
from credit_runs import Crediting
from credit_settings import NUM_SAMPLES, NUM_STARTS, POOLS, Variant
from tabular import Floats, Graph, Played, TabularPolicy

FILE = "payments.json"
DOCS = Path("docs", "credit")
NUM_TURNS = 3200  # of an episode, all batches together
SKILL = 0.5  # probability of the right answer
SIZE: Mapping[str, Any] = {"num_symbols": 16, "num_answers": 8}
ROWS: Mapping[str, Mapping[str, Any]] = {
    "at the end": {"delay": 8},
    "each round": {},
    "each round, 64 rounds": {"num_rounds": 64},
    "falling stakes, 128 to 1": {"stakes": "falling"},
    "rising stakes, 1 to 128": {"stakes": "rising"},
    "each round, luck of 20 after the first": {"luck": 20},
    "each round, luck of 20 after the last": {"luck": 20, "luck_after": "last"},
    "each round, and a wage of 2": {"wage": 2},
    "each round, and an advance of 20": {"advance": 20},
}  # options of `Rounds` by what is paid when; 8 rounds if not said
VARIANTS: Mapping[str, Variant] = {
    variant.name: variant
    for variant in (
        Variant("dr_grpo", {"pool": POOLS["game, seat"]}),
        Variant("dr_grpo"),
        Variant("mars"),
        Variant("mars", {"pool": POOLS["game, seat, turn"]}),
        Variant("mars", {"pool": POOLS["group, seat, turn"]}),
        Variant("random_effects"),
    )
}
TITLES = {
    "dr_grpo (game, seat)": "episode (game, seat)",
    "dr_grpo": "episode (group, seat)",
    "mars": "`mars` (game, seat)",
    "mars (game, seat, turn)": "`mars` (game, seat, turn)",
    "mars (group, seat, turn)": "`mars` (group, seat, turn)",
    "random_effects": "`random_effects`",
}  # of the columns of the table


class Noise(NamedTuple):
    """The noise of a variant, 1 at best, with its interval; `high` may be infinite."""

    value: float
    low: float
    high: float


def noises(game: Rounds, num_batches: int) -> dict[str, Noise]:
    """The noise of each variant in a game of one seat."""
    table = _fixed_policy(game)
    rng = np.random.default_rng(0)
    credits = {name: Crediting(variant) for name, variant in VARIANTS.items()}
    squares: dict[str, list[Floats]] = {name: [] for name in VARIANTS}
    keys: list[Any] = [key for _, key in table.graph.rows]
    right = np.array([game.right_answer(symbol) for _, symbol in keys])
    stake = np.array([float(game.stake(number)) for number, _ in keys])
    for _ in range(num_batches):
        played = table.play(NUM_STARTS, NUM_SAMPLES, rng)
        true = _true_advantage(played, right, stake)
        for name, credit in credits.items():
            own = credit(table, played)
            means = [np.mean(own**2), np.mean(true**2), np.mean(own * true)]
            squares[name].append(np.array(means))
    return {name: _noise(np.array(found)) for name, found in squares.items()}


def _fixed_policy(game: Rounds) -> TabularPolicy:
    """A policy that is right with probability `SKILL` in every row."""
    graph = Graph(game, lambda state, _: (_row_of(game, state.number), state.symbol))
    table = TabularPolicy(graph)
    numbers = range(game.num_rounds) if game.stakes != "equal" else [0]
    for number in numbers:
        for symbol in range(game.num_symbols):
            state = game.initial_state()._replace(number=number, symbol=symbol)
            graph.row_of(state, 0)
    rows = np.arange(len(graph.rows))
    table.probabilities(rows)  # makes room for them
    keys: list[Any] = [key for _, key in graph.rows]
    right = [game.right_answer(symbol) for _, symbol in keys]
    odds = SKILL / (1 - SKILL) * (game.num_answers - 1)
    table.logits[rows, right] = math.log(odds)
    table.remember(rows)
    return table


def _row_of(game: Rounds, number: int) -> int:
    """The round of a row; rounds of equal stakes share their rows."""
    return 0 if game.stakes == "equal" else number


def _true_advantage(played: Played, right: Any, stake: Floats) -> Floats:
    is_right = played.action == right[played.row]
    return np.asarray(stake[played.row] * (is_right - SKILL))


def _noise(means: Floats) -> Noise:
    """The noise from the means of each batch: of A², A*² and A A*."""

    def of(mean: Floats) -> float:
        own, best, both = mean
        return float(own * best / both**2) if both > 0 else math.inf

    num, total = len(means), means.sum(axis=0)
    value = of(total / num)
    without = [of((total - one) / (num - 1)) for one in means]
    if not math.isfinite(max(without)):
        return Noise(value, 1.0, math.inf)
    logs = np.log(without)
    wide = 1.96 * math.sqrt((num - 1) * float(np.var(logs)))
    return Noise(value, value * math.exp(-wide), value * math.exp(wide))


def committed() -> list[Payment]:
    """The rows of docs/credit/payments.json."""
    folder = Path(__file__).resolve().parents[1] / DOCS
    return [Payment(**one) for one in json.loads((folder / FILE).read_text())]


def payments_table(rows: Sequence[Payment], titles: Mapping[str, str] = TITLES) -> str:
    """The noise of variants in Markdown; bold if its interval reaches the row's least.

    Args:
        rows: of payments.
        titles: of the columns, by variant.
    """
    lines = [
        f"| Paid | {' | '.join(titles.values())} |",
        "| --- |" + " ---: |" * len(titles),
    ]
    for row in rows:
        noise = [Noise(*row.noise[name]) for name in titles]
        least = min(one.value for one in noise)
        cells = [_cell(one, one.low <= least) for one in noise]
        lines.append(f"| {row.title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(noise: Noise, is_least: bool) -> str:
    value, low, high = (f"{x:,.0f}" if x >= 100 else f"{x:.3g}" for x in noise)
    return f"{f'**{value}**' if is_least else value}<br>{low} to {high}"


def main(
    directory: Annotated[Path, typer.Option(help="Folder of payments.json.")] = DOCS,
    num_turns: Annotated[
        int, typer.Option(min=64, help="Turns of an episode, all batches together.")
    ] = NUM_TURNS,
) -> None:
    """Measure the noise of credit by when a game pays; write payments.json."""
    warnings.simplefilter("ignore", FlatPoolWarning)
    rows = []
    for title, options in ROWS.items():
        game = Rounds(**SIZE, **options)
        found = noises(game, max(num_turns // game.num_rounds, 2))
        noise = {n: [round(x, 4) for x in one] for n, one in found.items()}
        rows.append({"title": title, "options": options, "noise": noise})
        typer.echo(
            f"{title}: " + ", ".join(f"{n} {x[0]:.3g}" for n, x in noise.items())
        )
    lines = ",\n".join(json.dumps(row) for row in rows)
    (directory / FILE).write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    run_script(main)
