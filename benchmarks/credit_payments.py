"""How noisy credit is in `rounds`: by when it pays, its length, and the groups.

The policy is fixed: in every row it gives the right answer half of the time. All variants see the
same batches of 128 episodes. The noise of a variant is E[A²] E[A*²] / E[A A*]², with A* the exact
advantage: the mean square of the advantage after it is scaled so that its regression on A* has
slope 1, relative to the least possible. Its interval is a 95 % jackknife over batches, of its
logarithm. A critic has seen ten batches before.

    python benchmarks/credit_payments.py

writes payments.json in about five CPU minutes, and keeps the rows that are there; then
`python benchmarks/credit_bench.py` writes the pages and the package's advice from it.
"""

import itertools
import json
import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

from arena_envs.games.rounds import MOST_DOUBLED, Rounds
from arena_trainers.credit import FlatPoolWarning
from comparing import run_script
from credit_runs import Crediting
from credit_settings import NUM_EPISODES, NUM_SAMPLES, POOLS, Variant
from tabular import Floats, Graph, Played, TabularPolicy

FILE = "payments.json"
DOCS = Path("docs", "credit")
NUM_TURNS, MOST_BATCHES = 1600, 400  # turns of an episode, in all batches; batches
NUM_WARM = 10  # batches that only the critic sees
SKILL = 0.5  # probability of the right answer
SIZE: Mapping[str, Any] = {"num_symbols": 16, "num_answers": 8}
NUM_ROUNDS = 8
PAYMENTS: Mapping[str, Mapping[str, Any]] = {
    "at the end": {"delay": 64},
    "each round": {},
    "falling stakes": {"stakes": "falling"},
    "rising stakes": {"stakes": "rising"},
    "each round, luck of 20 after the first": {"luck": 20},
    "each round, luck of 20 after the last": {"luck": 20, "luck_after": "last"},
    "each round, and a wage of 2": {"wage": 2},
    "each round, and an advance of 20": {"advance": 20},
}  # options of `Rounds` by what is paid when
LENGTHS = (1, 2, 4, 8, 16, 32, 64)  # rounds
SIZES = (2, 4, 8, 16)  # episodes of a group


class Payment(NamedTuple):
    """The noise of credit in the game `rounds`, whose options say when it pays.

    title: what is paid when. options: of `rounds`. group: episodes of each start. shared:
    whether they share the draws of chance. noise: value and bounds by name of a variant; 1
    is the least possible.
    """

    title: str
    options: Mapping[str, Any]
    group: int
    shared: bool
    noise: Mapping[str, tuple[float, float, float]]


def rows() -> list[Payment]:
    """What is measured, without its noise: each payment by length, then by groups.

    A stake doubles at most 15 times, and an advance needs two rounds.
    """
    base = (NUM_ROUNDS, NUM_SAMPLES, True)
    lengths = [(num, NUM_SAMPLES, True) for num in LENGTHS]
    groups = [(NUM_ROUNDS, *one) for one in itertools.product(SIZES, (True, False))]
    return [
        Payment(title, {"num_rounds": num, **options}, size, shared, {})
        for num, size, shared in (*lengths, *(one for one in groups if one != base))
        for title, options in PAYMENTS.items()
        if not ("stakes" in options and num > MOST_DOUBLED)
        if not ("advance" in options and num == 1)
    ]


VARIANTS: Mapping[str, Variant] = {
    variant.name: variant
    for variant in (
        Variant("dr_grpo", {"pool": POOLS["game, seat"]}),
        Variant("dr_grpo"),
        Variant("episode"),
        Variant("mars"),
        Variant("mars", {"pool": POOLS["game, seat, turn"]}),
        Variant("mars", {"pool": POOLS["group, seat, turn"]}),
        Variant("mars_loo", {"pool": POOLS["group, seat, turn"]}),
        Variant("gae"),
        Variant("turn_ppo"),
        Variant("random_effects"),
        Variant("random_effects", {"paid": False}),
    )
}
TITLES = {
    "dr_grpo (game, seat)": "episode (game, seat)",
    "dr_grpo": "GRPO without std",
    "episode": "GRPO",
    "mars": "`mars`",
    "mars (game, seat, turn)": "`mars` (game, seat, turn)",
    "mars (group, seat, turn)": "`mars` (group, seat, turn)",
    "mars_loo (group, seat, turn)": "`mars_loo` (group, seat, turn)",
    "gae": "`gae`",
    "turn_ppo": "`turn_ppo`",
    "random_effects": "`random_effects`",
    "random_effects paid=False": "`random_effects` paid=false",
}  # of the columns of the table


