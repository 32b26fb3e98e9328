"""Sections of docs/self-play.md: reasons before the action, and curves of papers with the tiny model.

Their cells are those of `tiny_curves.py` and `night_reasons.py`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from arena_envs.extras import import_extra
from comparing import Runs, draw_band, interval, paired_difference, table
from night_settings import NUM_SEEDS

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


def first_values(
    runs: Runs, setting: str, variant: str, measure: str
) -> dict[int, float]:
    """A measure of the start, by seed."""
    return {s: c[0] for s, c in curves(runs, setting, variant, measure).items()}


def last_values(
    runs: Runs, setting: str, variant: str, measure: str
) -> dict[int, float]:
    """A measure at the end, by seed."""
    return {s: c[-1] for s, c in curves(runs, setting, variant, measure).items()}


def differences(first: Values, second: Values, share: float = 1.0) -> dict[int, float]:
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
    return lambda runs: differences(
        last_values(runs, setting, variant, measure),
        first_values(runs, setting, variant, measure),
    )


def at_end(setting: str, variant: str, measure: str) -> Callable[[Runs], Values]:
    """A measure at the end."""
    return lambda runs: last_values(runs, setting, variant, measure)


def co_evolved(runs: Runs) -> Values:
    """The leak of both sides less that of the defenders against frozen attackers."""
    return differences(
        last_values(runs, "advevo", "both", "both_leak"),
        last_values(runs, "advevo", "both", "defenders_leak"),
    )


def transferred(runs: Runs) -> Values:
    """The gain with four players after training with two, less half of that after training with four."""
    return differences(
        change("players", "small", "return_4")(runs),
        change("players", "large", "return_4")(runs),
        0.5,
    )


def larger_boards(runs: Runs) -> Values:
    """Success on 5 x 5: trained there, less trained on small boards."""
    return differences(
        last_values(runs, "boards", "large", "success_5"),
        last_values(runs, "boards", "small", "success_5"),
    )


def between_credits(setting: str) -> Callable[[Runs], Values]:
    """NashConv with reasons: the default less `episode`."""
    return lambda runs: differences(
        last_values(runs, setting, "default", "nash_conv"),
        last_values(runs, setting, "episode", "nash_conv"),
    )


class CurveSection(NamedTuple):
    """A setting of `tiny_curves.py` on the page.

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


def table_of(runs: Runs, setting: str, part: CurveSection) -> str:
    """Each measure of the start, of each variant at its end with the change, and of blind policies."""
    first, *_ = part.variants
    points = runs.get(setting, {}).get(BLIND, {}).get(0, {"points": {}})["points"]
    rows = []
    for name, title in part.measures.items():
        row = [title, mean_text(first_values(runs, setting, first, name))]
        for variant in part.variants:
            last = last_values(runs, setting, variant, name)
            gain = change_text(
                differences(last, first_values(runs, setting, variant, name))
            )
            row.append(f"{mean_text(last)} ({gain})" if last else "-")
        for policy in part.blind:
            point = points.get(policy, {})
            row.append(f"{point[name]:z.3f}" if name in point else "")
        rows.append(row)
    heads = ["", "start", *part.variants.values(), *part.blind.values()]
    return table(heads, rows).strip()


def mean_text(numbers: Values, sign: str = "") -> str:
    """The mean over seeds with half its 95 % interval; "-" where there is none.

    Args:
        numbers: by seed.
        sign: "+" writes the sign of positive means, too.
    """
    if not numbers:
        return "-"
    mean = interval([*numbers.values()])
    text = f"{mean.mean:{sign}z.3f}"
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


def claims_table(runs: Runs, part: CurveSection) -> str:
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


