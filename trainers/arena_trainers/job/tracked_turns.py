"""Training turns for experiment tracking: TensorBoard and trackio."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from arena_trainers.data import Rollout, TurnCredit
from arena_trainers.extras import import_extra
from arena_trainers.report.episodes import title_of
from arena_wrappers import Turn

if TYPE_CHECKING:
    from transformers import TrainerCallback

MAX_EPISODES = 4  # at each log
MAX_TURNS = 40  # of each episode
MAX_TEXT = 2000  # characters of a text in a table
COLUMNS = (
    *("episode", "turn", "seat", "policy", "prompt", "reply"),
    *("reward", "advantage", "estimator", "return"),
)


class TrackedTurn(NamedTuple):
    """A turn of a training episode.

    Attributes:
        title: game, parameters and seed of the episode.
        place: number of the turn in the episode.
        turn: the turn.
        credit: its credit; None for a turn that is not trained.
        seat_return: return of its seat.
    """

    title: str
    place: int
    turn: Turn
    credit: TurnCredit | None
    seat_return: float

    @property
    def advantage(self) -> float | None:
        """The advantage; the mean over the tokens where these are credited."""
        if self.credit is None:
            return None
        found = self.credit.advantage
        if isinstance(found, Sequence):
            return sum(found) / len(found) if found else 0.0
        return found


def tracked_turns(rollouts: Sequence[Rollout]) -> list[TrackedTurn]:
    """The first turns of the first episodes."""
    return [
        TrackedTurn(title_of(episode), place, turn, earned, episode.returns[turn.seat])
        for episode, credit in rollouts[:MAX_EPISODES]
        for place, (turn, earned) in enumerate(
            zip(episode.turns[:MAX_TURNS], credit, strict=False)
        )
    ]


def track(
    callbacks: Sequence["TrainerCallback"], step: int, rollouts: Sequence[Rollout]
) -> None:
    """Sends turns to TensorBoard and trackio, where the trainer reports to these.

    TensorBoard gets a table as text, with the tag `turns`. Trackio gets a trace for each
    turn under the same name.

    Args:
        callbacks: of the trainer; transformers' own are known by their class.
        step: the optimizer step.
        rollouts: training episodes with their credit.
    """
    turns = tracked_turns(rollouts)
    for callback in callbacks:
        name = type(callback).__name__
        writer = getattr(callback, "tb_writer", None)
        if name == "TensorBoardCallback" and writer is not None:
            writer.add_text("turns", markdown_table(turns), step)
        elif name == "TrackioCallback":
            trackio = import_extra("trackio", "track")
            traces = [trackio.Trace(**trace_of(turn, step)) for turn in turns]
            trackio.log({"turns": traces, "train/global_step": step})


def trace_of(tracked: TrackedTurn, step: int) -> dict[str, Any]:
    """The prompt and the reply as messages, and the rest as metadata."""
    turn, credit = tracked.turn, tracked.credit
    messages = [dict(message) for message in turn.messages]
    return {
        "messages": [*messages, {"role": "assistant", "content": turn.reply}],
        "metadata": {
            "step": step,
            "episode": tracked.title,
            "turn": tracked.place,
            "seat": turn.seat,
            "policy": turn.policy,
            "reward": turn.reward,
            "rewards": dict(turn.rewards),
            "advantage": tracked.advantage,
            "estimator": None if credit is None else credit.estimator,
            "return": tracked.seat_return,
            "invalid": turn.invalid,
        },
    }


def markdown_table(turns: Sequence[TrackedTurn]) -> str:
    """A table of turns in Markdown, in which texts of players have no effect."""
    lines = [COLUMNS, ["---"] * len(COLUMNS), *map(_row, turns)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _row(tracked: TrackedTurn) -> list[str]:
    turn, credit = tracked.turn, tracked.credit
    prompt = turn.messages[-1]["content"] if turn.messages else ""
    cells = [tracked.title, str(tracked.place), str(turn.seat), turn.policy]
    cells += [prompt[-MAX_TEXT:], turn.reply[:MAX_TEXT], f"{turn.reward:g}"]
    cells += ["", ""] if credit is None else [_signed(tracked), credit.estimator]
    return [_entities(cell) for cell in [*cells, f"{tracked.seat_return:g}"]]


def _signed(tracked: TrackedTurn) -> str:
    return "" if tracked.advantage is None else f"{tracked.advantage:+.4g}"


def _entities(text: str) -> str:
    """The text with each character that Markdown or HTML reads as an entity."""
    return "".join(
        c if c.isalnum() or c in " +-.,:" else f"&#{ord(c)};" if c != "\n" else "<br>"
        for c in text
    )
