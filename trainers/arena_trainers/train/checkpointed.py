"""The files that trainers save besides those of transformers, and read when a run resumes."""

import json
import shutil
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import (
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from arena_trainers.credit.by_name import find_estimator
from arena_trainers.credit.needs import keeps_state
from arena_trainers.lm.prompt_file import PROMPT_FILE
from arena_trainers.train.bounded_forward import BoundedForwardTrainer
from arena_trainers.train.checkpoint import (
    checkpoint_of,
    fault,
    files_of,
    newest_checkpoint,
    rotate,
    write_manifest,
)
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.credit import BatchCredit
from arena_trainers.train.critics import FeatureCritic
from arena_trainers.train.failures import raised_everywhere
from arena_trainers.train.games import GamePlan
from arena_trainers.train.matching import Matching, PreparedGames, Tasks
from arena_trainers.train.resume import keep_to_schedule
from arena_trainers.train.sharding import load_whole

CREDIT_STATE, CRITIC = "credit_state.json", "critic.pt"
REFERENCE = "reference_model.pt"


class WholeCheckpoints(TrainerCallback):
    """Ends each checkpoint with its manifest, and only then deletes older ones.

    It also saves a reference model that moves. It must be the last callback that writes into
    checkpoints. `Trainer` would delete older checkpoints before callbacks write. So
    `save_total_limit` is None while it trains.

    Args:
        trainer: any `transformers.Trainer`.
        others: lists files outside of the checkpoint that it needs.
    """

    def __init__(
        self, trainer: Any, others: Callable[[], Iterable[Path]] = tuple
    ) -> None:
        self.trainer, self.others = trainer, others
        self.limit: int | None = None

    def on_train_begin(
        self, args: TrainingArguments, state: Any, control: Any, **kwargs: Any
    ) -> None:
        self.limit, args.save_total_limit = args.save_total_limit, None

    def on_train_end(
        self, args: TrainingArguments, state: Any, control: Any, **kwargs: Any
    ) -> None:
        args.save_total_limit = self.limit

    def on_step_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """Deletes the checkpoint of the step that begins: it was left by a run that ended."""
        folder = checkpoint_of(str(args.output_dir), state.global_step + 1)
        if args.should_save and folder.is_dir():
            shutil.rmtree(folder)

    def on_save(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        folder = checkpoint_of(str(args.output_dir), state.global_step)
        weights = None
        if moves_reference(args):  # every process takes part where it is sharded
            weights = self.trainer.accelerator.get_state_dict(self.trainer.ref_model)
        self.trainer.accelerator.wait_for_everyone()  # each has written its random state
        with raised_everywhere():
            if args.should_save:
                if weights is not None:
                    torch.save(weights, folder / REFERENCE)
                files = [*files_of(folder), *self.others()]
                resumes = not args.save_only_model
                write_manifest(
                    folder, files, processes=args.world_size, resumes=resumes
                )
                rotate(folder, self.limit, state.best_model_checkpoint)


def moves_reference(args: Any) -> bool:
    """Whether the reference model follows the model that is trained."""
    return bool(getattr(args, "sync_ref_model", False))


def load_reference(trainer: Any, checkpoint: Path) -> None:
    """Gives a trainer the reference model of a checkpoint, if it moves.

    Raises:
        ValueError: the checkpoint has none.
    """
    if not moves_reference(trainer.args):
        return
    path = checkpoint / REFERENCE
    if not path.is_file():
        raise ValueError(
            f"want {REFERENCE} in a checkpoint of a run with sync_ref_model, got none in "
            f"{str(checkpoint)!r}; resume with the settings of that run"
        )
    weights = torch.load(path, map_location="cpu", weights_only=True)
    load_whole(trainer.ref_model, weights, trainer.accelerator)


def credited_by(args: TurnGRPOConfig, plans: Sequence[GamePlan]) -> dict[str, Any]:
    """The owner of a state or critic: estimator, critic, and games in their order."""
    names = [plan.name for plan in plans]
    return {"credit": args.credit, "critic": args.critic, "games": names}


def save_credit(
    folder: Path,
    owner: Mapping[str, Any],
    state: Mapping[str, Any] | None,
    critic: Any = None,
) -> None:
    """Writes the state from which the next batch's credit follows, and its owner.

    Args:
        folder: the checkpoint.
        owner: the result of `credited_by`.
        state: the estimator's state, if it keeps one.
        critic: the critic, if there is one; only a `FeatureCritic` is written.
    """
    if isinstance(critic, FeatureCritic):
        torch.save(critic.state_dict(), folder / CRITIC)
    (folder / CREDIT_STATE).write_text(json.dumps({**owner, "state": state}))


def load_credit(
    folder: Path, owner: Mapping[str, Any], critic: Any = None
) -> Mapping[str, Any] | None:
    """The estimator's state in a checkpoint, if any; a `FeatureCritic` gets its weights.

    A run may go on with another estimator if neither of the two keeps a state or has a
    `FeatureCritic`.

    Raises:
        ValueError: the checkpoint has another owner or none, and its state or critic would
            be needed or lost.
    """
    file = folder / CREDIT_STATE
    found = json.loads(file.read_text()) if file.is_file() else None
    learns = isinstance(critic, FeatureCritic)
    kept = learns or keeps_state(find_estimator(owner["credit"]))
    if found is None:
        if kept:
            raise ValueError(
                f"want a checkpoint of credit {owner['credit']!r} with critic "
                f"{owner['critic']!r}, got one without {CREDIT_STATE}"
            )
        return None
    if kept or found["state"] is not None or found["critic"] == "features":
        for key, wanted in owner.items():
            if found[key] != wanted:
                raise ValueError(
                    f"want a checkpoint of {key} {wanted!r}, got one of {found[key]!r}"
                )
    if learns:
        critic.load_state_dict(torch.load(folder / CRITIC, weights_only=True))
    state: Mapping[str, Any] | None = found["state"]
    return state


class CheckpointedTrainer(BoundedForwardTrainer):
    """The part of `TurnGRPOTrainer` that writes models and checkpoints.

    Attributes:
        credit: gives turns their credit; its state and critic are saved.
        games: the games, as `prepare_games` made them.
        matching: assigns the seats of starts.
        tasks: assigns the games of starts.
    """

    credit: BatchCredit
    games: PreparedGames
    matching: Matching
    tasks: Tasks
    _prompt_json: str

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """Writes no model card: TRL's describes other training. `arena train` writes one."""

    def save_model(
        self, output_dir: str | None = None, _internal_call: bool = False
    ) -> None:
        """Saves the model with its `arena_prompt.json`; only the main process writes."""
        folder = Path(output_dir or str(self.args.output_dir))
        if self.args.should_save:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / PROMPT_FILE).write_text(self._prompt_json)
        card = folder / "README.md"
        has_card = card.exists()
        super().save_model(output_dir, _internal_call)
        if self.args.should_save and not has_card:
            card.unlink(missing_ok=True)  # peft's is a form with empty fields

    def train(
        self, resume_from_checkpoint: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        """Trains; `resume_from_checkpoint=True` takes the newest valid checkpoint.

        Raises:
            ValueError: the checkpoint is not as it was written, or there is none.
        """
        if resume_from_checkpoint is True:
            found = newest_checkpoint(Path(str(self.args.output_dir)))
            said = "; ".join(found.skipped) or "none was written"
            if found.checkpoint is None:
                raise ValueError(
                    f"want a valid checkpoint in {self.args.output_dir!r}: {said}; train "
                    "without resume_from_checkpoint"
                )
            if found.skipped:
                warnings.warn(f"skipped {said}", stacklevel=2)
            resume_from_checkpoint = str(found.checkpoint)
        elif resume_from_checkpoint:
            reason = fault(Path(resume_from_checkpoint))
            if reason is not None:
                raise ValueError(
                    f"want a whole checkpoint, got {resume_from_checkpoint!r}: {reason}; "
                    "resume from an earlier one"
                )
        return super().train(resume_from_checkpoint, *args, **kwargs)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        folder = checkpoint_of(self._get_output_dir(trial), self.state.global_step)
        self.matching.save_replies(folder)
        if self.args.should_save:
            self.matching.save(folder)
            self.tasks.save(folder)
            owner = credited_by(self.args, self.games.plans)
            save_credit(folder, owner, self.credit.state, self.credit.critic)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None:
            return
        keep_to_schedule(self.lr_scheduler)
        owner = credited_by(self.args, self.games.plans)
        self.credit.state = load_credit(Path(checkpoint), owner, self.credit.critic)
        self.matching.load(Path(checkpoint))
        self.tasks.load(Path(checkpoint))
        load_reference(self, Path(checkpoint))
