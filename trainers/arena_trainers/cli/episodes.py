"""The command `arena show-episodes`, which prints recorded episodes."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from arena_trainers.cli.usage import usage_errors
from arena_trainers.train.rollouts import Rollout, TurnCredit, read_rollouts
from arena_wrappers import Episode, Turn


def add_commands(app: typer.Typer) -> None:
    """Adds the command to the `arena` command."""
    app.command("show-episodes")(show_episodes)


def show_episodes(
    file: Annotated[Path, typer.Argument(metavar="FILE")],
    num_episodes: Annotated[
        int, typer.Option("--episodes", "-n", min=1, help="Number of episodes to show.")
    ] = 4,
    first: Annotated[
        int, typer.Option(min=0, help="First line to show, counted from 0.")
    ] = 0,
    full: Annotated[
        bool,
        typer.Option("--full", help="Show whole prompts, not only the last message."),
    ] = False,
) -> None:
    """Print recorded episodes, turn by turn.

    A turn has its prompt, reply, reward and credit. FILE has JSON lines: episodes.jsonl or rollouts/step-N.jsonl of a run folder, or the
    --out file of eval or play. Only rollouts have credit.

    For example:

    arena show-episodes runs/seed1/episodes.jsonl

    arena show-episodes runs/seed1/rollouts/step-400.jsonl -n 16
    """
    with usage_errors():
        if not file.is_file():
            raise ValueError(
                f"want a file of episodes, found none at {str(file)!r}; give a file such as "
                "runs/first/episodes.jsonl"
            )
        wanted = islice(read_rollouts(file), first, first + num_episodes)
        shown = 0
        for number, rollout in enumerate(wanted, first):
            for line in episode_lines(number, rollout, full):
                typer.echo(line)
            shown += 1
        if not shown:
            raise ValueError(
                f"want --first below the number of episodes in {file}, got {first}"
            )
        with open(file, "rb") as lines:
            rest = sum(1 for _ in lines) - first - shown
    if rest:
        typer.echo(f"{rest} more: --first {first + shown} shows the next ones")


def episode_lines(number: int, rollout: Rollout, full: bool) -> Iterator[str]:
    """A recorded episode as lines of text.

    Args:
        number: number of its line in the file.
        rollout: the episode and its credit.
        full: whether to show whole prompts, or only the last message.
    """
    episode, credit = rollout
    params = ", ".join(f"{name}={value}" for name, value in episode.params.items())
    name = f"{episode.game} ({params})" if params else episode.game
    yield f"--- episode {number}: {name}, seed {episode.seed}, sample {episode.sample}"
    if episode.parent is not None:
        yield f"branches from episode {episode.parent} before turn {episode.branch}"
    for turn, earned in zip(episode.turns, credit, strict=True):
        yield f"player_{turn.seat} ({turn.policy}), turn {turn.index}"
        shown = turn.messages if full else turn.messages[-1:]
        for message in shown:
            label = message["role"] if full else "prompt"
            yield _indented(label, message["content"])
        yield _indented("reply", turn.reply)
        if turn.invalid is not None:
            yield _indented("invalid", f"{turn.invalid}: {turn.detail}")
        yield _indented("reward", _reward(turn))
        if earned is not None:
            yield _indented("credit", _credit(earned))
    yield _end(episode)
    yield ""


def _end(episode: Episode) -> str:
    returns = (f"player_{i} {value:g}" for i, value in enumerate(episode.returns))
    parts = [f"returns: {', '.join(returns)}"]
    if episode.forfeited_by is not None:
        parts.append(f"player_{episode.forfeited_by} forfeits")
    if episode.truncated:
        parts.append("truncated")
    return "; ".join(parts)


def _reward(turn: Turn) -> str:
    parts = ", ".join(f"{name} {value:g}" for name, value in turn.rewards.items())
    return f"{turn.reward:g} ({parts})" if len(turn.rewards) > 1 else f"{turn.reward:g}"


def _credit(earned: TurnCredit) -> str:
    advantage = earned.advantage
    if isinstance(advantage, Sequence):
        text = "advantages per token " + " ".join(f"{a:+.3f}" for a in advantage)
    else:
        text = f"advantage {advantage:+.3f}"
    if earned.weight != 1:
        text += f", weight {earned.weight:.3f}"
    pool = ", ".join(f"{name} {value}" for name, value in earned.pool.items())
    text += f" by {earned.estimator}; pool: {pool or 'all'}"
    if earned.pool_size is not None:
        text += f" ({earned.pool_size} values, mean {earned.pool_mean:.3f}, "
        text += f"std {earned.pool_std:.3f})"
    return text


def _indented(label: str, text: str) -> str:
    """A labelled text with aligned lines, without control characters."""
    lines = [_printable(line) for line in text.split("\n")]
    return f"  {label:<9} " + ("\n" + " " * 12).join(lines)


def _printable(text: str) -> str:
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in text
    )
