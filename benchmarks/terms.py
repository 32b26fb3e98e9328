"""Loss terms, critics and rewards of recipes, beside controls without them: docs/terms.md.

    python benchmarks/terms.py

Each recipe runs with the tiny model in a small game, its options as in the recipe but for sizes, and
again without the part that it is named after. Runs of a seed share their start. All measures are exact:
NashConv, expected return and expected length of a reply are computed from the probabilities of all legal
actions in every information state.
"""

import json
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from arena_envs import make_game
from arena_envs.extras import import_extra
from arena_envs.game import AnyGame
from arena_envs.solvers import InfosetTable, expected_returns, nash_conv
from arena_envs.solvers.tabular import edge_weights, game_tree, reach_of
from arena_eval.exploit import tabular
from arena_trainers.cli.errors import usage_errors
from arena_trainers.cli.suggest import MeanDifference
from arena_trainers.lm import LMPolicy
from arena_trainers.runs import Rounds, load_recipe
from arena_trainers.terminal import Console
from comparing import (
    NumJobs,
    OnlySettings,
    Runs,
    chosen,
    draw_band,
    gain,
    interval,
    kept_runs,
    missing,
    paired_difference,
    read,
    run_missing,
    run_script,
    table,
    tell_outdated,
)
from gains import Start, learn_by_grpo, make_saved_start

FILE, PAGE = Path("docs", "terms.json"), Path("docs", "terms.md")
FIGURE = Path("docs", "images", "terms.png")
POINTS = 5  # of a curve after its start
VARIANTS = ("with", "control")
GAMES: dict[str, dict[str, Any]] = {
    "kuhn_poker": {},
    "guess_number": {"num_numbers": 6, "max_guesses": 3, "num_ranges": 1},
    "twenty_questions": {
        "num_things": 3,
        "num_questions": 2,
        "max_questions": 3,
        "show_words": True,
    },
}
TABLE = [
    ["thing", "does it move", "can people ride it"],
    ["cat", "yes", "no"],
    ["big red bus", "yes", "yes"],
    ["old blue door", "no", "no"],
]
NAMES = {
    "nash_conv": "NashConv",
    "value": "expected return",
    "tokens": "tokens of a reply",
}
OF_RECIPE = (
    "losses",
    "rewards",
    "credit",
    "credit_args",
    "critic",
    "critic_args",
    "loss_type",
    "epsilon",
    "epsilon_high",
    "beta",
    "num_iterations",
    "steps_per_generation",
    "gradient_accumulation_steps",
    "on_invalid",
    "penalty",
)
OF_LOOP = ("model", "use_cpu", "rules", "reply_format", "warm_start_steps")
TINY: dict[str, Any] = {
    "model": "tiny",
    "use_cpu": True,
    "bf16": False,
    "rules": False,
    "gradient_checkpointing": False,
    "reply_format": "bare",
    "warm_start_steps": 100,
    "learning_rate": 1e-3,
    "max_grad_norm": 1.0,
    "lr_scheduler_type": "linear",
    "episodes_per_step": 64,
    "num_generations": 8,
    "save_strategy": "no",
    "logging_strategy": "no",
    "max_completion_length": 6,
}
MEASURED = {"credit": "random_effects"}  # of the runs that there are
PLAIN: dict[str, Any] = {"critic": None, "critic_args": {}, **MEASURED}
HEAD = {"hidden_size": 32, "learning_rate": 3e-3}


@dataclass(frozen=True)
class Setting:
    """A recipe in a small game.

    Args:
        recipe: whose options it has.
        game: key of `GAMES`.
        part: what the control lacks, in words.
        control: the options of the control that differ.
        measures: names of what is measured.
        steps: optimizer steps.
        own: options that differ from those of the recipe in both; mappings are merged.
        params: of the game, beside those of `GAMES`.
    """

    recipe: str
    game: str
    part: str
    control: Mapping[str, Any]
    measures: tuple[str, ...] = ("value",)
    steps: int = 100
    own: Mapping[str, Any] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)


