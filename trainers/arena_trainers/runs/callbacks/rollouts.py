"""Files of training groups with their credit."""

from pathlib import Path
from typing import TYPE_CHECKING

from accelerate.utils import gather_object
from transformers import TrainerControl, TrainerState

from arena_eval.rollouts import Rollout, write_rollouts
from arena_trainers.data.rollouts import joined, trees_of, turn_credits
from arena_trainers.runs.callbacks.callback import Callback
from arena_trainers.runs.callbacks.tracking import track

if TYPE_CHECKING:
    from arena_trainers.train.trainer import TurnGRPOTrainer


class RolloutsFile(Callback):
    """Writes some training groups with their credit at each logging step.

    All processes call it; the main process writes `step-N.jsonl`, see
    `arena_eval.rollouts`, and sends the first turns to experiment trackers.

    Args:
        trainer: the trainer; its latest generation batch is written.
        folder: where the files go.
        num_groups: groups in each file; 0 for no files.
    """

    def __init__(
        self, trainer: "TurnGRPOTrainer", folder: Path, num_groups: int
    ) -> None:
        self.trainer, self.folder, self.num_groups = trainer, folder, num_groups

    def stepped(self, state: TrainerState, control: TrainerControl) -> None:
        every = max(int(state.logging_steps), 1)
        if self.num_groups == 0 or state.global_step % every:
            return
        rollouts = training_groups(self.trainer, self.num_groups)
        if state.is_world_process_zero:
            self.folder.mkdir(exist_ok=True)
            write_rollouts(self.folder / f"step-{state.global_step}.jsonl", rollouts)
            callbacks = self.trainer.callback_handler.callbacks
            track(callbacks, state.global_step, rollouts)


def training_groups(trainer: "TurnGRPOTrainer", num_groups: int) -> list[Rollout]:
    """The first whole groups of the latest generation batch, with their credit.

    Every process must call it; all get the same result.
    """
    episodes, games = trainer.last_episodes, trainer.last_played.games
    rollouts = turn_credits(
        episodes,
        trainer.last_selected.records,
        trainer.last_selected.rows,
        trainer.last_turns,
        trainer.last_credit,
        estimator=trainer.args.credit,
        weighting=trainer.args.weighting,
        part_weights=trainer.credit.weights,
    )
    roots = [g for g, e in zip(games, episodes, strict=True) if e.parent is None]
    pairs = zip(roots, trees_of(rollouts), strict=True)
    trees = [((game, tree[0].episode.seed), tree) for game, tree in pairs]
    starts = gather_object([start for start, _ in trees])
    first_starts = list(dict.fromkeys(starts))[:num_groups]
    gathered = gather_object([entry for entry in trees if entry[0] in first_starts])
    return joined(
        tree for start in first_starts for key, tree in gathered if key == start
    )
