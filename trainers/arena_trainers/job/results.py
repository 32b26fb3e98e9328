"""The numbers of a training run, for `results.json`, `metrics.jsonl` and `curves.png`."""

from collections.abc import Sequence
from typing import Any

from arena_trainers.job.curves import Frame
from arena_trainers.job.outcome import GameOutcome, Stage
from arena_trainers.job.settings import JobConfig
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.games import GamePlan


def results_of(outcomes: Sequence[GameOutcome], late: float | None) -> dict[str, Any]:
    """The results of a run: a summary of the first game, and all of each game.

    Args:
        outcomes: of each game; its stages are uniform play, before and after self-play.
        late: mean NashConv over the last quarter of the steps.
    """
    uniform, start, final = outcomes[0].stages
    return {
        "nash_conv": {
            "uniform": uniform.nash_conv,
            "warm_start": start.nash_conv,
            "final": final.nash_conv,
            "last_quarter_mean": late,
        },
        "legal_rate": final.legal_rate,
        "outcomes": {outcome.name: outcome.to_dict() for outcome in outcomes},
    }


def step_zero(stages: Sequence[tuple[str, Stage]]) -> dict[str, Any]:
    """The metrics before self-play, as a record of step 0.

    Args:
        stages: name of each game, and its stage before self-play.
    """
    record: dict[str, Any] = {"step": 0}
    if stages[0][1].nash_conv is not None:
        record["arena/nash_conv"] = stages[0][1].nash_conv
    rates = [stage.legal_rate for _, stage in stages if stage.legal_rate is not None]
    if rates:
        record["arena/legal_rate"] = sum(rates) / len(rates)
    for name, stage in stages:
        for seat, interval in enumerate(stage.returns):
            record[f"arena/{name}/player_{seat}/return"] = interval.mean
    return record


def frame_of(
    job: JobConfig,
    args: TurnGRPOConfig,
    plans: Sequence[GamePlan],
    outcomes: Sequence[GameOutcome],
) -> Frame:
    """Title, ranges and reference lines of a run's curves."""
    games = ", ".join(plan.name for plan in plans)
    compared = [o.comparison for o in outcomes if o.comparison is not None]
    return Frame(
        title=f"{games}: model {job.model}, credit {args.credit}, seed {args.seed}",
        first_game=plans[0].name,
        return_range=(
            min(plan.game.min_return for plan in plans),
            max(plan.game.max_return for plan in plans),
        ),
        uniform=outcomes[0].stages[0].nash_conv,
        values={
            f"{found.game}/player_{seat}": value
            for found in compared
            for seat, value in enumerate(found.values or ())
        },
        moves=_moves(args),
    )


def _moves(args: TurnGRPOConfig) -> list[int]:
    """Steps after which TRL's `SyncRefModelCallback` has synchronised the reference."""
    if not args.sync_ref_model:
        return []
    every = args.ref_model_sync_steps
    return list(range(every, args.max_steps, every))
