"""The files that trainers save besides those of transformers, and read when a run resumes."""

import json
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, cast

import torch
from accelerate import Accelerator
from torch.optim.lr_scheduler import LambdaLR
from transformers import (
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from arena_credit.by_name import find_estimator
from arena_credit.needs import keeps_state
from arena_trainers.checkpoint import (
    checkpoint_of,
    fault,
    files_of,
    newest_checkpoint,
    rotate,
    write_manifest,
)
from arena_trainers.finite import ADVICE, check_finite_state, weights_fault
from arena_trainers.lm.policy import LMPolicy
from arena_trainers.lm.prompt_file import PROMPT_FILE
from arena_trainers.processes import raised_everywhere
from arena_trainers.train.advantages import BatchCredit
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.critics.protocol import Critic
from arena_trainers.train.games import GamePlan
from arena_trainers.train.matching import Matching
from arena_trainers.train.parts import TrainingLoop
from arena_trainers.train.prepared import PreparedGames
from arena_trainers.train.score.reference_memo import ReferenceMemo
from arena_trainers.train.score.sharding import load_whole
from arena_trainers.train.tasks import Tasks


def keep_to_schedule(scheduler: Any) -> None:
    """Sets the learning rate to that of the new schedule at the current step.

    A checkpoint holds the rate of its own schedule, such as 0 at the end of a linear one,
    which would be wrong if the run goes on to more steps. Nothing changes if the schedule is
    the same.
    """
    schedule = getattr(scheduler, "scheduler", scheduler)  # accelerate may wrap it
    if isinstance(schedule, LambdaLR):
        parts = zip(
            schedule.optimizer.param_groups,
            schedule.base_lrs,
            schedule.lr_lambdas,
            strict=True,
        )
        rates = [base * factor(schedule.last_epoch) for _, base, factor in parts]
        for group, rate in zip(schedule.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        schedule._last_lr = rates


def describe(step: int, args: TrainingArguments, extended: bool) -> str:
    """The line that is printed when a run goes on from a step."""
    text = f"going on after step {step} of {args.max_steps}"
    if extended:
        text += (
            f", from the last weights and optimizer state; the learning rate now follows "
            f"the {getattr(args.lr_scheduler_type, 'value', args.lr_scheduler_type)} "
            f"schedule of {args.max_steps} steps, from step {step} of it"
        )
    return text


CREDIT_STATE, CRITIC = "credit_state.json", "critic.pt"
REFERENCE = "reference_model.pt"


class SavingTrainer(Protocol):
    """A trainer of transformers."""

    accelerator: Accelerator

    @property
    def args(self) -> TrainingArguments:
        """Its settings."""
        ...


class ReferenceOwner(SavingTrainer, Protocol):
    """A trainer of TRL, with a reference model."""

    ref_model: Any


class CheckpointPart(Protocol):
    """A part with files of its own in a checkpoint."""

    def save(self, checkpoint: Path) -> None:
        """Writes them; only the main process calls it."""
        ...

    def load(self, checkpoint: Path) -> None:
        """Goes on from them."""
        ...


class NamedLearners(Protocol):
    """Several learners."""

    names: list[str]


class CheckpointLoop(TrainingLoop, Protocol):
    """What `CheckpointFiles` saves and loads."""

    policy: LMPolicy
    games: PreparedGames
    matching: Matching
    tasks: Tasks
    credit: BatchCredit
    lr_scheduler: Any
    ref_model: Any
    reference_memo: ReferenceMemo | None

    @property
    def learners(self) -> NamedLearners | None:
        """Those of `roles`."""
        ...

    @property
    def async_player(self) -> CheckpointPart | None:
        """Plays beside training."""
        ...


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
        self, trainer: SavingTrainer, others: Callable[[], Iterable[Path]] = tuple
    ) -> None:
        self.trainer, self.others = trainer, others
        self.limit: int | None = None

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **_: Any,
    ) -> None:
        self.limit, args.save_total_limit = args.save_total_limit, None

    def on_train_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **_: Any,
    ) -> None:
        args.save_total_limit = self.limit

    def on_step_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **_: Any,
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
        **_: Any,
    ) -> None:
        folder = checkpoint_of(str(args.output_dir), state.global_step)
        weights = None
        if moves_reference(args):  # every process takes part where it is sharded
            reference = cast(ReferenceOwner, self.trainer).ref_model
            weights = self.trainer.accelerator.get_state_dict(reference)
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


def moves_reference(args: TrainingArguments) -> bool:
    """Whether the reference model follows the model that is trained."""
    return bool(getattr(args, "sync_ref_model", False))


def load_reference(trainer: SavingTrainer, checkpoint: Path) -> None:
    """Gives a trainer the reference model of a checkpoint, if it moves.

    Raises:
        ValueError: the checkpoint has none.
    """
    if not moves_reference(trainer.args):
        return
    path = checkpoint / REFERENCE
    if not path.is_file():
        raise ValueError(
            "want reference_model.pt in a checkpoint of a run with sync_ref_model, got "
            f"none in {str(checkpoint)!r}; resume with the settings of that run"
        )
    weights = torch.load(path, map_location="cpu", weights_only=True)
    load_whole(cast(ReferenceOwner, trainer).ref_model, weights, trainer.accelerator)


def credited_by(args: TurnGRPOConfig, plans: Sequence[GamePlan]) -> dict[str, Any]:
    """The owner of a state or critic: estimator, critic, and games in their order."""
    names = [plan.name for plan in plans]
    return {"credit": args.credit, "critic": args.critic, "games": names}