class Noise(NamedTuple):
    """The noise of a variant, 1 at best, with its interval; `high` may be infinite."""

    value: float
    low: float
    high: float


def noises(
    row: Payment, num_batches: int, names: Sequence[str] = tuple(VARIANTS)
) -> dict[str, Noise]:
    """The noise of variants in a game of one seat, on batches that do not depend on them."""
    game = Rounds(**SIZE, **row.options)
    table = _fixed_policy(game)
    rng = np.random.default_rng(0)
    credits = {name: Crediting(VARIANTS[name]) for name in names}
    squares: dict[str, list[Floats]] = {name: [] for name in names}
    keys: list[Any] = [key for _, key in table.graph.rows]
    right = np.array([game.right_answer(symbol) for _, symbol in keys])
    stake = np.array([float(game.stake(number)) for number, _ in keys])
    for number in range(NUM_WARM + num_batches):
        num_starts = NUM_EPISODES // row.group
        played = table.play(num_starts, row.group, rng, row.shared)
        if number >= NUM_WARM:
            true = _true_advantage(played, right, stake)
            for name, credit in credits.items():
                own = credit(table, played)
                means = [np.mean(own**2), np.mean(true**2), np.mean(own * true)]
                squares[name].append(np.array(means))
        table.fit_critic(played)
    return {name: _noise(np.array(found)) for name, found in squares.items()}


def rounds_graph(game: Rounds) -> Graph:
    """The graph of a game of one seat, with a row for each round and symbol, in order."""
    graph = Graph(game, lambda state, _: (state.number, state.symbol))
    for number, symbol in itertools.product(
        range(game.num_rounds), range(game.num_symbols)
    ):
        graph.row_of(game.initial_state()._replace(number=number, symbol=symbol), 0)
    return graph


def _fixed_policy(game: Rounds) -> TabularPolicy:
    """A policy that is right with probability `SKILL` in every row."""
    graph = rounds_graph(game)
    table = TabularPolicy(graph)
    rows = np.arange(len(graph.rows))
    table.probabilities(rows)  # makes room for them
    keys: list[Any] = [key for _, key in graph.rows]
    right = [game.right_answer(symbol) for _, symbol in keys]
    odds = SKILL / (1 - SKILL) * (game.num_answers - 1)
    table.logits[rows, right] = math.log(odds)
    table.remember(rows)
    return table


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
    return read_rows(Path(__file__).resolve().parents[1] / DOCS / FILE)


def read_rows(path: Path) -> list[Payment]:
    """The rows of a file; none without a file."""
    found = json.loads(path.read_text()) if path.exists() else []
    return [Payment(**one) for one in found]


def _with_noise(row: Payment, known: Sequence[Payment]) -> Payment:
    """The row with its noise: what is known of it, and the variants that are missing."""
    found = {
        n: x for one in known if one[:-1] == row[:-1] for n, x in one.noise.items()
    }
    num = max(min(NUM_TURNS // row.options["num_rounds"], MOST_BATCHES), 2)
    names = [name for name in VARIANTS if name not in found]
    for name, noise in (noises(row, num, names) if names else {}).items():
        found[name] = Noise(*(round(x, 4) for x in noise))
    return Payment(*row[:-1], {name: found[name] for name in VARIANTS})


def main(
    directory: Annotated[Path, typer.Option(help="Folder of payments.json.")] = DOCS,
) -> None:
    """Measure the noise of credit by when a game pays; write payments.json."""
    warnings.simplefilter("ignore", FlatPoolWarning)
    path, found = directory / FILE, list[Payment]()
    known = read_rows(path)
    for row in rows():
        found.append(_with_noise(row, known))
        rest = [one for one in known if one[:-1] not in [f[:-1] for f in found]]
        lines = ",\n".join(json.dumps(one._asdict()) for one in (*found, *rest))
        path.write_text(f"[\n{lines}\n]\n")
        noise = ", ".join(f"{n} {x[0]:.3g}" for n, x in found[-1].noise.items())
        typer.echo(f"{row.title}, {row.options}, {row.group}, {row.shared}: {noise}")
    path.write_text(
        "[\n" + ",\n".join(json.dumps(x._asdict()) for x in found) + "\n]\n"
    )


if __name__ == "__main__":
    run_script(main)
