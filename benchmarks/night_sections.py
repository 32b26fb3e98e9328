"""Sections of docs/self-play.md: reasons before the action, and curves of papers with the tiny model.

Their cells are those of `tiny_curves.py` and `night_reasons.py`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from arena_envs.extras import import_extra
from comparing import Runs, draw_band, interval, paired_difference, table

REASONS_DATA = "self-play-reasons.json"
CURVES_DATA = "self-play-curves.json"
CURVES_PICTURE = "self-play-curves.png"
BLIND = "blind"
PRETRAINED = "smollm2"  # runs with reasons, by seed
Values = Mapping[int, float]  # by seed


def cells_of(path: Path) -> Runs:
    """The cells of a file, by setting, variant and seed; none without a file."""
    if not path.exists():
        return {}
    runs = json.loads(path.read_text())["runs"]
    return {
        setting: {
            variant: {int(seed): cell for seed, cell in seeds.items()}
            for variant, seeds in variants.items()
        }
        for setting, variants in runs.items()
    }


def curves(
    runs: Runs, setting: str, variant: str, measure: str
) -> dict[int, list[float]]:
    """The curve of each seed; the first value is that of the start."""
    return {
        seed: cell["curves"][measure]
        for seed, cell in sorted(runs.get(setting, {}).get(variant, {}).items())
    }


def before(runs: Runs, setting: str, variant: str, measure: str) -> dict[int, float]:
    """A measure of the start, by seed."""
    return {s: c[0] for s, c in curves(runs, setting, variant, measure).items()}


def after(runs: Runs, setting: str, variant: str, measure: str) -> dict[int, float]:
    """A measure at the end, by seed."""
    return {s: c[-1] for s, c in curves(runs, setting, variant, measure).items()}


def minus(first: Values, second: Values, share: float = 1.0) -> dict[int, float]:
    """Differences of common seeds; the second times a share."""
    return {s: first[s] - share * second[s] for s in sorted({*first} & {*second})}


class Claim(NamedTuple):
    """What was expected before the runs.

    Attributes:
        text: in the table.
        value: the number, by seed.
        low: the least mean that agrees.
        high: the largest mean that agrees.
    """

    text: str
    value: Callable[[Runs], Values]
    low: float = float("-inf")
    high: float = float("inf")


def change(setting: str, variant: str, measure: str) -> Callable[[Runs], Values]:
    """The change of a measure over training."""
    return lambda runs: minus(
        after(runs, setting, variant, measure), before(runs, setting, variant, measure)
    )


def end(setting: str, variant: str, measure: str) -> Callable[[Runs], Values]:
    """A measure at the end."""
    return lambda runs: after(runs, setting, variant, measure)


def co_evolved(runs: Runs) -> Values:
    """The leak of both sides less that of the defenders against frozen attackers."""
    return minus(
        after(runs, "advevo", "both", "both_leak"),
        after(runs, "advevo", "both", "defenders_leak"),
    )


def transferred(runs: Runs) -> Values:
    """The gain with four players after training with two, less half of that after training with four."""
    return minus(
        change("players", "small", "return_4")(runs),
        change("players", "large", "return_4")(runs),
        0.5,
    )


def larger_boards(runs: Runs) -> Values:
    """Success on 5 x 5: trained there, less trained on small boards."""
    return minus(
        after(runs, "boards", "large", "success_5"),
        after(runs, "boards", "small", "success_5"),
    )


def between_credits(runs: Runs) -> Values:
    """NashConv with reasons: the default less `episode`."""
    return minus(
        after(runs, "reasons", "default", "nash_conv"),
        after(runs, "reasons", "episode", "nash_conv"),
    )


class Part(NamedTuple):
    """A part of a section.

    Attributes:
        title: its heading.
        text: what was run.
        variants: their titles.
        measures: their titles.
        blind: titles of policies that read no prompt.
        drawn: curves in the picture: variant, measure and label.
        claims: what was expected.
    """

    title: str
    text: str
    variants: Mapping[str, str]
    measures: Mapping[str, str]
    blind: Mapping[str, str]
    drawn: Sequence[tuple[str, str, str]]
    claims: Sequence[Claim]


def table_of(runs: Runs, setting: str, part: Part) -> str:
    """Each measure of the start, of each variant at its end with the change, and of blind policies."""
    first, *_ = part.variants
    points = runs.get(setting, {}).get(BLIND, {}).get(0, {"points": {}})["points"]
    rows = []
    for name, title in part.measures.items():
        row = [title, mean_text(before(runs, setting, first, name))]
        for variant in part.variants:
            last = after(runs, setting, variant, name)
            gain = change_text(minus(last, before(runs, setting, variant, name)))
            row.append(f"{mean_text(last)} ({gain})" if last else "-")
        for policy in part.blind:
            point = points.get(policy, {})
            row.append(f"{point[name]:z.3f}" if name in point else "")
        rows.append(row)
    heads = ["", "start", *part.variants.values(), *part.blind.values()]
    return table(heads, rows).strip()


def mean_text(numbers: Values) -> str:
    """The mean over seeds with half its 95 % interval; "-" where there is none."""
    if not numbers:
        return "-"
    mean = interval([*numbers.values()])
    text = f"{mean.mean:z.3f}"
    return text if mean.num < 2 else f"{text} ± {mean.high - mean.mean:.3f}"


def change_text(changes: Values) -> str:
    """The mean change with half its interval; bold if the interval excludes 0."""
    numbers = [*changes.values()]
    if not numbers:
        return "-"
    if len(numbers) < 2:
        return f"{numbers[0]:+z.3f}, one seed"
    difference = paired_difference(numbers, [0.0] * len(numbers))
    text = f"{difference.value:+z.3f} ± {difference.wide:.3f}"
    return f"**{text}**" if abs(difference.value) > difference.wide else text


def claims_table(runs: Runs, part: Part) -> str:
    """What was expected, what came, and whether its mean agrees."""
    rows = []
    for claim in part.claims:
        numbers = claim.value(runs)
        if not numbers:
            rows.append([claim.text, "-", "-"])
            continue
        mean = interval([*numbers.values()]).mean
        agrees = claim.low <= mean <= claim.high
        rows.append([claim.text, mean_text(numbers), "yes" if agrees else "no"])
    return table(["expected", "came", "agrees"], rows).strip()


PARTS: dict[str, Part] = {
    "advevo": Part(
        "Attackers and defenders (AdvEvo)",
        "`secret_keeper` with one digit, four passwords and two rounds, and an adapter for each role (recipe\n"
        "`advevo`). At the start writers say random words, the subject the password in a third of its requests\n"
        "more, and the keeper tells at random. *Frozen* is the start.",
        {"both": "both sides learn"},
        {
            "defenders_utility": "utility, frozen attacker",
            "defenders_leak": "leak, frozen attacker",
            "attacker_leak": "leak, frozen defenders",
            "both_utility": "utility, both",
            "both_leak": "leak, both",
        },
        {
            "first": "keeper that always tells",
            "random": "keeper at random",
            "refuses": "keeper that refuses",
            "honest": "keeper that tells whoever says the password",
        },
        (
            ("both", "both_utility", "utility, both learn"),
            ("both", "both_leak", "leak, both learn"),
            ("both", "defenders_leak", "leak, frozen attacker"),
            ("both", "attacker_leak", "leak, frozen defenders"),
        ),
        (
            Claim(
                "utility against frozen attackers rises by 0.2",
                change("advevo", "both", "defenders_utility"),
                low=0.2,
            ),
            Claim(
                "leak against frozen attackers falls by 0.1",
                change("advevo", "both", "defenders_leak"),
                high=-0.1,
            ),
            Claim(
                "attackers that learn keep the leak of both 0.05 above that",
                co_evolved,
                low=0.05,
            ),
            Claim(
                "attackers gain nothing (0.05) against frozen keepers, who tell at random",
                change("advevo", "both", "attacker_leak"),
                low=-0.05,
                high=0.05,
            ),
        ),
    ),
    "players": Part(
        "From two players to four",
        "Kuhn poker. *Small* trains with two players and *large* with four, as many episodes; the start has imitated\n"
        "random play of all sizes. Returns are exact, against random play.",
        {"small": "trained with 2", "large": "trained with 4"},
        {
            "return_2": "return, 2 players",
            "return_3": "3 players",
            "return_4": "4 players",
            "legal_4": "legal, 4 players",
        },
        {"first": "always passes", "bets": "always bets"},
        tuple(
            (v, f"return_{n}", f"{n} players, trained with {m}")
            for v, m in (("small", 2), ("large", 4))
            for n in (2, 4)
        ),
        (
            Claim(
                "trained with 2, the return with 2 exceeds always betting (0.375)",
                end("players", "small", "return_2"),
                low=0.375,
            ),
            Claim(
                "trained with 2, the gain with 4 is at least half of that of training with 4: gain less half",
                transferred,
                low=0.0,
            ),
        ),
    ),
    "boards": Part(
        "From small boards to larger ones",
        "Frozen lake without slips, on maps drawn at random; maps that measure are never trained. *Small* trains on\n"
        "3 x 3 cells, *large* on 5 x 5. The share of maps that are crossed:",
        {"small": "trained on 3 x 3", "large": "trained on 5 x 5"},
        {f"success_{n}": f"{n} x {n}" for n in (3, 4, 5)},
        {
            "random": "random",
            "down": "always down",
            "down, right": "down and right by turns",
        },
        tuple(
            (v, f"success_{n}", f"{n} x {n}, {title}")
            for v, title in (("small", "small"), ("large", "large"))
            for n in (3, 5)
        ),
        (
            Claim(
                "small: success on 3 x 3 rises by 0.3",
                change("boards", "small", "success_3"),
                low=0.3,
            ),
            Claim(
                "small: success on 5 x 5 rises by less than 0.1",
                change("boards", "small", "success_5"),
                high=0.1,
            ),
            Claim(
                "large is above small on 5 x 5: large - small", larger_boards, low=0.0
            ),
        ),
    ),
    "epo": Part(
        "A judge of each plan, or pay at the end (EPO)",
        "A strategist writes a plan, an actor that stays as it is moves (recipe `epo`), on one lake of 4 x 4 cells with eight\n"
        "moves. With the *judge*, a solver also pays each move by how much nearer the goal it leads.",
        {"end": "paid at the end", "judge": "and by the judge"},
        {"success": "reaches the goal", "legal": "legal moves"},
        {
            "random": "random",
            "down": "always down",
            "down, right": "down and right by turns",
        },
        (
            ("end", "success", "paid at the end"),
            ("judge", "success", "and by the judge"),
        ),
        (
            Claim("judge: success of 0.5", end("epo", "judge", "success"), low=0.5),
            Claim("end: success below 0.2", end("epo", "end", "success"), high=0.2),
        ),
    ),
    "reasons": Part(
        "Reasons before the action",
        "",
        {"default": "`control_variates`", "episode": "`episode`"},
        {
            "nash_conv": "NashConv",
            "return": "return against random play",
            "information": "bits of the reason on the card",
            "true": "share of true reasons",
            "of_card": "share of reasons on the card",
            "words": "words of a reason",
            "other": "probability of other replies",
            "follows_card": "change of P(bet), other card",
            "follows_values": "change of P(bet), other values",
        },
        {"first": "always passes", "bets": "always bets", "random": "random"},
        (
            ("default", "nash_conv", "`control_variates`"),
            ("episode", "nash_conv", "`episode`"),
        ),
        (
            Claim(
                "`control_variates`: NashConv falls by 0.2",
                change("reasons", "default", "nash_conv"),
                high=-0.2,
            ),
            Claim(
                "`episode`: NashConv falls by 0.2",
                change("reasons", "episode", "nash_conv"),
                high=-0.2,
            ),
            Claim(
                "the default is not above `episode` in NashConv: default - `episode`",
                between_credits,
                high=0.0,
            ),
            Claim(
                "bits on the card change by less than 0.3 (default)",
                change("reasons", "default", "information"),
                low=-0.3,
                high=0.3,
            ),
            Claim(
                "another card's reason changes P(bet) by less than 0.1 (default)",
                end("reasons", "default", "follows_card"),
                high=0.1,
            ),
        ),
    ),
}


CURVES_TEXT = (
    "The tiny model of `arena train`, three seeds, each with a start of its own that imitates random play, and 20 steps.\n"
    "Written from `self-play-curves.json` of `python benchmarks/tiny_curves.py`. Cells are means at the end, with the\n"
    "change from the start in brackets. *Expected* was committed before the runs, after pilots of two steps; it *agrees* if the mean over seeds does."
)
REASONS_TEXT = (
    'The tiny model replies in Kuhn poker with "Because K wins every showdown therefore bet". The start imitates, in each\n'
    "state, two true reasons: one of the card, one of the values of both actions in an equilibrium that a solver computed.\n"
    "Its actions are random in 70 % of cases and else those of the equilibrium. Self-play then credits reason and answer,\n"
    "20 steps of 64 episodes: with `control_variates`, where they are separate covariates, or with `episode`.\n"
    "There are six reasons, so NashConv and return against random play are exact sums over reasons. *Bits* are the mutual\n"
    "information of reason and card (at most 1.585). *Change of P(bet)*: how much it changes if the reason is\n"
    "replaced by that of another card, or by another one on values, with the prompt as it is. *Other replies*\n"
    "are none of these reasons with a legal action. No step size was tuned for a credit."
)


NO_PRETRAINED = (
    "The same with SmolLM2-135M has not been run. `python benchmarks/night_reasons.py` does it, in about half a CPU hour\n"
    "(an estimate from the steps of Kuhn poker above)."
)
PRETRAINED_TEXT = "SmolLM2-135M with a LoRA adapter, `python benchmarks/night_reasons.py`, 20 steps of 32 episodes from one start:"


def sections(directory: Path) -> list[str]:
    """The sections, with their picture.

    Args:
        directory: of the data.
    """
    runs = cells_of(directory / CURVES_DATA)
    if not runs:
        return []
    papers = [
        text
        for setting, part in PARTS.items()
        if setting != "reasons" and has_curves(runs, setting)
        for text in (f"### {part.title}", *texts_of(runs, setting, part))
    ]
    reasons = PARTS["reasons"]._replace(text=REASONS_TEXT)
    cost = sum(
        cell["cpu_seconds"]
        for variants in runs.values()
        for cells in variants.values()
        for cell in cells.values()
    )
    pretrained = cells_of(directory / REASONS_DATA)
    return [
        f"## {reasons.title}",
        *texts_of(runs, "reasons", reasons),
        *pretrained_texts(pretrained),
        "## Curves of papers",
        f"{CURVES_TEXT}\nAll runs of this and the last section took {cost / 60:.0f} CPU minutes.",
        f"![Learning curves](images/{CURVES_PICTURE})",
        *papers,
    ]


def has_curves(runs: Runs, setting: str) -> bool:
    """Whether a run of a setting has ended."""
    return bool({*runs.get(setting, {})} - {BLIND})


def texts_of(runs: Runs, setting: str, part: Part) -> list[str]:
    """What was run, what was measured, and what was expected."""
    return [part.text, table_of(runs, setting, part), claims_table(runs, part)]


def pretrained_texts(runs: Runs) -> list[str]:
    """The runs of SmolLM2 that have ended."""
    if not runs:
        return [NO_PRETRAINED]
    part = PARTS["reasons"]
    return [PRETRAINED_TEXT, table_of(runs, PRETRAINED, part._replace(blind={}))]


def draw_curves(directory: Path) -> None:
    """The picture: a panel for each part, with 95 % intervals over seeds."""
    path = directory / CURVES_DATA
    runs = cells_of(path)
    if not runs:
        return
    every = {
        name: setting["every"]
        for name, setting in json.loads(path.read_text())["settings"].items()
    }
    parts = {n: part for n, part in PARTS.items() if has_curves(runs, n)}
    figure = import_extra("matplotlib.figure", "eval").Figure(
        figsize=(8.4, 8.4), layout="constrained"
    )
    panels = figure.subplots(3, 2).flatten()
    for panel, (setting, part) in zip(panels, parts.items(), strict=False):
        for number, (variant, measure, label) in enumerate(part.drawn):
            by_seed = [*curves(runs, setting, variant, measure).values()]
            if by_seed:
                x = [every[setting] * i for i in range(len(by_seed[0]))]
                draw_band(panel, x, by_seed, label.replace("`", ""), f"C{number}")
        panel.set_title(part.title, fontsize="medium")
        panel.set_xlabel("steps")
        panel.legend(fontsize="x-small")
    for panel in panels[len(parts) :]:
        panel.axis("off")
    (directory / "images").mkdir(exist_ok=True)
    figure.savefig(
        directory / "images" / CURVES_PICTURE, dpi=100, metadata={"Software": None}
    )
