"""The files of a finished run: `results.json`, curves, episodes."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from arena_envs.game import bounds_of
from arena_studio.report.curves import charts_of
from arena_studio.report.figures import figure_of
from arena_trainers.runs.folder import METRICS, RESULTS
from arena_trainers.runs.results.measure import GameOutcome, Measurement
from arena_trainers.runs.results.metrics import read_metrics
from arena_trainers.train.games import GamePlan
from arena_wrappers import Episode, write_episodes
from arena_wrappers.records import write_whole

# titles of the charts in `curves.png`
PICTURED = re.compile(
    r".*: return (per seat|by opponent)|Score against .*|Exact .*|Legal .*|KL .*|Loss"
)


def results_of(outcomes: Sequence[GameOutcome], late: float | None) -> dict[str, Any]:
    """The results of a run: a summary of the first game, and all of each game.

    A run against other policies leads with the return of the seats that learn.

    Args:
        outcomes: of each game; its stages are uniform play, before self-play unless
            `measure_start` is false, and after self-play.
        late: mean NashConv over the last quarter of the steps.
    """
    uniform, *before, final = outcomes[0].stages
    start = before[0] if before else Measurement("not measured", None)
    learner = {
        name: {
            "against": row.opponent,
            "mean": row.mean_return,
            "95 %": [row.low, row.high],
            "luck_out": row.adjusted and asdict(row.adjusted),
        }
        for name, row in (("warm_start", start.learner), ("final", final.learner))
        if row is not None
    }
    return {
        **({"learner_return": learner} if learner else {}),
        "nash_conv": {
            "uniform": uniform.nash_conv,
            "warm_start": start.nash_conv,
            "final": final.nash_conv,
            "last_quarter_mean": late,
        },
        "legal_rate": final.legal_rate,
        "outcomes": {outcome.name: outcome.to_dict() for outcome in outcomes},
    }


EPISODES = "episodes.jsonl"
REPORT = "report.html"
NUM_GROUPS = 2  # of each step in the report, as `arena report` shows


def write_results(
    folder: Path,
    results: Mapping[str, Any],
    plans: Sequence[GamePlan],
    episodes: Sequence[Sequence[Episode]],
    num_saved: int,
    *,
    title: str,
    moves: Sequence[int] = (),
) -> None:
    """Writes `results.json`, the curves, and episodes after training.

    Args:
        folder: the run folder.
        results: of the run.
        plans: the games.
        episodes: after training, by game.
        num_saved: episodes to write, of all games together.
        title: of the curves.
        moves: optimizer steps after which the reference model was synchronised.
    """
    if episodes:
        share = -(-num_saved // len(episodes))  # of each game
        saved_episodes = [episode for played in episodes for episode in played[:share]]
        write_episodes(folder / EPISODES, saved_episodes)
    # it ends a live report
    write_whole(folder / RESULTS, json.dumps(results, indent=2) + "\n")
    ranges = {plan.name: bounds_of(plan.game) for plan in plans}
    charts = charts_of(read_metrics(folder / METRICS), results, ranges)
    pictured = [chart for chart in charts if PICTURED.fullmatch(chart.title)]
    figure_of(pictured, title, moves).savefig(folder / "curves.png", dpi=120)
