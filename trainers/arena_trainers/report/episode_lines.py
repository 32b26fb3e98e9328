"""Recorded episodes as lines of text, without control characters."""

from collections.abc import Iterator, Sequence

from arena_trainers.report.episode_facts import title_of
from arena_trainers.report.reading import Recorded
from arena_trainers.train.rollouts import TurnCredit
from arena_wrappers import Episode, Turn


def episode_lines(recorded: Recorded, full: bool) -> Iterator[str]:
    """A recorded episode as lines of text.

    Args:
        recorded: the episode and its credit.
        full: whether to show whole prompts, or only the last message.
    """
    episode, credit = recorded.rollout
    yield f"--- line {recorded.line}: {printable(title_of(episode))}"
    if episode.parent is not None:
        yield f"branches from line {episode.parent + 1} before turn {episode.branch}"
    for turn, earned in zip(episode.turns, credit, strict=True):
        yield from turn_lines(turn, earned, full)
    yield end_line(episode)
    yield ""


def turn_lines(
    turn: Turn, earned: TurnCredit | None, full: bool, viewer: str = "all"
) -> Iterator[str]:
    """A turn with its prompt, reply, reward and credit as lines of text.

    Args:
        turn: the turn.
        earned: its credit.
        full: whether to show the whole prompt, or only the last message.
        viewer: who looks. An agent such as `"player_1"` reads its own prompts and replies only.
    """
    yield printable(f"player_{turn.seat} ({turn.policy}), turn {turn.index}")
    if is_hidden(turn, viewer):
        yield _indented("prompt", f"hidden from {viewer}")
        yield _indented("reply", f"hidden from {viewer}")
    else:
        yield from _words(turn, full)
    yield _indented("reward", _reward(turn))
    if earned is not None:
        yield _indented("credit", _credit(earned))


def is_hidden(turn: Turn, viewer: str) -> bool:
    """Whether the prompt and reply of a turn are another seat's than the viewer's."""
    return viewer.startswith("player_") and viewer != f"player_{turn.seat}"


def _words(turn: Turn, full: bool) -> Iterator[str]:
    """What the seat read and wrote."""
    shown = turn.messages if full else turn.messages[-1:]
    for message in shown:
        label = message["role"] if full else "prompt"
        yield _indented(label, message["content"])
    yield _indented("reply", turn.reply)
    if turn.invalid is not None:
        yield _indented("invalid", f"{turn.invalid}: {turn.detail}")


def end_line(episode: Episode) -> str:
    """How an episode ended, and its returns."""
    if episode.lost is not None:
        return f"lost, without returns: {printable(episode.lost)}"
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
    lines = [printable(line) for line in text.split("\n")]
    return f"  {label:<9} " + ("\n" + " " * 12).join(lines)


def printable(text: str) -> str:
    """`text` with its control characters escaped."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in text
    )
