"""Turns with their credit, as TensorBoard and trackio show them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from arena_envs.extras import import_extra
from arena_eval.rollouts import Rollout
from arena_studio.report.episodes import episode_title

if TYPE_CHECKING:
    from transformers import TrainerCallback


MAX_TRACED_EPISODES = 4  # at each log
MAX_TRACED_TURNS = 40  # of each episode
MAX_TEXT = 2000  # characters of a text in a table
COLUMNS = {
    **dict.fromkeys(("episode", "turn", "seat", "policy", "prompt", "reply"), ""),
    "reward": "g",
    "advantage": "+.4g",
    "estimator": "",
    "return": "g",
}  # of a table of turns, with their formats


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
    turns = traces_of(rollouts, step)
    for callback in callbacks:
        name = type(callback).__name__
        writer = getattr(callback, "tb_writer", None)
        if name == "TensorBoardCallback" and writer is not None:
            writer.add_text("turns", markdown_table(turns), step)
        elif name == "TrackioCallback":
            trackio = import_extra("trackio", "track")
            traces = [trackio.Trace(**turn) for turn in turns]
            trackio.log({"turns": traces, "train/global_step": step})


def traces_of(rollouts: Sequence[Rollout], step: int) -> list[dict[str, Any]]:
    """The first turns of the first episodes: prompt and reply as messages, the rest as metadata.

    The advantage is the mean over the tokens where these are credited. A turn that is not
    trained has none.
    """
    traces = []
    for episode, credit in rollouts[:MAX_TRACED_EPISODES]:
        turns = zip(episode.turns[:MAX_TRACED_TURNS], credit, strict=False)
        for place, (turn, earned) in enumerate(turns):
            reply = {"role": "assistant", "content": turn.reply}
            advantage = None if earned is None else earned.advantage
            if isinstance(advantage, Sequence):
                advantage = sum(advantage) / max(len(advantage), 1)
            metadata = {
                "step": step,
                "episode": episode_title(episode),
                "turn": place,
                "seat": turn.seat,
                "policy": turn.policy,
                "reward": turn.reward,
                "rewards": dict(turn.rewards),
                "advantage": advantage,
                "estimator": None if earned is None else earned.estimator,
                "return": episode.returns[turn.seat],
                "invalid": turn.invalid,
            }
            messages = [*map(dict, turn.messages), reply]
            traces.append({"messages": messages, "metadata": metadata})
    return traces


def markdown_table(traces: Sequence[Mapping[str, Any]]) -> str:
    """A table of turns in Markdown, in which texts of players have no effect."""
    lines = [COLUMNS, ["---"] * len(COLUMNS), *map(_row, traces)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _row(trace: Mapping[str, Any]) -> list[str]:
    *prompts, reply = (message["content"] for message in trace["messages"])
    texts = {"prompt": "".join(prompts[-1:])[-MAX_TEXT:], "reply": reply[:MAX_TEXT]}
    fields = trace["metadata"] | texts
    cells = [(fields[name], spec) for name, spec in COLUMNS.items()]
    return [_entities("" if x is None else format(x, spec)) for x, spec in cells]


def _entities(text: str) -> str:
    """The text with each character that Markdown or HTML reads as an entity."""
    return "".join(
        c if c.isalnum() or c in " +-.,:" else f"&#{ord(c)};" if c != "\n" else "<br>"
        for c in text
    )