SETTINGS: dict[str, Setting] = {
    "kickstart": Setting(
        "kickstart",
        "kuhn_poker",
        "the term, weight 1 to 0 in 50 steps",
        {"losses": {}},
        ("nash_conv",),
        own={
            "losses": {"kickstart": {"teacher": "cfr", "weight": [1.0, 0], "over": 50}},
            **MEASURED,
        },
    ),
    "kl_to": Setting(
        "kickstart",
        "kuhn_poker",
        "the term `kl_to` the start, weight 0.2",
        {"losses": {}},
        ("nash_conv",),
        own={"losses": {"kl_to": {"weight": 0.2}}, **MEASURED},
    ),
    "entropy": Setting(
        "kickstart",
        "kuhn_poker",
        "the term `entropy`, weight 0.1",
        {"losses": {}},
        ("nash_conv",),
        own={"losses": {"entropy": {"weight": 0.1}}, **MEASURED},
    ),
    "hapo": Setting(
        "hapo",
        "guess_number",
        "`hapo_clip` in place of the plain clip",
        {"losses": {}},
        ("value",),
        120,
    ),
    "aepo": Setting(
        "aepo",
        "guess_number",
        "`aepo_clip` in place of the plain clip",
        {"losses": {}},
        ("value",),
        120,
    ),
    "ppo": Setting(
        "ppo",
        "guess_number",
        "`poad`, critic `tokens`; else `random_effects`",
        PLAIN,
        ("value",),
        120,
        own={"critic_args": HEAD},
    ),
    "poad": Setting(
        "poad",
        "guess_number",
        "`poad`, critic `tokens`; else `random_effects`",
        PLAIN,
        ("value",),
        120,
        own={"critic_args": HEAD},
    ),
    "archer": Setting(
        "archer",
        "twenty_questions",
        "critic `utterances`; else `random_effects`",
        {**PLAIN, "credit_args": {}},
        own={"critic_args": {**HEAD, "num_steps": 20, "replay": 4000}},
    ),
    "length-limit": Setting(
        "length-limit",
        "twenty_questions",
        "the limit of 3.8 tokens in the mean",
        {"rewards": {}},
        ("tokens", "value"),
        own={"rewards": {"length": {"at_most": 3.8, "rate": 0.05}}, **MEASURED},
        params={"table": TABLE},
    ),
    "self-rewarding": Setting(
        "self-rewarding",
        "guess_number",
        "two rounds on its own grades",
        {},
        ("value",),
        2,
    ),
}
LOOP: dict[str, Any] = {  # sizes of a loop's stages
    "play": {"episodes": 40, "samples": 4},
    "evaluate": {"episodes": 2},
    "train": {"learning_rate": 1e-3, "bf16": False, "save_strategy": "no"},
}


def options_of(name: str, variant: str) -> dict[str, Any]:
    """The options of `arena train` of a setting's runs."""
    setting = SETTINGS[name]
    recipe = load_recipe(setting.recipe)
    params = {**GAMES[setting.game], **setting.params}
    games = [{"id": setting.game, "params": params}]
    if "rounds" in recipe:  # hot, else the tiny model writes no grades
        rounds: dict[str, Any] = {
            key: {**recipe["rounds"][key], **loop_options}
            for key, loop_options in LOOP.items()
        }
        num = recipe["rounds"]["num"] if variant == "with" else 0
        tiny = {key: value for key, value in TINY.items() if key in OF_LOOP}
        hot = {"temperature": 3.0, "top_p": 1.0, "max_completion_length": 9}
        rounds = {**recipe["rounds"], **rounds, "num": num}
        return {**recipe, **tiny, **hot, "games": games, "rounds": rounds}
    options = {key: recipe[key] for key in OF_RECIPE if key in recipe} | TINY
    for key, value in setting.own.items():
        merged = key == "critic_args"
        options[key] = {**options[key], **value} if merged else value
    if variant == "control":
        options |= setting.control
        if options["credit"] != recipe["credit"]:
            options.pop("credit_args", None)
    return {**options, "games": games, "max_steps": setting.steps}


def made_with() -> dict[str, Any]:
    """What decides the numbers of the runs."""
    settings = {
        name: {
            "measures": setting.measures,
            **{variant: options_of(name, variant) for variant in VARIANTS},
        }
        for name, setting in SETTINGS.items()
    }
    return {"settings": settings, "variants": {name: {} for name in VARIANTS}}


def tokens_of(game: AnyGame, probs: InfosetTable, tokenizer: Any) -> float:
    """The expected length of a reply in tokens, its end included, by expected turns."""
    tree = game_tree(game)
    seats = range(tree.num_players)
    weights = edge_weights(tree, tree.vector(probs), seats)
    counts = [
        len(tokenizer.encode(game.action_text(state, action), add_special_tokens=False))
        for state in tree.states
        for action in game.legal_actions(state)
    ]
    edges = np.concatenate(tree.decisions)
    reach = reach_of(tree, weights)[tree.source[edges]] * weights[edges]
    return float(reach @ (np.array(counts)[tree.column[edges]] + 1) / reach.sum())


def measured(
    policy: LMPolicy, game: AnyGame, measures: Sequence[str]
) -> dict[str, float]:
    """The measures of a policy, exactly."""
    probs, _ = tabular(policy, game)
    values = {}
    for measure in measures:
        if measure == "nash_conv":
            values[measure] = nash_conv(game, probs)
        elif measure == "value":
            values[measure] = expected_returns(game, probs)[0]
        else:
            values[measure] = tokens_of(game, probs, policy.tokenizer)
    return {key: round(value, 5) for key, value in values.items()}


