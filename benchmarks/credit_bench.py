"""Compares all estimators by training on small games; writes docs/credit and the advice.

python benchmarks/credit_bench.py --game kuhn --only mars --only "mars (group, seat)"
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

import comparing
import credit_payments
import credit_tuned
from arena_credit import needed_columns
from arena_envs.extras import import_extra
from arena_trainers.cli.errors import usage_errors
from arena_trainers.cli.game_facts import Facts, facts_of
from arena_trainers.cli.suggest import (
    ALPHA,
    FILE,
    REFERENCE,
    SHIPPED,
    Advice,
    GameAdvice,
    MeanDifference,
    missing_text,
    p_value,
)
from comparing import (
    Mean,
    NumJobs,
    NumSeeds,
    OnlySettings,
    OnlyVariants,
    chosen,
    difference,
    draw_band,
    final,
    gain,
    holm,
    interval,
    kept_runs,
    number,
    run_script,
    seeds_needed,
    table,
    tell_outdated,
)
from credit_payments import draw_horizon, payments_table
from credit_runs import (
    COMPARED,
    MODEL_PAIRS,
    MODELS,
    NUM_LOOKED_AT,
    NUM_MODEL_SEEDS,
    NUM_SEEDS,
    Found,
    Run,
    made_with,
    missing,
    read_runs,
    run_missing,
)
from credit_settings import (
    CRITIC,
    CROSSING,
    NUM_EPISODES,
    NUM_SAMPLES,
    NUM_STARTS,
    POOLS,
    SETTINGS,
    Line,
    Setting,
    Variant,
    runnable,
    variants,
)
from tabular import EXACT


@dataclass(frozen=True)
class Choice:
    """Two variants that differ in one choice.

    Args:
        title: the choice.
        before, after: names of variants.
    """

    title: str
    before: str
    after: str


CHOICES = (
    Choice("pool (game, seat) → (game, seat, turn)", "mars", "mars (game, seat, turn)"),
    Choice(
        "pool (group, seat) → (group, seat, turn)",
        "mars (group, seat)",
        "mars (group, seat, turn)",
    ),
    Choice("pool (game, seat) → (group, seat)", "mars", "mars (group, seat)"),
    Choice("turn → episode level, pool (game, seat)", "mars", "dr_grpo (game, seat)"),
    Choice("turn → episode level, pool (group, seat)", "mars (group, seat)", "dr_grpo"),
    Choice("no scale → std, pool (game, seat)", "mars", "mars scale=std"),
    Choice("no scale → std, pool (group, seat)", "dr_grpo", "episode"),
    Choice("mean → leave-one-out mean, pool (game, seat)", "mars", "mars_loo"),
    Choice("mean of the pool (game, seat) → critic", "mars", "gae"),
)


@dataclass(frozen=True)
class Comparison:
    """All variants of a setting.

    A difference is a gain: positive where the first variant is better. While a run is
    missing, there are no differences.

    Args:
        name: key of `SETTINGS` or `MODELS`.
        runs: by variant and seed.
        num_seeds: number of seeds that each variant should have.
    """

    name: str
    runs: Mapping[str, Mapping[int, Run]]
    num_seeds: int

    @property
    def setting(self) -> Setting:
        """The game and its training; not for language models."""
        return SETTINGS[self.name]

    @property
    def title(self) -> str:
        """The title of the game."""
        return (SETTINGS.get(self.name) or MODELS[self.name]).title

    @property
    def higher(self) -> bool:
        """Whether more is better."""
        return (SETTINGS.get(self.name) or MODELS[self.name]).higher

    @property
    def names(self) -> Sequence[str]:
        """The variants that are compared."""
        return runnable(self.name) if self.name in SETTINGS else COMPARED

    @cached_property
    def missing(self) -> dict[str, list[int]]:
        """The missing seeds of each variant that lacks any."""
        return comparing.missing_seeds(self.names, self.runs, self.num_seeds)

    @cached_property
    def finals(self) -> dict[str, list[float]]:
        """The mean of the last quarter of each run, by variant."""
        return {
            name: [final(run.curve) for run in self.runs[name].values()]
            for name in self.names
            if self.runs.get(name)
        }

    @cached_property
    def means(self) -> dict[str, Mean]:
        """Means over seeds, the best first."""
        mean_by_variant = {
            name: interval(values) for name, values in self.finals.items()
        }
        sign = -1 if self.higher else 1
        return dict(
            sorted(mean_by_variant.items(), key=lambda item: sign * item[1].mean)
        )

    @cached_property
    def gains(self) -> dict[str, MeanDifference]:
        """Gain of each other variant over the reference, p corrected for their number."""
        return self.gains_over(REFERENCE)

    @cached_property
    def choices(self) -> dict[str, MeanDifference]:
        """Gain by each of `CHOICES`, p corrected for their number."""
        return self._compared({c.title: (c.after, c.before) for c in CHOICES})

    @cached_property
    def unchanged(self) -> list[str]:
        """The titles of the choices that change no run: all curves are equal."""
        if self.missing:
            return []

        def curves(name: str) -> list[list[float]]:
            return [run.curve for _, run in sorted(self.runs[name].items())]

        return [c.title for c in CHOICES if curves(c.before) == curves(c.after)]

    def gains_over(self, reference: str) -> dict[str, MeanDifference]:
        """Gain of each other variant over this one, p corrected for their number."""
        others = [name for name in self.means if name != reference]
        return self._compared({name: (name, reference) for name in others})

    def gradient(self, name: str) -> tuple[float | None, float | None, float | None]:
        """Variance (geometric mean over seeds), cosine and direction (means) of a variant.

        The variance is None if it is None in any run.
        """
        runs = list(self.runs.get(name, {}).values())
        logs = _mean([r.variance and float(np.log(r.variance)) for r in runs])
        return (
            None if logs is None else float(np.exp(logs)),
            _mean([r.cosine for r in runs]),
            _mean([r.direction for r in runs]),
        )

    def _compared(
        self, pairs: Mapping[str, tuple[str, str]]
    ) -> dict[str, MeanDifference]:
        if self.missing:
            return {}
        sign = 1 if self.higher else -1
        differences = {}
        for title, (first, second) in pairs.items():
            gain = difference(self.finals[first], self.finals[second])
            differences[title] = gain._replace(value=sign * gain.value)
        return holm(differences)


def comparisons(runs: Found) -> list[Comparison]:
    """One for each game of tabular policies.

    Each variant should have as many seeds as the variant with most, and at least `NUM_SEEDS`.
    """
    tabular = [by_variant for name, by_variant in runs.items() if name in SETTINGS]
    seeds = [
        seed
        for by_variant in tabular
        for by_seed in by_variant.values()
        for seed in by_seed
    ]
    num = max([NUM_SEEDS, *(seed + 1 for seed in seeds)])
    return [Comparison(name, runs.get(name, {}), num) for name in SETTINGS]


def model_comparisons(runs: Found) -> list[Comparison]:
    """One for each game that was run with a language model."""
    return [
        Comparison(name, runs[name], NUM_MODEL_SEEDS) for name in MODELS if name in runs
    ]


def _mean(values: Sequence[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return float(np.mean(present)) if present and len(present) == len(values) else None


GUIDE = "choose.md"
UNMEASURED = (
    "games without chance, games of one player or of more than three, and competitive games in "
    "which every seat has one turn",
    f"groups of other sizes than 2 and {NUM_SAMPLES}, and groups of 2 in other games than Kuhn "
    "poker",
)

GUIDE_HEAD = """\
# Which credit for which game

