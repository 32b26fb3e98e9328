"""Episodes as lines of text."""

from collections.abc import Iterator, Mapping, Sequence

from arena_eval.move_values import Solved
from arena_eval.rollouts import TurnCredit
from arena_studio.report.episodes import Recorded, episode_title, is_hidden
from arena_wrappers import Episode, Turn


def episode_lines(recorded: Recorded, full: bool) -> Iterator[str]:
    """A recorded episode as lines of text.

    Args:
        recorded: the episode and its credit.
        full: whether to show whole prompts, or only the last message.
    """
    episode, credit = recorded.rollout
    yield f"--- line {recorded.line}: {escape_controls(episode_title(episode))}"
    if episode.parent is not None:
        yield f"branches from line {episode.parent + 1} before turn {episode.branch}"
    for turn, turn_credit in zip(episode.turns, credit, strict=True):
        yield from turn_lines(turn, turn_credit, full)
    yield end_line(episode)
    yield ""


def turn_lines(
    turn: Turn, turn_credit: TurnCredit | None, full: bool, viewer: str = "all"
) -> Iterator[str]:
    """A turn with its prompt, reply, reward and credit as lines of text.

    Args:
        turn: the turn.
        turn_credit: its credit.
        full: whether to show the whole prompt, or only the last message.
        viewer: who looks. An agent such as `"player_1"` reads its own prompts and replies only.
    """
    yield escape_controls(f"player_{turn.seat} ({turn.policy}), turn {turn.index}")
    if is_hidden(turn, viewer):
        yield _indented("prompt", f"hidden from {viewer}")
        yield _indented("reply", f"hidden from {viewer}")
    else:
        for message in turn.messages if full else turn.messages[-1:]:
            label = message["role"] if full else "prompt"
            yield _indented(label, message["content"])
        for call in turn.generations:
            yield _indented(escape_controls(call.role), call.text)
        yield _indented("reply", turn.reply)
        if turn.invalid is not None:
            yield _indented("invalid", f"{turn.invalid}: {turn.detail}")
    yield _indented("reward", _reward(turn, turn_credit))
    if turn_credit is not None:
        yield _indented("credit", _credit(turn_credit))


def end_line(episode: Episode) -> str:
    """The end of an episode, and its returns."""
    if episode.lost is not None:
        return f"lost, without returns: {escape_controls(episode.lost)}"
    returns = (f"player_{i} {value:g}" for i, value in enumerate(episode.returns))
    parts = [f"returns: {', '.join(returns)}"]
    if episode.forfeited_by is not None:
        parts.append(f"player_{episode.forfeited_by} forfeits")
    if episode.truncated:
        parts.append("truncated")
    return "; ".join(parts)


def _reward(turn: Turn, turn_credit: TurnCredit | None) -> str:
    """The reward that credit reads, with its parts; without credit, that of the episode."""
    rewards, unpaid_rewards = turn.rewards, {}
    if turn_credit is not None and (turn_credit.rewards or turn_credit.unpaid):
        rewards, unpaid_rewards = dict(turn_credit.rewards), dict(turn_credit.unpaid)
    text = f"{sum(rewards.values()):g}"
    if len(rewards) > 1:
        text += f" ({_parts(rewards)})"
    return text + (f"; not paid: {_parts(unpaid_rewards)}" if unpaid_rewards else "")


def _parts(rewards: Mapping[str, float]) -> str:
    return ", ".join(
        f"{escape_controls(name)} {value:g}" for name, value in rewards.items()
    )


def _credit(turn_credit: TurnCredit) -> str:
    text = _advantage(turn_credit.advantage)
    if turn_credit.calls:
        text = "; ".join(
            f"call {i} {_advantage(a)}" for i, a in enumerate(turn_credit.calls, 1)
        )
    if turn_credit.weight != 1:
        text += f", weight {turn_credit.weight:.3f}"
    pool = ", ".join(f"{name} {value}" for name, value in turn_credit.pool.items())
    text += f" by {turn_credit.estimator}; pool: {pool or 'all'}"
    if turn_credit.pool_size is not None:
        text += f" ({turn_credit.pool_size} values, mean {turn_credit.pool_mean:.3f}, "
        text += f"std {turn_credit.pool_std:.3f})"
    return text


def _advantage(advantage: float | Sequence[float]) -> str:
    if isinstance(advantage, Sequence):
        return "advantages per token " + " ".join(f"{a:+.3f}" for a in advantage)
    return f"advantage {advantage:+.3f}"


def _indented(label: str, text: str) -> str:
    """A labelled text with aligned lines, without control characters."""
    lines = [escape_controls(line) for line in text.split("\n")]
    return f"  {label:<9} " + ("\n" + " " * 12).join(lines)


def escape_controls(text: str) -> str:
    """`text` with its control characters escaped."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in text
    )


def value_lines(solved: Solved, place: int) -> list[str]:
    """The values at a turn as lines of text, largest first; the action played has a star."""
    moves = solved.turns[place]
    if moves is None:
        return [f"  values    none: {escape_controls(solved.fault or '')}"]
    order = sorted(range(len(moves.values)), key=lambda i: -moves.values[i])
    texts = [
        f"{'*' if i == moves.played else ''}{escape_controls(moves.actions[i])} "
        f"{moves.values[i]:+.4g}"
        for i in order
    ]
    lines = [f"  values    {', '.join(texts)}"]
    if moves.regret is not None:
        lines.append(f"  regret    {moves.regret:.4g}")
    return [*lines, f"{' ' * 12}expected returns if {solved.reference}"]