REASONS_CLAIMS = (
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
        "NashConv: default - `episode` is at most 0",
        between_credits("reasons"),
        high=0.0,
    ),
    Claim(
        "information of reason and card changes by less than 0.3 bits (default)",
        change("reasons", "default", "information"),
        low=-0.3,
        high=0.3,
    ),
    Claim(
        "another card's reason changes P(bet) by less than 0.1 (default)",
        at_end("reasons", "default", "follows_card"),
        high=0.1,
    ),
)
PRETRAINED_CLAIMS = (
    Claim(
        "`control_variates`: NashConv is below 0.5 at the end",
        at_end(PRETRAINED, "default", "nash_conv"),
        high=0.5,
    ),
    Claim(
        "`episode`: NashConv falls by 0.2",
        change(PRETRAINED, "episode", "nash_conv"),
        high=-0.2,
    ),
    Claim(
        "NashConv: default - `episode` is at most 0",
        between_credits(PRETRAINED),
        high=0.0,
    ),
    Claim(
        "another card's reason changes P(bet) by 0.15 or more (default)",
        at_end(PRETRAINED, "default", "follows_card"),
        low=0.15,
    ),
)


CURVES: dict[str, CurveSection] = {
    "advevo": CurveSection(
        "Attackers and defenders (AdvEvo)",
        "`secret_keeper` with one digit, four passwords and two rounds, and an adapter for each role (recipe `advevo`).\n"
        "The start imitates play in which the subject writes the password in 5 of 12 requests and the attacker in 1 of 8, and\n"
        "the keeper tells at random. *Frozen* players are the start. A keeper that tells in every round is paid\n"
        "(1 - 1/2) / 2 - 1/2 = -0.25 in the first, and 0 if it refuses.",
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
                "leak where both learn, less leak against frozen attackers: at least 0.05",
                co_evolved,
                low=0.05,
            ),
            Claim(
                "leak against frozen defenders, who tell at random, changes by less than 0.05",
                change("advevo", "both", "attacker_leak"),
                low=-0.05,
                high=0.05,
            ),
        ),
    ),
    "players": CurveSection(
        "From two players to four",
        "Kuhn poker. One run trains with two players, the other with four, on equally many episodes. The start imitates\n"
        "random play with two, three and four. Returns are exact, against random play.",
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
                at_end("players", "small", "return_2"),
                low=0.375,
            ),
            Claim(
                "gain with 4 players: trained with 2, less half of that trained with 4, is at least 0",
                transferred,
                low=0.0,
            ),
        ),
    ),
    "boards": CurveSection(
        "From small boards to larger ones",
        "Frozen lake without slips, on maps drawn at random. *Small* trains on 3 x 3 cells, *large* on 5 x 5. The table has\n"
        "the share of maps that are crossed, on maps that were never trained on:",
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
                "success on 5 x 5: large - small is at least 0", larger_boards, low=0.0
            ),
        ),
    ),
    "epo": CurveSection(
        "A judge of each move, or pay at the end (EPO)",
        "A strategist writes a plan, and an actor with frozen weights moves (recipe `epo`), on one lake of 3 x 3 cells with six\n"
        "moves. The *judge* is a solver: it also pays each move by how much nearer the goal it leads. The lake was changed once:\n"
        "with 4 x 4 cells, eight moves and 8 episodes a step, no walk of seed 0 reached the goal with either pay.",
        {"end": "paid at the end", "judge": "paid by the judge, too"},
        {"success": "reaches the goal", "legal": "legal moves"},
        {
            "random": "random",
            "down": "always down",
            "down, right": "down and right by turns",
        },
        (
            ("end", "success", "paid at the end"),
            ("judge", "success", "paid by the judge, too"),
        ),
        (
            Claim("judge: success of 0.5", at_end("epo", "judge", "success"), low=0.5),
            Claim("end: success below 0.2", at_end("epo", "end", "success"), high=0.2),
        ),
    ),
    "reasons": CurveSection(
        "Reasons before the action",
        "",
        {"default": "`control_variates`", "episode": "`episode`"},
        {
            "nash_conv": "NashConv",
            "return": "return against random play",
            "information": "information of reason and card, bits",
            "true": "share of true reasons",
            "of_card": "share of reasons on the card",
            "words": "words of a reason",
            "other": "probability of any other reply",
            "follows_card": "change of P(bet), reason of another card",
            "follows_values": "change of P(bet), other reason on values",
        },
        {"first": "always passes", "bets": "always bets", "random": "random"},
        (
            ("default", "nash_conv", "NashConv, `control_variates`"),
            ("episode", "nash_conv", "NashConv, `episode`"),
        ),
        REASONS_CLAIMS,
    ),
}


