"""The comparison as a page and a picture, made from the results file."""

from collections.abc import Sequence
from pathlib import Path

from arena_trainers.bench import guide, tables
from arena_trainers.bench.comparison import (
    Comparison,
    comparisons,
    model_comparisons,
)
from arena_trainers.bench.learning import NUM_LOOKED_AT, REFERENCE
from arena_trainers.bench.models import MODEL_PAIRS
from arena_trainers.bench.picture import draw
from arena_trainers.bench.run_file import missing_line
from arena_trainers.bench.runs import Found
from arena_trainers.bench.settings import NUM_EPISODES, NUM_SAMPLES, NUM_STARTS
from arena_trainers.bench.statistics import ALPHA, seeds_needed

PICTURE = "learning.png"

HEAD = """\
# Which estimator learns best

Written by `arena credit bench` from [bench.json](bench.json). [choose.md](choose.md) is the guide
that follows from it. [estimators.md](estimators.md) describes each estimator, and
[report.md](report.md) has its exact bias on small games.

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
    """Writes the page, the guide and the picture; returns their paths."""
    page, picture = directory / "README.md", directory / PICTURE
    choose = directory / guide.PAGE
    draw(comparisons(runs), picture)
    page.write_text(text(runs))
    choose.write_text(guide.page(runs))
    return [page, choose, picture]


def text(runs: Found) -> str:
    """The page, in Markdown."""
    compared = comparisons(runs)
    shown = [one for one in compared if one.runs]
    parts = [HEAD + _missing(compared), *_summary(shown), METHOD]
    parts += [_crossing(one) for one in shown]
    if shown:
        parts += [f"![Learning curves]({PICTURE})\n", "## All variants\n"]
    parts += [
        f"### {one.title}, all variants\n\n{tables.everything(one)}" for one in shown
    ]
    models = model_comparisons(runs)
    if models:
        parts.append(f"## Language models\n\n{MODEL_TEXT}")
    parts += [_of_model(one) for one in models]
    return "\n".join(parts)


def _of_model(compared: Comparison) -> str:
    """The variants of a language model, and how many seeds a difference needs."""
    lines = [f"### {compared.title}", tables.everything(compared)]
    if compared.missing:
        return "\n\n".join([*lines, _missing_runs(compared)]) + "\n"
    for pool in MODEL_PAIRS:
        found = compared.gains_over(pool[1])[pool[0]]
        wanted = seeds_needed(*(compared.finals[name] for name in pool))
        lines.append(
            f"Gain of `{pool[0]}` over `{pool[1]}`: {tables.gain(found)}. "
            + (
                f"Seeds needed to find a difference of this size with power 80 %: {wanted}."
                if wanted
                else "The means are equal."
            )
        )
    return "\n\n".join(line.rstrip("\n") for line in lines) + "\n"


def _missing(compared: Sequence[Comparison]) -> str:
    """Which runs are missing."""
    lines = [_missing_runs(one) for one in compared if one.missing]
    if not lines:
        return (
            f"All runs are complete: {compared[0].num_seeds} seeds of each variant.\n"
        )
    head = "**Runs are missing. Games with missing runs have no gains.**"
    return "\n".join([f"{head} To do them, run `arena credit bench`.\n", *lines, ""])


def _missing_runs(compared: Comparison) -> str:
    return missing_line(compared.title, compared.missing, len(compared.runs))


def _summary(shown: Sequence[Comparison]) -> list[str]:
    if not shown:
        return []
    about = (
        "The gain from changing one option. `mars` is the turn level, `dr_grpo` the episode "
        "level, both without a scale. Bold: significant."
    )
    return ["## What each choice changes\n", about + "\n", tables.choices(shown)]


def _crossing(compared: Comparison) -> str:
    chosen = compared.setting
    about = (
        f"{chosen.num_episodes:,} episodes a run, groups of {chosen.num_samples}, first "
        f"step {chosen.step:g}, entropy bonus {chosen.bonus:g}. The cell of `{REFERENCE}` over game and seat shows its "
        f"{'score' if chosen.higher else 'NashConv'}; other cells show the gain over it."
    )
    parts = [f"## {chosen.title}", about, tables.crossing(compared), _verdict(compared)]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _verdict(compared: Comparison) -> str:
    """The variants that are significantly better or worse."""
    if not compared.gains:
        return "Runs of this game are missing, so nothing is compared."
    names: dict[bool, list[str]] = {True: [], False: []}
    for name, found in compared.gains.items():
        if found.is_significant:
            names[found.value > 0].append(f"`{name}`")
    rest = len(compared.gains) - len(names[True]) - len(names[False])
    return (
        f"Significantly better than `{REFERENCE}`: {', '.join(names[True]) or 'none'}. "
        f"Significantly worse: {', '.join(names[False]) or 'none'}. No significant "
        f"difference: {rest} of {len(compared.gains)}."
    )
