"""What `TurnGRPOTrainer` saves in a checkpoint besides TRL: the state of credit, matchmaker, curriculum, play."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import torch

from arena_credit.by_name import find_estimator
from arena_credit.needs import keeps_state
from arena_trainers.finite import check_finite_state
from arena_trainers.lm.policy import LMPolicy
from arena_trainers.lm.prompt_file import PROMPT_FILE
from arena_trainers.train.advantages import BatchCredit
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.critics.protocol import Critic
from arena_trainers.train.games import GamePlan
from arena_trainers.train.matching import Matching
from arena_trainers.train.parts import TrainingLoop
from arena_trainers.train.prepared import PreparedGames
from arena_trainers.train.rollout.expected import ExpectedReplies
from arena_trainers.train.schedule import keep_to_schedule
from arena_trainers.train.score.reference_memo import ReferenceMemo
from arena_trainers.train.tasks import Tasks
from arena_trainers.train.whole_checkpoints import WholeCheckpoints, load_reference

CREDIT_STATE, CRITIC = "credit_state.json", "critic.pt"


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
    expected_replies: ExpectedReplies
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
        trainer: its `credit`, `matching`, `tasks` and `expected_replies` are saved, what the
            reference gave to rows, and the reference model if that moves.
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
        trainer.expected_replies.save(folder)
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
        trainer.expected_replies.load(folder)
        load_reference(trainer, folder)
        if trainer.reference_memo is not None:
            trainer.reference_memo.load(folder, trainer.accelerator.device)
        if trainer.async_player is not None:
            trainer.async_player.load(folder)