def save_credit(
    folder: Path,
    owner: Mapping[str, Any],
    state: Mapping[str, Any] | None,
    critic: Critic | None = None,
    multipliers: Mapping[str, float] | None = None,
) -> None:
    """Writes the state from which the next batch's credit follows, and its owner.

    Args:
        folder: the checkpoint.
        owner: the result of `credited_by`.
        state: the estimator's state, if it keeps one.
        critic: the critic, if there is one; it is written if it learns.
        multipliers: of rewards with a limit.
    """
    weights = None if critic is None else critic.state_dict()
    if weights is not None:
        check_finite_state(weights, "the critic")
        torch.save(weights, folder / CRITIC)
    (folder / CREDIT_STATE).write_text(
        json.dumps({**owner, "state": state, "multipliers": dict(multipliers or {})})
    )


def load_credit(
    folder: Path, owner: Mapping[str, Any], critic: Critic | None = None
) -> Mapping[str, Any] | None:
    """The estimator's state in a checkpoint, if any; a critic that learns gets its weights.

    A run may go on with another estimator if neither of the two keeps a state or has a
    critic that learns.

    Raises:
        ValueError: the checkpoint has another owner or none, and its state or critic would
            be needed or lost.
    """
    file = folder / CREDIT_STATE
    content = json.loads(file.read_text()) if file.is_file() else None
    learns = critic is not None and critic.state_dict() is not None
    needs_state = learns or keeps_state(find_estimator(owner["credit"]))
    if content is None:
        if needs_state:
            raise ValueError(
                f"want a checkpoint of credit {owner['credit']!r} with critic "
                f"{owner['critic']!r}, got one without credit_state.json"
            )
        return None
    if needs_state or content["state"] is not None or (folder / CRITIC).is_file():
        for key, value in owner.items():
            if content[key] != value:
                raise ValueError(
                    f"want a checkpoint of {key} {value!r}, got one of {content[key]!r}"
                )
    if critic is not None and learns:
        critic.load_state_dict(torch.load(folder / CRITIC, weights_only=True))
    state: Mapping[str, Any] | None = content["state"]
    return state


class CheckpointFiles:
    """The part of `TurnGRPOTrainer` that writes and reads what a checkpoint has besides TRL's.

    Args:
        trainer: its `credit`, `matching` and `tasks` are saved, what the reference gave to rows,
            and the reference model if that moves.
    """

    def __init__(self, trainer: CheckpointLoop) -> None:
        self.trainer = trainer
        self.prompt_json = trainer.policy.prompt_json()  # refused now, not at the end
        self.owner = credited_by(trainer.args, trainer.games.plans)
        trainer.add_callback(WholeCheckpoints(trainer, lambda: trainer.matching.files))

    @contextmanager
    def model_in(self, folder: Path) -> Iterator[None]:
        """Writes `arena_prompt.json`; a model is saved in this context, without a card."""
        writes = self.trainer.args.should_save
        if writes:
            folder.mkdir(parents=True, exist_ok=True)
            for name in self.trainer.learners.names if self.trainer.learners else ():
                (folder / name).mkdir(exist_ok=True)
                (folder / name / PROMPT_FILE).write_text(self.prompt_json)
            (folder / PROMPT_FILE).write_text(self.prompt_json)
        card = folder / "README.md"
        has_card = card.exists()
        yield
        if writes and not has_card:
            card.unlink(missing_ok=True)  # peft's is a form with empty fields

    def save(self, folder: Path) -> None:
        """Writes the files of a checkpoint; every process calls it."""
        trainer = self.trainer
        trainer.matching.save_replies(folder)
        if trainer.args.should_save:
            trainer.matching.save(folder)
            trainer.tasks.save(folder)
            credit = trainer.credit
            save_credit(
                folder, self.owner, credit.state, credit.critic, credit.multipliers
            )
            if trainer.reference_memo is not None:
                trainer.reference_memo.save(folder)
            if trainer.async_player is not None:
                trainer.async_player.save(folder)

    def load(self, folder: Path) -> None:
        """Goes on from a checkpoint."""
        trainer = self.trainer
        keep_to_schedule(trainer.lr_scheduler)
        trainer.credit.state = load_credit(folder, self.owner, trainer.credit.critic)
        if trainer.credit.multipliers:
            content = json.loads((folder / CREDIT_STATE).read_text())
            trainer.credit.multipliers |= content.get("multipliers", {})
        trainer.matching.load(folder)
        trainer.tasks.load(folder)
        load_reference(trainer, folder)
        if trainer.reference_memo is not None:
            trainer.reference_memo.load(folder, trainer.accelerator.device)
        if trainer.async_player is not None:
            trainer.async_player.load(folder)


def whole_checkpoint(folder: Path, checkpoint: Any) -> str | None:
    """The checkpoint that training resumes from, if any.

    Args:
        folder: the run folder.
        checkpoint: a checkpoint, True for the newest valid one, or None.

    Raises:
        ValueError: the checkpoint is not as it was written or has weights that are not finite, or
            there is none.
    """
    if checkpoint is True:
        newest = newest_checkpoint(folder)
        skipped = "; ".join(newest.skipped) or "none was written"
        if newest.checkpoint is None:
            raise ValueError(
                f"want a valid checkpoint in {str(folder)!r}: {skipped}; train without "
                "resume_from_checkpoint"
            )
        if (reason := weights_fault(newest.checkpoint)) is not None:
            raise ValueError(
                f"want finite weights in {str(newest.checkpoint)!r}, but {reason}; train from an "
                f"earlier checkpoint with {ADVICE}"
            )
        if newest.skipped:
            warnings.warn(f"skipped {skipped}", stacklevel=3)
        return str(newest.checkpoint)
    if not checkpoint:
        return None
    reason = fault(Path(checkpoint))
    if reason is not None:
        raise ValueError(
            f"want a whole checkpoint, got {checkpoint!r}: {reason}; resume from an "
            "earlier one"
        )
    return str(checkpoint)
