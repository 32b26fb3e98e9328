"""Replies of the model that are printed in training."""

from typing import TYPE_CHECKING, Any

from rich.console import Console
from transformers import (
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from arena_trainers.job.escaped import MAX_SHOWN, escaped
from arena_trainers.train.metrics import advantage_by_turn
from arena_wrappers import Turn

if TYPE_CHECKING:
    from arena_trainers.train.trainer import TurnGRPOTrainer


class SampleReplies(TrainerCallback):
    """Prints a turn of the latest generation batch every so many steps.

    The turn moves on through the batch, so that games and seats take turns. Only the main
    process prints, and only turns that it played.

    Args:
        trainer: the trainer.
        console: where the turn is printed.
        every: steps between turns; 0 for none.
    """

    def __init__(
        self, trainer: "TurnGRPOTrainer", console: Console, every: int
    ) -> None:
        self.trainer, self.console, self.every = trainer, console, every

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        is_due = self.every > 0 and state.global_step % self.every == 0
        if is_due and state.is_world_process_zero and self.trainer.last_kept.records:
            number = state.global_step // self.every - 1
            text = f"step {state.global_step}, {sample_reply(self.trainer, number)}"
            self.console.print(text, markup=False, highlight=False, soft_wrap=True)


def sample_reply(trainer: "TurnGRPOTrainer", number: int) -> str:
    """The last message of a prompt, the reply, its action and its advantage, escaped.

    Args:
        trainer: has played a generation batch.
        number: of the turn among this process's turns; goes round.
    """
    place = number % len(trainer.last_kept.records)
    record, row = trainer.last_kept.records[place], trainer.last_kept.rows[place]
    turn = trainer.last_episodes[record.episode].turns[record.place]
    advantage = advantage_by_turn(trainer.last_turns, trainer.last_credit.advantage)
    plan = trainer.games.plans[record.game]
    return (
        f"a reply in {plan.name}, seat {record.seat}:\n"
        f"  prompt ends with: {_end(turn.messages[-1]['content'])}\n"
        f"  reply: {escaped(turn.reply)}\n"
        f"  action: {_action(plan.game, turn)}; advantage {advantage[row]:.3f}"
    )


def _end(text: str) -> str:
    """The end of a prompt: what differs from turn to turn mostly stands there."""
    return ("..." if text[:-MAX_SHOWN] else "") + escaped(text[-MAX_SHOWN:])


def _action(game: Any, turn: Turn) -> str:
    """The canonical text of the action that was played, or why there was none."""
    played = "none"
    if turn.action is not None:
        played = escaped(game.action_text(turn.state, turn.action))
    if turn.invalid is None:
        return played
    return f"{played} (invalid: {turn.invalid})"