def train(setting: str, name: str, seed: int) -> dict[str, list[float]]:
    """A run: the curve of each measure, from its start on."""
    options = json.dumps({**options_of(setting, name), "seed": seed})
    return learned(options, SETTINGS[setting].measures)


@cache  # several settings have one control
def learned(options: str, measures: tuple[str, ...]) -> dict[str, list[float]]:
    """The curves of a run with these options, as JSON."""
    warnings.simplefilter("ignore")
    settings = json.loads(options)
    game = make_game(settings["games"][0]["id"], **settings["games"][0]["params"])
    if "rounds" in settings:
        return rounds_of(settings, game)
    start = start_of(json.dumps(settings["games"]), settings["seed"])
    points = learn_by_grpo(
        {**settings, "model": str(start.folder), "warm_start_steps": 0},
        start.folder,
        start.tokenizer,
        settings["max_steps"] // POINTS,
        lambda policy: measured(policy, game, measures),
    )
    return {key: [point[key] for point in (start.point, *points)] for key in measures}


def rounds_of(options: dict[str, Any], game: AnyGame) -> dict[str, list[float]]:
    """The value of the start and after each round of a loop; without rounds, of the start."""
    num = options["rounds"]["num"]
    options_with_a_round = {**options, "rounds": {**options["rounds"], "num": num or 1}}
    with tempfile.TemporaryDirectory() as folder:
        job = Rounds(options_with_a_round, Path(folder), Console(quiet=True))
        job.prepare()
        if num:
            job.run()
        names = ["start", *(f"round-{n:02}/model" for n in range(num))]
        models = [LMPolicy.from_pretrained(Path(folder) / name) for name in names]
        values = [measured(model, game, ("value",))["value"] for model in models]
    return {"value": values if num else values * 3}


@cache
def start_of(games: str, seed: int) -> Start:
    """The model that all runs of a game, given as JSON, and of a seed start from."""
    options = {**TINY, "games": json.loads(games), "seed": seed}
    (spec,) = options["games"]
    names = ("nash_conv",) if spec["id"] == "kuhn_poker" else ("value", "tokens")
    rules = make_game(spec["id"], **spec["params"])
    return make_saved_start(options, lambda policy: measured(policy, rules, names))


def part(curve: list[float], late: bool) -> float:
    """The mean of a curve over its points 1 and 2, or over the last two."""
    return float(np.mean(curve[-2:] if late else curve[1:3]))


def curves(runs: Runs, name: str, variant: str, measure: str) -> list[list[float]]:
    """The curves of a setting's runs, by seed."""
    run_of = runs.get(name, {}).get(variant, {})
    return [run_of[seed][measure] for seed in sorted(run_of)]


def difference(
    runs: Runs, name: str, measure: str, late: bool
) -> MeanDifference | None:
    """With less without, over the seeds of both; None with fewer than two."""
    both = [runs.get(name, {}).get(variant, {}) for variant in VARIANTS]
    seeds = sorted(set.intersection(*map(set, both)))
    if len(seeds) < 2:
        return None
    with_part, control = (
        [part(run_of[seed][measure], late) for seed in seeds] for run_of in both
    )
    return paired_difference(with_part, control)


def is_shown(gap: MeanDifference | None) -> bool:
    """Whether a difference is significant, and no zero in a table."""
    return gap is not None and gap.is_significant and abs(gap.value) >= 0.001


def changed(runs: Runs, name: str) -> list[str]:
    """The measures of a setting with a significant difference, early or late."""
    return [
        measure
        for measure in SETTINGS[name].measures
        for gaps in [[difference(runs, name, measure, late) for late in (False, True)]]
        if any(is_shown(gap) for gap in gaps)
    ]


def rows(runs: Runs) -> list[list[str]]:
    """The rows of the table."""
    cells = []
    for name, setting in SETTINGS.items():
        for measure in setting.measures:
            both = [curves(runs, name, v, measure) for v in VARIANTS]
            start = f"{np.mean([c[0] for c in both[0]]):.3f}" if both[0] else "-"
            means = [
                f"{interval([part(c, True) for c in variant_curves]).mean:.3f}"
                if variant_curves
                else "-"
                for variant_curves in both
            ]
            gaps = [difference(runs, name, measure, late) for late in (False, True)]
            where = f"{setting.game}, {NAMES[measure]}"
            row = [f"`{name}`", setting.part, where, str(len(both[0])), start]
            gains = [gain(gap) for gap in gaps]
            gains = [
                text if is_shown(gap) else text.replace("*", "")
                for gap, text in zip(gaps, gains, strict=True)
            ]
            cells.append([*row, *means, *gains])
    return cells


