"""What a training run leaves in numbers: for `results.json`, `metrics.jsonl`, `curves.png`."""

from collections.abc import Sequence
from typing import Any

from arena_trainers.job.curves import Frame
from arena_trainers.job.outcome import Outcome, Stage
from arena_trainers.job.settings import JobConfig
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.game_plans import GamePlan


def results_of(outcomes: Sequence[Outcome], late: float | None) -> dict[str, Any]:
    """The figures of a run: of its first game in short, of each game in full.

    Args:
        outcomes: of the games; the stages of each are uniform play, before and after.
        late: mean NashConv of the last quarter of the steps.
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
    """The metrics of the policy that self-play starts from, as a record of step 0.

    Args:
        stages: of each game, with its name.
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
    outcomes: Sequence[Outcome],
) -> Frame:
    """What stands around the curves of a run."""
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
    """Steps after which TRL's `SyncRefModelCallback` has moved the reference."""
    if not args.sync_ref_model:
        return []
    every = args.ref_model_sync_steps
    return list(range(every, args.max_steps, every))
