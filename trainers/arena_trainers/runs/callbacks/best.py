"""The best model of a run, in `RUN/best/`.

The score is the first of these that a run measures in training:

| run | score | better |
|---|---|---|
| of one game against opponents that stay the same, such as `opponents: random` | mean return of the seats that learn, in the episodes since the last log | higher |
| whose first game is measured exactly | exact NashConv of that game | lower |
| of one game that is cooperative or has one seat | mean return of all seats, in the episodes since the last log | higher |
| of one game with `start_episodes` | score against the start | higher |

In a game of at most 30,000 states, the luck is taken out of a mean return where that helps (`luck_out`).
Other runs keep no best model: in self-play of a competitive game the returns of all seats add up to
a constant. A resumed run goes on from `best/best.json`, also if that is of a step beyond its checkpoint.
"""

import json
import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelerate.utils import gather_object
from transformers import TrainerState

from arena_studio.report.collapse import START_METRIC
from arena_trainers.runs.callbacks.callback import Callback
from arena_trainers.runs.callbacks.luck_out import LUCK_OUT
from arena_trainers.runs.callbacks.nash_conv import NASH_CONV
from arena_trainers.runs.folder import partial_name
from arena_trainers.train.games import GamePlan

if TYPE_CHECKING:
    from arena_trainers.train.trainer import TurnGRPOTrainer


BEST_FOLDER, BEST_FILE = "best", "best.json"
MEAN_RETURN = "mean return"
LEARNER_RETURN = "mean return of the seats that learn"
START_SCORE = "score against the start"
NO_SCORE = (
    "no best model is kept: training measured no score. It measures the exact NashConv of "
    "a small game if evaluate_every is above 0 (not of an agent or roles), the mean return of one cooperative game or "
    "against opponents that stay the same, and with start_episodes the score of one game against the start"
)


@dataclass(frozen=True)
class BestScore:
    """The best model so far.

    Attributes:
        step: optimizer steps that it has been trained for.
        score: its score.
        metric: `NASH_CONV`, where lower is better, or `MEAN_RETURN`, `LEARNER_RETURN` or `START_SCORE`.
    """

    step: int
    score: float
    metric: str

    def __str__(self) -> str:
        name = "exact NashConv" if self.metric == NASH_CONV else self.metric
        return f"step {self.step}, {name} {self.score:.4f}"


def read_best(folder: Path) -> BestScore | None:
    """The best model of a run folder, by its `best/best.json`; None if there is none.

    Raises:
        ValueError: the file is not one that a run wrote.
    """
    path = folder / BEST_FOLDER / BEST_FILE
    if not path.is_file():
        return None
    try:
        return BestScore(**json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError):
        raise ValueError(
            f"want step, score and metric in {str(path)!r}, got something else; move the "
            "folder away, and the run finds a new best model"
        ) from None


def score_metric(
    plans: Sequence[GamePlan],
    measures_nash_conv: bool,
    plays_start: bool = False,
    has_curriculum: bool = False,
) -> str | None:
    """The name of the score; None if nothing fit is measured.

    Args:
        plans: the games.
        measures_nash_conv: whether the first game's NashConv is measured in training.
        plays_start: whether the model plays against that of the start in training.
        has_curriculum: whether games change in training, so that returns of different steps
            cannot be compared.
    """
    game = plans[0].game
    if plans[0].lineups and len(plans) == 1 and not has_curriculum:
        return LEARNER_RETURN
    if measures_nash_conv:
        return NASH_CONV
    if len(plans) > 1:
        return None
    is_common = game.num_players == 1 or game.kind == "cooperative"
    if is_common and not has_curriculum:
        return MEAN_RETURN
    return START_SCORE if plays_start else None


class BestModel(Callback):
    """Saves the model whenever its score is better than all before.

    All processes call it at each log; the main one measures, and decides.

    Args:
        trainer: saves its model.
        folder: the run folder.
        metric: what `score_metric` says.
    """

    def __init__(self, trainer: "TurnGRPOTrainer", folder: Path, metric: str) -> None:
        self.trainer, self.folder, self.metric = trainer, folder, metric
        if trainer.args.should_save:
            finish_swap(folder)
        self.best = read_best(folder)

    def logged(self, state: TrainerState, logs: dict[str, Any]) -> None:
        if "loss" not in logs:
            return  # the summary at the end
        score, better = score_of(logs, self.metric), None
        best_score = None if self.best is None else self.best.score
        if score is not None and is_better(self.metric, score, best_score):
            better = BestScore(state.global_step, score, self.metric)
        better = gather_object([better])[0]  # that of the main process
        if better is not None:
            self.best = better
            self._save(better)

    def _save(self, best: BestScore) -> None:
        """Every process takes part, as for a checkpoint; the old model goes last."""
        part = self.folder / partial_name(BEST_FOLDER)
        self.trainer.save_model(str(part), _internal_call=True)
        if self.trainer.args.should_save:
            (part / BEST_FILE).write_text(
                json.dumps(asdict(best)) + "\n", encoding="utf-8"
            )
            finish_swap(self.folder)


def is_better(metric: str, score: float, best: float | None) -> bool:
    """Whether a score is better than the best before, if there is one.

    >>> is_better("mean return", 1.0, None), is_better("arena/nash_conv", 0.2, 0.1)
    (True, False)
    """
    sign = -1 if metric == NASH_CONV else 1
    return best is None or sign * score > sign * best


def score_of(logs: Mapping[str, Any], metric: str) -> float | None:
    """The score in a log, or None if the log has no finite score.

    >>> logs = {"arena/hanabi/player_0/return": 2.0}
    >>> score_of(logs | {"arena/hanabi/against/random/return": 0.0}, "mean return")
    2.0
    >>> score_of(logs | {"arena/hanabi/against/random/return": 1.0}, LEARNER_RETURN)
    1.0
    >>> score_of(logs | {"arena/hanabi/luck_out": 1.5}, "mean return")
    1.5
    """
    figures = {name: logs[name] for name in logs if name.startswith("arena/")}
    if metric == NASH_CONV:
        names = [name for name in figures if name == NASH_CONV]
    elif metric == START_SCORE:
        names = [name for name in figures if name.endswith(f"/{START_METRIC}")]
    elif not (names := [name for name in figures if name.endswith(f"/{LUCK_OUT}")]):
        against_others = metric == LEARNER_RETURN
        names = [
            name
            for name in figures
            if name.endswith("/return") and ("/against/" in name) == against_others
        ]
    values = [figures[name] for name in names if figures[name] is not None]
    score = sum(values) / len(values) if values else math.nan
    return score if math.isfinite(score) else None


def finish_swap(folder: Path) -> None:
    """Puts a complete `best.part` in the place of `best`; removes an incomplete one.

    `best.json` is the last file of a model, so a folder that has it is complete. A run that
    was killed at any line of this function finishes it when it resumes.
    """
    best = folder / BEST_FOLDER
    part = folder / partial_name(BEST_FOLDER)
    old = folder / "best.old"
    if (part / BEST_FILE).is_file():
        shutil.rmtree(old, ignore_errors=True)
        if best.exists():
            best.rename(old)
        part.rename(best)
    for left in (part, old):
        shutil.rmtree(left, ignore_errors=True)