def page(runs: Runs) -> str:
    """The page."""
    effect = [name for name in SETTINGS if changed(runs, name)]
    none = [name for name in SETTINGS if name not in effect]
    head = [
        "recipe or term",
        "what the control lacks",
        "game, measure",
        "seeds",
        "start",
    ]
    head += ["with, late", "control, late", "difference, early", "difference, late"]
    params, numbers = (
        ", ".join(f"{key}={value}" for key, value in GAMES[game].items())
        for game in ("twenty_questions", "guess_number")
    )
    parts = [
        "# Terms, critics and rewards beside controls",
        "Written by `python benchmarks/terms.py` from `terms.json`. Each recipe of\n"
        "[papers](papers.md) that is a loss term, a critic or a reward, with the tiny model in a small\n"
        "game, and a control from the same starts without that part. Its options are the recipe's, but\n"
        "for sizes and learning rates. It tests the code, and says nothing of large models.",
        table(head, rows(runs)).strip(),
        "- Differences are with less control, paired by seed, ± half the 95 % interval (Student's t). Bold:\n"
        "  the interval does not hold 0, and the difference is at least 0.001. No correction: of the\n  "
        f"{2 * len(rows(runs))} intervals one in twenty lacks 0 by chance. All have at least three seeds;\n"
        "  more were added where three left a difference of one sign in doubt, so that p is optimistic there.\n"
        f"- *Early* is the mean of the first two of {POINTS} evaluations, *late* of the last two, of a loop "
        "both are of\n  its two rounds. Lower NashConv is better.\n"
        f"- All measures are exact, over legal actions. `guess_number` has {numbers}, `twenty_questions`\n"
        f"  {params}; for `length-limit` two of the three things have names of three words. A limit "
        "below 4\n  cannot be kept without a loss: the shortest order of guesses has 4 tokens in the mean. Limits of 4 and 4.2\n  were tried before, on one seed, and did not bind.\n"
        "- A batch has 64 episodes, 8 of each start; the learning rate is 0.001, falling to 0. Runs have 100 "
        "updates,\n  those of `hapo`, `aepo`, `ppo` and `poad` 120, of 30, 30, 30 and 12 batches.\n"
        "- The judge of `self-rewarding` is the tiny model, whose grades know nothing; its replies are "
        "sampled at\n  temperature 3, else it writes none.",
        f"A difference was found for: {', '.join(f'`{n}`' for n in effect) or 'none'}. "
        f"No difference found: {', '.join(f'`{n}`' for n in none) or 'none'}.",
        "![Curves with the part and without it](images/terms.png)",
        "<!-- run: no, an hour on a busy core -->\n"
        "```sh\npython benchmarks/terms.py   # stops and goes on\n```",
    ]
    return "\n\n".join(parts) + "\n"


def draw(runs: Runs) -> None:
    """The curves of the settings in which a measure changes."""
    panels_drawn = [(name, m) for name in SETTINGS for m in changed(runs, name)]
    if not panels_drawn:
        return
    width = min(3, len(panels_drawn))
    height = -(-len(panels_drawn) // width)
    figure = import_extra("matplotlib.figure", "eval").Figure(
        figsize=(3.6 * width, 2.8 * height), layout="constrained"
    )
    panels = figure.subplots(height, width, squeeze=False).ravel()
    for panel in panels[len(panels_drawn) :]:
        panel.axis("off")
    for panel, (name, measure) in zip(panels, panels_drawn, strict=False):
        for variant, color in zip(VARIANTS, ("C0", "C7"), strict=True):
            variant_curves = curves(runs, name, variant, measure)
            num = len(variant_curves[0]) - 1
            x = [SETTINGS[name].steps // num * i for i in range(num + 1)]
            draw_band(panel, x, variant_curves, variant, color)
        panel.set(title=name, xlabel="update", ylabel=NAMES[measure])
    panels[0].legend(fontsize="small")
    figure.savefig(FIGURE, dpi=100, metadata={"Software": None})


def main(
    num_seeds: Annotated[
        int, typer.Option("--seeds", help="Number of seeds; 0 writes the page alone.")
    ] = 3,
    game: OnlySettings = None,
    num_jobs: NumJobs = 1,
) -> None:
    """Does the missing runs, and writes page and figure."""
    with usage_errors():
        names = chosen(game, SETTINGS)
        runs_of_file = read(FILE, made_with())
    tell_outdated(FILE, made_with())
    todo = missing(runs_of_file, VARIANTS, names, num_seeds)
    with kept_runs(FILE):
        runs = (
            run_missing(FILE, made_with(), todo, train, num_jobs, typer.echo)
            if todo
            else runs_of_file
        )
    PAGE.write_text(page(runs))
    draw(runs)


if __name__ == "__main__":
    run_script(main)
