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

from arena_credit import FlatPoolWarning
from arena_envs.extras import import_extra
from arena_envs.games.rounds import MOST_DOUBLED, Rounds
from comparing import run_script, table
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
    noise: Mapping[str, tuple[float, float, float]]
    group: int = NUM_SAMPLES
    shared: bool = True


def rows() -> list[Payment]:
    """What is measured, without its noise: each payment by length, then by groups.

    A stake doubles at most 15 times, and an advance needs two rounds.
    """
    base = (NUM_ROUNDS, NUM_SAMPLES, True)
    lengths = [(num, NUM_SAMPLES, True) for num in LENGTHS]
    groups = [(NUM_ROUNDS, *group) for group in itertools.product(SIZES, (True, False))]
    return [
        Payment(title, {"num_rounds": num, **options}, {}, size, shared)
        for num, size, shared in (
            *lengths,
            *(group for group in groups if group != base),
        )
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
    policy = _fixed_policy(game)
    rng = np.random.default_rng(0)
    credits = {name: Crediting(VARIANTS[name]) for name in names}
    squares: dict[str, list[Floats]] = {name: [] for name in names}
    keys: list[Any] = [key for _, key in policy.graph.rows]
    right = np.array([game.right_answer(symbol) for _, symbol in keys])
    stake = np.array([float(game.stake(number)) for number, _ in keys])
    for number in range(NUM_WARM + num_batches):
        num_starts = NUM_EPISODES // row.group
        played = policy.play(num_starts, row.group, rng, row.shared)
        if number >= NUM_WARM:
            true = _true_advantage(played, right, stake)
            for name, credit in credits.items():
                advantage = credit(policy, played)
                means = [
                    np.mean(advantage**2),
                    np.mean(true**2),
                    np.mean(advantage * true),
                ]
                squares[name].append(np.array(means))
        policy.fit_critic(played)
    return {name: _noise(np.array(moments)) for name, moments in squares.items()}


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
        square, best, both = mean
        return float(square * best / both**2) if both > 0 else math.inf

    num, total = len(means), means.sum(axis=0)
    value = of(total / num)
    without = [of((total - batch_means) / (num - 1)) for batch_means in means]
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
    entries = json.loads(path.read_text()) if path.exists() else []
    return [Payment(**entry) for entry in entries]


def _key(row: Payment) -> Payment:
    """The row without its noise."""
    return row._replace(noise={})


def _with_noise(row: Payment, measured_rows: Sequence[Payment]) -> Payment:
    """The row with its noise: what is known of it, and the variants that are missing."""
    noise_by_name = {
        n: x
        for earlier in measured_rows
        if _key(earlier) == _key(row)
        for n, x in earlier.noise.items()
    }
    num = max(min(NUM_TURNS // row.options["num_rounds"], MOST_BATCHES), 2)
    names = [name for name in VARIANTS if name not in noise_by_name]
    for name, noise in (noises(row, num, names) if names else {}).items():
        noise_by_name[name] = Noise(*(round(x, 4) for x in noise))
    return row._replace(noise={name: noise_by_name[name] for name in VARIANTS})


OWN = "random_effects"  # the default of the trainer
EPISODE, POOLS_OF_TURNS = (
    "dr_grpo (game, seat)",
    ("mars", "dr_grpo", "mars (group, seat)"),
)
GOAL = 2.0  # times the least noise of a setting


def setting_of(row: Payment) -> str:
    """What is measured in a row, in words."""
    num = row.options["num_rounds"]
    chance = "shared" if row.shared else "own"
    rounds = f"{num} round{'s' * (num > 1)}"
    return f"{row.title}, {rounds}, groups of {row.group} with {chance} chance"


def shown_rows(rows: Sequence[Payment]) -> list[Payment]:
    """Those in 8 rounds, and 64 equal ones, groups of 8 that share chance."""
    of_groups = [row for row in rows if (row.group, row.shared) == (NUM_SAMPLES, True)]
    return [
        *(row for row in of_groups if row.options["num_rounds"] == NUM_ROUNDS),
        *(
            row._replace(title=f"{row.title}, 64 rounds")
            for row in of_groups
            if row.options == {"num_rounds": 64}
        ),
    ]


def payments_table(rows: Sequence[Payment], titles: Mapping[str, str] = TITLES) -> str:
    """The noise of variants in Markdown; bold if its interval reaches the row's least.

    Args:
        rows: of payments.
        titles: of the columns, by variant.
    """
    lines = []
    for row in rows:
        least = min(row.noise[name][0] for name in titles)
        cells = [_cell(Noise(*row.noise[name]), least) for name in titles]
        lines.append([row.title, *cells])
    return table(["Paid", *titles.values()], lines)


def _cell(noise: Noise, least: float) -> str:
    wide = math.log(noise.high / noise.value) if math.isfinite(noise.high) else math.inf
    digits = 3 if wide < 0.1 else 2  # no more than the interval allows
    rounded = float(f"{noise.value:.{digits}g}")
    value = f"{rounded:,.0f}" if rounded >= 10 ** (digits - 1) else f"{rounded:g}"
    bold = f"**{value}**" if noise.low <= least else value
    return f"{bold} ± {100 * wide:.0f} %" if math.isfinite(wide) else f"{bold} or more"


def groups_table(rows: Sequence[Payment]) -> str:
    """The noise of the default by size of the group, and the least of the others."""
    kinds = [(size, True) for size in SIZES] + [(size, False) for size in SIZES]
    lines = []
    for title in PAYMENTS:
        by_kind = {
            (row.group, row.shared): row.noise
            for row in rows
            if row.title == title and row.options["num_rounds"] == NUM_ROUNDS
        }
        cells = []
        for kind in kinds:
            noise = {name: interval[0] for name, interval in by_kind[kind].items()}
            own_noise = noise.pop(OWN)
            least = min(noise, key=lambda name: noise[name])
            cells.append(f"{own_noise:.3g}<br>{noise[least]:.3g} {TITLES[least]}")
        lines.append([title, *cells])
    words = [f"{size}, {'shared' if shared else 'own'}" for size, shared in kinds]
    return table(["Paid", *words], lines)


def gains_table(rows: Sequence[Payment]) -> str:
    """By payment and chance: how much less noise the default has than other credit."""
    names = (EPISODE, "dr_grpo", "mars", "mars (game, seat, turn)")
    lines = []
    for row in rows:
        long = row.options == {"num_rounds": 64}
        if row.group == NUM_SAMPLES and (
            row.options["num_rounds"] == NUM_ROUNDS or long
        ):
            chance = "shared" if row.shared else "own"
            kind = [
                f"{row.title}{', 64 rounds' * long}",
                f"groups of {row.group}, {chance}",
            ]
            gains = [row.noise[name][0] / row.noise[OWN][0] for name in names]
            lines.append(
                [*kind, *(f"{x:,.0f}" if x >= 100 else f"{x:.2g}" for x in gains)]
            )
    return table(["Paid", "Chance", *(TITLES[name] for name in names)], lines)


def defeats(rows: Sequence[Payment]) -> tuple[list[str], list[str]]:
    """Where the default is significantly noisier than the episode or a pool; and misses `GOAL`.

    A noise is significantly larger if its interval lies above the other one's. Settings with
    the same figures, such as all payments of one round, are named once.
    """
    worse: dict[str, str] = {}
    missed: dict[str, str] = {}
    for row in rows:
        noise = {name: Noise(*interval) for name, interval in row.noise.items()}
        own_noise = noise[OWN]
        for name in (EPISODE, *POOLS_OF_TURNS):
            if name in noise and own_noise.low > noise[name].high:
                gap = f"{own_noise.value:.4g} against {noise[name].value:.4g} of {TITLES[name]}"
                worse.setdefault(gap, f"{setting_of(row)}: {gap}")
        least = min(noise, key=lambda name: noise[name].value)
        if own_noise.value > GOAL * noise[least].value:
            gap = f"{own_noise.value:.3g} against {noise[least].value:.3g} of {TITLES[least]}"
            missed.setdefault(gap, f"{setting_of(row)}: {gap}")
    return list(worse.values()), list(missed.values())


LINES = (EPISODE, "dr_grpo", "mars", "mars (game, seat, turn)", "gae", "turn_ppo", OWN)


def draw_horizon(rows: Sequence[Payment], path: Path) -> None:
    """Noise against the number of rounds: a panel for each payment, a line for each credit."""
    figure = import_extra("matplotlib.figure", "eval").Figure(
        figsize=(12, 6), layout="constrained"
    )
    panels = figure.subplots(2, 4, sharex=True, sharey=True).ravel()
    of_groups = [row for row in rows if (row.group, row.shared) == (NUM_SAMPLES, True)]
    for panel, title in zip(panels, PAYMENTS, strict=True):
        of_title = [row for row in of_groups if row.title == title]
        for number, name in enumerate(LINES):
            points = [(row.options["num_rounds"], *row.noise[name]) for row in of_title]
            x, y, low, high = zip(*points, strict=True)
            style: dict[str, Any] = {"color": f"C{number}", "linewidth": 1.2}
            if name == OWN:  # below the others
                style |= {"linewidth": 5, "alpha": 0.5, "zorder": 1}
            panel.plot(x, y, label=TITLES[name].replace("`", ""), **style)
            panel.fill_between(x, low, high, color=f"C{number}", alpha=0.2)
        panel.set(xscale="log", yscale="log", title=title)
        panel.set_xticks(LENGTHS, [str(length) for length in LENGTHS], minor=False)
        panel.minorticks_off()
        panel.title.set_fontsize("small")
    for panel in panels[4:]:
        panel.set_xlabel("rounds")
    for panel in panels[::4]:
        panel.set_ylabel("noise, 1 at best")
    panels[0].legend(fontsize="x-small")
    figure.savefig(path, dpi=110, metadata={"Software": None})


def main(
    directory: Annotated[Path, typer.Option(help="Folder of payments.json.")] = DOCS,
) -> None:
    """Measure the noise of credit by when a game pays; write payments.json."""
    warnings.simplefilter("ignore", FlatPoolWarning)
    path, measured_rows = directory / FILE, list[Payment]()
    earlier_rows = read_rows(path)
    for row in rows():
        measured_rows.append(_with_noise(row, earlier_rows))
        unmeasured = [
            earlier
            for earlier in earlier_rows
            if _key(earlier) not in map(_key, measured_rows)
        ]
        lines = ",\n".join(
            json.dumps(earlier._asdict()) for earlier in (*measured_rows, *unmeasured)
        )
        path.write_text(f"[\n{lines}\n]\n")
        noise = ", ".join(f"{n} {x[0]:.3g}" for n, x in measured_rows[-1].noise.items())
        typer.echo(f"{row.title}, {row.options}, {row.group}, {row.shared}: {noise}")
    path.write_text(
        "[\n" + ",\n".join(json.dumps(x._asdict()) for x in measured_rows) + "\n]\n"
    )


if __name__ == "__main__":
    run_script(main)