CURVES_TEXT = (
    "Runs of the tiny model of `arena train`: 20 steps, up to three seeds. Each seed has its own start, which imitates random\n"
    "play. `python benchmarks/tiny_curves.py` writes `self-play-curves.json` and these sections. Cells are means at the end,\n"
    "with the change from the start in brackets. *Expected* was committed before the runs, after pilots of two steps. It\n"
    "*agrees* if the mean over seeds does. The last columns are policies that do not read the prompt, unless their name says\n"
    "otherwise: only a result above the best of them shows that the model reads it."
)
REASONS_TEXT = (
    'The tiny model replies in Kuhn poker with "Because K wins every showdown therefore bet". The start imitates, in each\n'
    "state, two true reasons: one on the card, one on the values of both actions in an equilibrium that a solver computed.\n"
    "70 % of its actions are random, the others those of the equilibrium. Self-play has 20 steps of 64 episodes and credits\n"
    "both reason and answer: with `control_variates`, where each has its own slope, or with `episode`. No step size was\n"
    "tuned for either.\n"
    "\n"
    "There are six reasons, so NashConv and return against random play are exact sums over reasons. *Information* is the mutual\n"
    "information of reason and card, at most 1.585 bits. *Change of P(bet)* is the mean absolute change if another reason of\n"
    "the same kind replaces the reason and the prompt stays. *Any other reply* is one without a listed reason or without a\n"
    "legal action."
)


NO_PRETRAINED = "SmolLM2-135M has not been run. `python benchmarks/night_reasons.py` runs it, in about a CPU hour."
PRETRAINED_TITLE = "The same with SmolLM2-135M"
PRETRAINED_TEXT = (
    "A LoRA adapter as above, 60 steps of 64 episodes from one start, which imitates the same reasons in 24 steps of 16 replies;\n"
    "`python benchmarks/night_reasons.py`. Always betting, to which runs without reasons come, has a NashConv of 0.667.\n"
    "*Expected* was written after runs of 20 steps of 32 episodes, in which NashConv fell from 0.86 to 0.48 ± 0.16 (`control_variates`, three\n"
    "seeds) and to 0.71 ± 0.52 (`episode`), and after a pilot of this length (`control_variates`, one seed: 0.37)."
)


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
        for setting, part in CURVES.items()
        if setting != "reasons" and has_curves(runs, setting)
        for text in (f"### {part.title}", *texts_of(runs, setting, part))
    ]
    reasons = CURVES["reasons"]._replace(text=REASONS_TEXT)
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
        f"{CURVES_TEXT}\nAll runs of this section and the last took {cost / 60:.0f} CPU minutes.{missing_text(runs)}",
        f"![Learning curves](images/{CURVES_PICTURE})",
        *papers,
    ]


def missing_text(runs: Runs) -> str:
    """The runs that are missing."""
    lines = [
        f"`{setting}` `{variant}` seed {seed}"
        for setting, part in CURVES.items()
        for variant in part.variants
        for seed in range(NUM_SEEDS)
        if seed not in runs.get(setting, {}).get(variant, {})
    ]
    if not lines:
        return ""
    return f" Not run yet: {', '.join(lines)}. The same command runs them."


def has_curves(runs: Runs, setting: str) -> bool:
    """Whether a run of a setting has ended."""
    return bool({*runs.get(setting, {})} - {BLIND})


def texts_of(runs: Runs, setting: str, part: CurveSection) -> list[str]:
    """What was run, what was measured, and what was expected."""
    return [part.text, table_of(runs, setting, part), claims_table(runs, part)]


def pretrained_texts(runs: Runs) -> list[str]:
    """The runs of SmolLM2 that have ended."""
    if not runs:
        return [NO_PRETRAINED]
    part = CURVES["reasons"]._replace(blind={}, claims=PRETRAINED_CLAIMS)
    return [
        f"### {PRETRAINED_TITLE}",
        PRETRAINED_TEXT,
        table_of(runs, PRETRAINED, part),
        claims_table(runs, part),
    ]


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
    parts = {n: part for n, part in CURVES.items() if has_curves(runs, n)}
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