Written by `benchmarks/credit_bench.py`. [README.md](README.md) says how it was measured. For your games, with
the gain in their own random play: `arena credit suggest --games kuhn_poker`.

**Take `control_variates`**, the default. It needs no choice of a pool: it estimates from the batch how much luck a group shares. Where the
surprise of a reply predicts its value, its noise does not grow with the number of turns ([surprise.md](surprise.md)). Elsewhere it is about as noisy as
`random_effects`. The table has the noise of other credit divided by that of `random_effects` (2: `random_effects` has half the noise):

{gains}
8 rounds of the game `rounds` if not said; *own*: the episodes of a group have their own draws of chance. Take
something else where [the first page](README.md#where-random_effects-is-defeated) says so: `turn_ppo` with a critic in 16 or
more independent rounds, if surprise says nothing there.

## In games, at one step and bonus

From [bench.json](bench.json), whose step and entropy bonus were chosen once for each game, on runs of `episode`,
`mars_loo` and `mars_released`. So these gains also show which variants the two suit; [README.md](README.md#outcome-tuned)
compares with both tuned for each, where no variant is significantly better than `random_effects`.

"""


class Taken(NamedTuple):
    """What the runs of a game say.

    take: `lead` if it is significantly better than the reference, else the reference.
    lead: the variant with the best mean among levels and pools (`CROSSING`).
    best: the variant with the best mean among all that need no exact values.
    """

    take: str
    lead: str
    best: str


def taken_of(compared: Comparison) -> Taken | None:
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
    lead_gain = compared.gains.get(lead)
    better = lead_gain is not None and lead_gain.is_significant
    return Taken(lead if better else REFERENCE, lead, best)


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


def guide(runs: Found) -> str:
    """The guide, in Markdown."""
    compared = comparisons(runs)
    head = ["Kind of game", "Measured on", "Best level and pool"]
    head += [
        "Gain over `mars` (game, seat)",
        "Best of all",
        "Largest effect of one choice",
    ]
    rows = [
        [_kind(_measured(comparison)), *_cells(comparison)] for comparison in compared
    ]
    about = (
        f"\n- **Best level and pool** is the best variant among turn and episode levels with all their "
        f"pools, if it is significantly better than `{REFERENCE}` over game and seat; "
        f"otherwise `{REFERENCE}`.\n"
        "- **Best of all** is chosen from all estimators that need no exact values. It is "
        "chosen by its result, so its gain is biased upward.\n"
        "- Gains are in NashConv or score; positive is better. ± is a 95 % interval. Bold is "
        "significant, with Holm's correction.\n"
    )
    limits = [
        f"\n**{title}**\n\n" + "".join(f"- {line}\n" for line in lines)
        for title, lines in _limits(runs).items()
    ]
    gains = credit_payments.gains_table(credit_payments.committed())
    return GUIDE_HEAD.format(gains=gains) + table(head, rows) + about + "".join(limits)


def _limits(runs: Found) -> dict[str, Sequence[str]]:
    """What was not measured, and what was measured with a language model."""
    return {"Not measured": UNMEASURED, "With a language model": _of_models(runs)}


def advice(runs: Found) -> Advice:
    """What `arena credit suggest` reads."""
    games = [_advice_on(comparison) for comparison in comparisons(runs)]
    return Advice(games, _limits(runs))


def _advice_on(compared: Comparison) -> GameAdvice:
    setting = compared.setting
    choice = taken_of(compared) or Taken(REFERENCE, REFERENCE, REFERENCE)
    return GameAdvice(
        title=setting.title,
        game=None if setting.by_round else (setting.id, setting.params),
        facts=_measured(compared),
        missing=_num_missing(compared),
        settings=settings_text(variants()[choice.take]),
        take=choice.take,
        lead=choice.lead,
        best=choice.best,
        gains=compared.gains,
        choices=compared.choices,
        unchanged=compared.unchanged,
    )


def _of_models(runs: Found) -> list[str]:
    """What was measured with a language model, or that nothing was."""
    lines = []
    for comparison in model_comparisons(runs):
        if comparison.missing:
            lines.append(
                f"{comparison.title}: {missing_text(_num_missing(comparison))}"
            )
        for after, before in (
            () if comparison.missing else MODEL_PAIRS[:1]
        ):  # no std between
            effect = comparison.gains_over(before)[after]
            lines.append(f"{comparison.title}: gain of {after} over {before}: {effect}")
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
    title, advice = compared.title, taken_of(compared)
    if advice is None:
        return [
            title,
            f"no result: {missing_text(_num_missing(compared))}",
            "-",
            "-",
            "-",
        ]
    variant = variants()[advice.take]
    if advice.lead == REFERENCE:
        words = f"`{REFERENCE}` has the best mean"
    else:
        words = gain(compared.gains[advice.lead])
        if advice.take != advice.lead:
            words = f"none is significantly better; the best, `{advice.lead}`: {words}"
    return [
        title,
        f"`{settings_text(variant)}`",
        words,
        f"`{advice.best}`: {gain(compared.gains.get(advice.best))}",
        _largest(compared),
    ]


def _num_missing(compared: Comparison) -> int:
    return sum(map(len, compared.missing.values()))


def _largest(compared: Comparison) -> str:
    """The significant choice with the largest gain or loss."""
    significant = {k: v for k, v in compared.choices.items() if v.is_significant}
    same = len(compared.unchanged)
    if not significant:
        unchanged_text = f"; {same} change{'s' * (same == 1)} no run" if same else ""
        return f"none of {len(CHOICES)} choices is significant{unchanged_text}"
    name = max(significant, key=lambda key: abs(significant[key].value))
    return f"{name}: {gain(significant[name])}"


NO_POOL = "no pool"  # title of the column of an estimator without a pool


def choice_table(compared: Sequence[Comparison]) -> str:
    """What each choice gains, by game."""
    head = ["What changes", *(comparison.title for comparison in compared)]
    rows = [
        [
            choice.title,
            *(gain(comparison.choices.get(choice.title)) for comparison in compared),
        ]
        for choice in CHOICES
    ]
    return table(head, rows)


def crossing_table(compared: Comparison) -> str:
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
    cell = f"{compared.means[name].mean:.3f}"
    if name != REFERENCE:
        cell = gain(compared.gains.get(name))
    variance, cosine, _ = compared.gradient(name)
    if cosine is None:
        return cell
    return f"{cell}<br>cosine {cosine:.2f}, variance {number(variance)}"


def whole_table(compared: Comparison) -> str:
    """All variants, the best first."""
    measure = "NashConv" if not compared.higher else "Score"
    head = ["Variant", measure, "95 %", "seeds", f"Gain over `{REFERENCE}`", "p"]
    head += ["Variance", "Cosine", "Direction"]
    return table(head, [_row(compared, name) for name in compared.means])


def _row(compared: Comparison, name: str) -> list[str]:
    mean, effect = compared.means[name], compared.gains.get(name)
    variance, cosine, direction = compared.gradient(name)
    return [
        f"`{name}`",
        f"{mean.mean:.3f}",
        f"{mean.low:.3f} to {mean.high:.3f}" if mean.num > 1 else "-",
        str(mean.num),
        "" if name == REFERENCE else gain(effect),
        "" if effect is None else p_value(effect.p),
        number(variance),
        "-" if cosine is None else f"{cosine:.3f}",
        "-" if direction is None else f"{direction:.3f}",
    ]


SHOWN = (
    "mars",
    "mars (game, seat, turn)",
    "mars (group, seat)",
    "mars (group, seat, turn)",
    "dr_grpo",
    "episode",
    "gae",
)  # in colour


def draw(compared: Sequence[Comparison], path: Path) -> None:
    """Curves of all settings: some variants in colour with intervals, the others grey."""
    with_finals = [comparison for comparison in compared if comparison.finals]
    height = max(-(-len(with_finals) // 2), 1)
    figure = import_extra("matplotlib.figure", "eval").Figure(
        figsize=(11, 3.6 * height), layout="constrained"
    )
    panels = figure.subplots(height, 2, squeeze=False).ravel()
    for panel, comparison in zip(panels, with_finals, strict=False):
        for name in comparison.finals:
            curves = [run.curve for run in comparison.runs[name].values()]
            _draw_curves(panel, name, curves, comparison.setting.num_episodes)
        panel.set_title(comparison.title)
        panel.set_ylabel("score" if comparison.higher else "exact NashConv")
        panel.set_xlabel("episodes")
        if panel.get_legend_handles_labels()[0]:
            panel.legend(fontsize="small")
    for panel in panels[len(with_finals) :]:
        panel.axis("off")
    figure.savefig(path, dpi=110, metadata={"Software": None})


def _draw_curves(
    panel: Any, name: str, curves: Sequence[Sequence[float]], num_episodes: int
) -> None:
    x = np.arange(1, len(curves[0]) + 1) * num_episodes / len(curves[0])
    if name not in SHOWN:
        mean = [interval(values).mean for values in zip(*curves, strict=True)]
        panel.plot(x, mean, color="0.8", linewidth=0.8, zorder=1)
        return
    draw_band(panel, x, curves, name, f"C{SHOWN.index(name)}")


DOCS = Path("docs", "credit")
PICTURE, HORIZON = "learning.png", "horizon.png"

HEAD = """\
# All estimators in games, at one step and bonus

Written by `benchmarks/credit_bench.py` from [bench.json](bench.json). Step and entropy bonus were chosen once
for each game, and suit the estimators on which they were chosen; [README.md](README.md) compares the main
families with both tuned for each.

"""

FIRST = """\
# When turn-level credit pays

Written by `benchmarks/credit_bench.py` from [payments.json](payments.json) (noise) and
[tuned.json](tuned.json) (outcomes). [choose.md](choose.md) is the guide that follows from it,
[games.md](games.md) compares all estimators in nine games, [estimators.md](estimators.md) describes each,
and [report.md](report.md) has its exact bias.

## The law

The noise of the gradient, 1 at best, in T independent rounds (the game [`rounds`](../games/rounds.md)):

- **Paid at the end**: T for every level.
- **Equal rounds**: T by the return of the episode, (T + 1) / 2 by the return-to-go, if turns with the same
  number are compared: a gain of 2T / (T + 1), at most 2. Without the turn in the pool (`mars`, the
  published form) it is a loss that grows with T.
- **Large stakes or luck before a decision**: the gain has no bound.
- **Later rewards that take earlier ones back**: a loss without bound, unless the group shares them or the
  baseline knows what was paid.
- **Luck that a group shares**: only a mean of the group removes it. A luck of ±20 after the first of eight rounds, shared by
  each of 16 groups of 8, gives the return of the episode a noise of 4 (400 · 15/16 + 2 · 127/128) / (127/128)² = 1,532.

All of this counts the choices of later turns as noise. **The default, `control_variates`, subtracts what their surprise
explains**: with T up to 64 its noise is 1.01 where surprise tells right from wrong ([surprise.md](surprise.md)). This page is about credit
without surprise. `random_effects` compares turns with the same number. It estimates from the batch how much luck a group shares, and weighs the
mean of the group accordingly. It adjusts for what was paid before. Without surprise `control_variates` does the same, also for turns
that few episodes reach.

![Noise against the number of rounds](horizon.png)

Bands and ± are 95 % intervals. 16 groups of 8 episodes that share chance.

## Noise by payment

{payments}
8 rounds if not said. Bold: the interval reaches the least of the row. GRPO divides by the standard deviation of
the group, which biases it; `gae` and `turn_ppo` have a critic of round and symbol. `paid=false` leaves out
the adjustment for what was paid.

## By size of the groups

{groups}
8 rounds: the noise of `random_effects`, and below it the least of the others. Batches of 128 episodes.

## Where `random_effects` is defeated

Significantly noisier than the return of the episode, or than `mars` or GRPO without std:

{worse}
(In one round all payments that do not need luck are the same: this is what it costs to estimate w.) More than {goal:g} times the least noise of all:

{missed}
A critic with λ < 1 (`turn_ppo`: 0.9) discounts what later rounds add. Where no action has a late effect this
is noise, and `turn_ppo` gains; where payment is late it is the signal: paid after 64 rounds, `turn_ppo` has a
noise of {late} and `random_effects` {own}.
GRPO with std bounds the advantage in small groups, at the price of a bias.

## Outcome, tuned

Batches of 32 episodes until the probability of the right answer is 0.9; all rounds share their logits, as
they share the weights of a model:

{rounds}
In self-play, exact NashConv (lower is better) or score (higher is better), mean of the last quarter:

{games}
Mean of ten seeds with its 95 % interval. Bold is significantly better than `random_effects`, italic significantly
worse (Welch's t-test with Holm's correction over a row). *Found*: the difference between `random_effects` and the
episode over game and seat that ten seeds, or three, find with power 80 %. Three seeds find only
differences 2.3 times as large: of the rows above, those of falling stakes and of luck.

Budget: each variant tries the same pairs of a step and a bonus in `rounds` (steps 2, 8, 32; bonus 0, 0.02; two
seeds; rising stakes: 8, 16, 32 and four seeds) and in games (1/2, 1, 2 times the step, 1 and 3 times the
bonus; two seeds). The best pair, by the mean skill or the last quarter, is run on ten other seeds.
{not_run}
## What was measured

- **Noise**: E[A²] E[A*²] / E[A A*]², where A is the advantage and A* the exact one, of a policy that is right
  half of the time: the mean square of A after its regression on A* has slope 1, relative to the least
  possible. Jackknife over batches. 16 symbols, 8 answers.
- Less noise is not always a better outcome. In self-play a noisier gradient explores, so that step and bonus
  decide: with those of `mars`, the NashConv of `random_effects` in Kuhn poker is higher, and that of
  `control_variates` with three players ([games.md](games.md)).
- `control_variates` reads surprise here. All runs start uniform, where surprise says little: no difference from `random_effects` is significant.
- Not measured with tuned steps: other games than these two. Not measured: groups of 2 and own chance at other lengths than 8 rounds, several seats, delays,
  and games in which earlier rounds decide later ones. [language.md](language.md) has learning curves of language
  models, and trees and critics for equal play.
"""

METHOD = f"""\
## What was run

All seats learn in self-play. A policy is a softmax over one row of logits for each information
state.

- Every variant gets the same number of episodes: batches of {NUM_EPISODES}. These are
  {NUM_STARTS} starts, each played {NUM_SAMPLES} times with the same draws of chance. With small
  groups they are {NUM_EPISODES // 2} starts, each played twice.
- Advantages are divided by their root mean square, so all variants take steps of the same
  size. The step size falls linearly to 0. There is a small entropy bonus.
- The first step size and the bonus were chosen once for each game, on a few runs of `episode`,
  `mars_loo` and `mars_released`. All variants use them.
- Speaker and listener and Tiny Hanabi have half as many batches as the other games: their curves
  are flat by then.
- Tiny Hanabi is the game with one turn per seat. Its learning is not trivial: ignoring the cards
  gives 8, the best pairs get 10, and self-play often stops at 9. The turn in a pool changes nothing
  there, and neither does the level.
- Kuhn poker with small groups has the step and bonus of Kuhn poker.
- Goofspiel is paid after each round, by the difference of the points. The other competitive games
  pay at the end.
- A critic is the running mean of the returns-to-go at each information state.
- `counterfactual` and `adca` get exact values of the policy. The judge of `adca` says whether an
  action is worth at least the policy's value. Both are left out in Mini Hanabi, whose tree is
  too large for exact values.
- In Mini Hanabi a row of logits covers several information states: own hints, fireworks, and which
  of the partner's cards can be played.

**The crossing.** A variant is an estimator with options. Names show the options that differ from
the published form; γ = 1 always. Left out:

- Pools with `turn` for estimators at the episode level, which compare whole trajectories.
- Pools for `gae`, whose baseline is the critic.
- A scale for `mars_loo`, which has no such option.
- Division by the standard deviation of the whole batch. The rescaling above makes it equal to no
  scale.

## What is measured

- **NashConv**, exact, of the policy: 0 at an equilibrium, lower is better.
- **Score**: in Mini Hanabi the mean score of the training episodes, in Tiny Hanabi and in speaker
  and listener the exact expected return. Higher is better.
- Both are means over the last quarter of the run.
- **Variance**: E[A²] E[A*²] / E[A A*]², where A is the advantage and A* the exact advantage, Q - V
  at the information state. It equals E[A²] / E[A*²] after A is scaled so that its regression on A*
  has slope 1. The smallest possible value is 1. "-": the slope is not positive.
- **Cosine**: between the gradient of one batch and the exact gradient; mean over batches.
- **Direction**: cosine between the mean gradient of {NUM_LOOKED_AT} batches and the exact gradient.
  Bias lowers it; in large games, so does the variance that {NUM_LOOKED_AT} batches leave.
- These three are measured at the policy of `{REFERENCE}` after a quarter of its batches, for each
  seed. All variants see the same batches. Mini Hanabi has "-" there.

## How to read it

- A gain is positive where the variant is better than `{REFERENCE}` with its published pool (game,
  seat). ± is the 95 % interval over seeds, without correction.
- *p* is from Welch's t-test with Holm's correction, for all variants of the game (for all choices of
  the game in the table of choices). A bold gain is significant: p < {ALPHA}. "Not significant" does
  not mean equal.
- A game with a missing run has no gains.
- Estimators that differ by a constant factor, such as `dr_grpo` and `rloo`, give the same result,
  because advantages are rescaled.
- The rescaling hurts `counterfactual`. Its advantages vanish at an equilibrium, but the rescaled
  advantages do not. So its policy circles around the equilibrium.
- Tabular self-play shows variance, bias and cycles. It says nothing about tokens, clipping or
  language.
"""


MODEL_TEXT = """\
The tiny model of `arena train` is trained with each variant by a recipe: Kuhn poker by the default
one, Mini Hanabi by 24 steps of `mini-hanabi-tiny`, tic-tac-toe by 60 steps of `tic-tac-toe-tiny` with a
quarter of its episodes, a shorter supervised start, a weaker KL term and no critic. Kuhn
poker: exact NashConv. The others: mean return of the training episodes, in tic-tac-toe of the first
player. Below each table, the turn level is compared with the episode level at equal pools. `episode`
also divides by the standard deviation of the pool, which `mars` does not. So these gains join two
choices; *What each choice changes* separates them for tabular policies.
"""


def write(directory: Path, runs: Found) -> list[Path]:
    """Writes the pages, the guide, the pictures and the advice; returns their paths."""
    pages = {"README.md": first_page(), "games.md": text(runs), GUIDE: guide(runs)}
    for name, words in pages.items():
        (directory / name).write_text(words)
    draw(comparisons(runs), directory / PICTURE)
    draw_horizon(credit_payments.committed(), directory / HORIZON)
    advised = SHIPPED if directory.resolve() == DOCS.resolve() else directory / FILE
    write_advice(advised, advice(runs))
    return [*(directory / name for name in (*pages, PICTURE, HORIZON)), advised]


def write_advice(path: Path, advice: Advice) -> None:
    """Writes a file; numbers have six digits after the point."""

    def rounded(differences: Mapping[str, MeanDifference]) -> dict[str, list[float]]:
        return {name: [round(x, 6) for x in gain] for name, gain in differences.items()}

    games = [
        {
            **measured._asdict(),
            "facts": measured.facts._asdict(),
            "gains": rounded(measured.gains),
            "choices": rounded(measured.choices),
        }
        for measured in advice.games
    ]
    lines = ",\n".join(json.dumps(measured, ensure_ascii=False) for measured in games)
    limits = json.dumps(advice.limits, ensure_ascii=False, indent=1)
    text = f'{{"games": [\n{lines}\n],\n"limits": {limits}}}\n'
    path.write_text(text, encoding="utf-8")


def first_page() -> str:
    """The law with its tables, from the committed figures, in Markdown."""
    rows, runs = credit_payments.committed(), credit_tuned.committed()
    worse, missed = (_listed(gaps) for gaps in credit_payments.defeats(rows))
    done = credit_tuned.complete(runs)
    kinds: dict[bool, list[str]] = {True: [], False: []}
    for title in done:
        kinds[isinstance(credit_tuned.TUNED[title], credit_tuned.Payment)].append(title)
    missing_titles = [title for title in credit_tuned.TUNED if title not in done]
    late = next(r for r in rows if r.options == {"num_rounds": 64, "delay": 64})
    return FIRST.format(
        late=number(late.noise["turn_ppo"][0]),
        own=number(late.noise["random_effects"][0]),
        payments=payments_table(credit_payments.shown_rows(rows)),
        groups=credit_payments.groups_table(rows),
        worse=worse,
        missed=missed,
        goal=credit_payments.GOAL,
        rounds=credit_tuned.outcome_table(kinds[True], runs),
        games=credit_tuned.outcome_table(kinds[False], runs),
        not_run=f"Runs are missing: {', '.join(missing_titles)}.\n"
        if missing_titles
        else "",
    )


def _listed(lines: Sequence[str]) -> str:
    return "".join(f"- {line}\n" for line in lines) or "none\n"


def text(runs: Found) -> str:
    """The page, in Markdown."""
    compared = comparisons(runs)
    with_runs = [comparison for comparison in compared if comparison.runs]
    parts = [HEAD, _missing(compared), *_summary(with_runs), METHOD]
    parts += [_crossing(comparison) for comparison in with_runs]
    if with_runs:
        parts += [f"![Learning curves]({PICTURE})\n", "## All variants\n"]
    parts += [
        f"### {comparison.title}, all variants\n\n{whole_table(comparison)}"
        for comparison in with_runs
    ]
    models = model_comparisons(runs)
    if models:
        parts.append(f"## Language models\n\n{MODEL_TEXT}")
    parts += [_of_model(comparison) for comparison in models]
    return "\n".join(parts)


def _of_model(compared: Comparison) -> str:
    """The variants of a language model, and how many seeds a difference needs."""
    lines = [f"### {compared.title}", whole_table(compared)]
    if compared.missing:
        return "\n\n".join([*lines, _missing_runs(compared)]) + "\n"
    for pool in MODEL_PAIRS:
        effect = compared.gains_over(pool[1])[pool[0]]
        num_seeds = seeds_needed(*(compared.finals[name] for name in pool))
        lines.append(
            f"Gain of `{pool[0]}` over `{pool[1]}`: {gain(effect)}. "
            + (
                f"Seeds needed to find a difference of this size with power 80 %: {num_seeds}."
                if num_seeds
                else "The means are equal."
            )
        )
    return "\n\n".join(line.rstrip("\n") for line in lines) + "\n"


def _missing(compared: Sequence[Comparison]) -> str:
    """Which runs are missing."""
    lines = [_missing_runs(comparison) for comparison in compared if comparison.missing]
    if not lines:
        return (
            f"All runs are complete: {compared[0].num_seeds} seeds of each variant.\n"
        )
    head = "**Runs are missing. Games with missing runs have no gains.**"
    return "\n".join(
        [f"{head} To do them, run `python benchmarks/credit_bench.py`.\n", *lines, ""]
    )


def _missing_runs(compared: Comparison) -> str:
    return comparing.missing_line(compared.title, compared.missing, len(compared.runs))


def _summary(with_runs: Sequence[Comparison]) -> list[str]:
    if not with_runs:
        return []
    about = (
        "The gain from changing one option. `mars` is the turn level, `dr_grpo` the episode "
        "level, both without a scale. Bold: significant."
    )
    return ["## What each choice changes\n", about + "\n", choice_table(with_runs)]


def _crossing(compared: Comparison) -> str:
    setting = compared.setting
    about = (
        f"{setting.num_episodes:,} episodes a run, groups of {setting.num_samples}, first "
        f"step {setting.step:g}, entropy bonus {setting.bonus:g}. The cell of `{REFERENCE}` over game and seat shows its "
        f"{'score' if setting.higher else 'NashConv'}; other cells show the gain over it."
    )
    parts = [f"## {setting.title}", about, crossing_table(compared), _verdict(compared)]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _verdict(compared: Comparison) -> str:
    """The variants that are significantly better or worse."""
    if not compared.gains:
        return "Runs of this game are missing, so nothing is compared."
    names: dict[bool, list[str]] = {True: [], False: []}
    for name, effect in compared.gains.items():
        if effect.is_significant:
            names[effect.value > 0].append(f"`{name}`")
    num_others = len(compared.gains) - len(names[True]) - len(names[False])
    return (
        f"Significantly better than `{REFERENCE}`: {', '.join(names[True]) or 'none'}. "
        f"Significantly worse: {', '.join(names[False]) or 'none'}. No significant "
        f"difference: {num_others} of {len(compared.gains)}."
    )


def main(
    directory: Annotated[Path, typer.Option(help="Folder of the files.")] = DOCS,
    num_seeds: NumSeeds = 10,
    only: OnlyVariants = None,
    game: OnlySettings = None,
    num_jobs: NumJobs = 2,
) -> None:
    """Compare all estimators by training on small games.

    All train a tabular policy by self-play on the same number of episodes: each estimator
    in its published form, and some with other pools and scales. Runs that are already in
    DIRECTORY/bench.json are not repeated, so run the command again after an interruption.
    It then writes README.md, games.md, choose.md, learning.png, horizon.png and advice.json, which `arena credit
    suggest` reads; that of docs/credit goes into the package. All 3,940 runs with ten seeds
    take about 25 CPU minutes: variants of a seed run in lockstep. The same code gives the same numbers.

    --game kuhn_model, tic_tac_toe_model and mini_hanabi_model train the tiny language model
    with `mars` and `episode` over equal pools, five seeds. They take hours and run only if
    you name them.
    """
    with usage_errors():
        names = chosen(only, list(variants()))
        settings = chosen(game, [*SETTINGS, *MODELS]) if game else list(SETTINGS)
    for module in ("matplotlib.figure", "scipy.stats"):
        import_extra(module, "eval")  # fails before the long play
    path = directory / "bench.json"
    with usage_errors():
        runs = read_runs(path)
        directory.mkdir(parents=True, exist_ok=True)
    tell_outdated(path, made_with())
    todo = missing(runs, names, settings, num_seeds)
    if any(setting in MODELS for setting, _, _ in todo):
        import_extra("trl", "train")
    with kept_runs(path):
        runs = run_missing(path, todo, num_jobs, typer.echo)
    for written in write(directory, runs):
        typer.echo(f"wrote {written}")


if __name__ == "__main__":
    run_script(main)
