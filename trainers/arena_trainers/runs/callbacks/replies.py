"""Sample replies, printed in training."""

from typing import TYPE_CHECKING

from transformers import TrainerControl, TrainerState

from arena_trainers.runs.callbacks.callback import Callback
from arena_trainers.terminal import Console
from arena_trainers.train.metrics import advantage_by_turn

if TYPE_CHECKING:
    from arena_trainers.train.trainer import TurnGRPOTrainer


MAX_CHARACTERS = 200  # of a text that is shown


def escaped(text: str) -> str:
    r"""The start of a text in quotes: ASCII alone, without control characters.

    >>> print(escaped("bet" + chr(27) + "[2J"))
    'bet\x1b[2J'
    """
    return ascii(text[:MAX_CHARACTERS]) + ("..." if text[MAX_CHARACTERS:] else "")


class SampleReplies(Callback):
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

    def stepped(self, state: TrainerState, control: TrainerControl) -> None:
        is_due = self.every > 0 and state.global_step % self.every == 0
        if (
            is_due
            and state.is_world_process_zero
            and self.trainer.last_selected.records
        ):
            number = state.global_step // self.every - 1
            text = f"step {state.global_step}, {sample_reply(self.trainer, number)}"
            self.console.print(text, markup=False, highlight=False, soft_wrap=True)


def sample_reply(trainer: "TurnGRPOTrainer", number: int) -> str:
    """The last message of a prompt, the reply, its action and its advantage, escaped.

    Args:
        trainer: has played a generation batch.
        number: of the turn among this process's turns; goes round.
    """
    place = number % len(trainer.last_selected.records)
    record = trainer.last_selected.records[place]
    row = trainer.last_selected.rows[place]
    turn = trainer.last_episodes[record.episode].turns[record.place]
    advantage = advantage_by_turn(trainer.last_turns, trainer.last_credit.advantage)
    plan = trainer.games.plans[record.game]
    prompt = turn.messages[-1]["content"]  # its end differs from turn to turn
    end = ("..." if prompt[:-MAX_CHARACTERS] else "") + escaped(
        prompt[-MAX_CHARACTERS:]
    )
    action = "none"
    if turn.action is not None:
        action = escaped(plan.game.action_text(turn.state, turn.action))
    if turn.invalid is not None:
        action += f" (invalid: {turn.invalid})"
    return (
        f"a reply in {plan.name}, seat {record.seat}:\n"
        f"  prompt ends with: {end}\n"
        f"  reply: {escaped(turn.reply)}\n"
        f"  action: {action}; advantage {advantage[row]:.3f}"
    )
