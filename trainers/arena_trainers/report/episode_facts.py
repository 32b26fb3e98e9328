"""Facts of a recorded episode that lists and pages show."""

from arena_wrappers import Episode, InvalidReply, Turn
from arena_wrappers.formats import after_reasoning, reply_format_named
from arena_wrappers.prompts import PromptOptions, seat_options


def outcome_of(episode: Episode) -> str:
    """How an episode ended, in a few words that many episodes share."""
    if episode.lost is not None:
        return "lost"
    if episode.forfeited_by is not None:
        return f"player_{episode.forfeited_by} forfeits"
    if episode.truncated:
        return "truncated"
    if not episode.terminated:
        return "not over"
    best = max(episode.returns, default=0.0)
    leading = [f"player_{seat}" for seat, r in enumerate(episode.returns) if r == best]
    if len(episode.returns) == 1:
        return (
            "return above 0"
            if best > 0
            else "return 0"
            if best == 0
            else "return below 0"
        )
    if len(leading) == len(episode.returns):
        return "equal returns"
    return f"{', '.join(leading)} ahead"


def seats_of(episode: Episode) -> range:
    """The seats of an episode; of a lost one, those up to the last that took a turn."""
    last = max((turn.seat for turn in episode.turns), default=-1)
    return range(max(len(episode.returns), last + 1))


def policies_of(episode: Episode) -> dict[int, str]:
    """The name of the policy of each seat that has taken a turn."""
    return {turn.seat: turn.policy for turn in reversed(episode.turns)}


def title_of(episode: Episode) -> str:
    """Game, parameters and seed."""
    params = ", ".join(f"{name}={value}" for name, value in episode.params.items())
    game = f"{episode.game} ({params})" if params else episode.game
    return f"{game}, seed {episode.seed}, sample {episode.sample}"


def parsed_part(episode: Episode, turn: Turn) -> tuple[int, int] | None:
    """Where the part of a reply begins and ends that was read as the answer; None without."""
    try:
        options = seat_options(episode.prompt, turn.seat)
    except (ValueError, TypeError):
        return None
    return answer_span(turn.reply, options)


def answer_span(reply: str, options: PromptOptions) -> tuple[int, int] | None:
    """Where the answer of a reply begins and ends, by the seat's prompt options.

    >>> answer_span("Hm. <answer>bet</answer>", PromptOptions())
    (12, 15)
    """
    rest = after_reasoning(reply)
    if isinstance(rest, InvalidReply):
        return None
    reply_format, skipped = (
        reply_format_named(options.reply_format),
        len(reply) - len(rest),
    )
    found = reply_format.answers(rest)
    if options.parsing == "strict":
        answer = reply_format.extract(rest)
        found = [] if isinstance(answer, InvalidReply) else [answer]
    elif not found:  # the last line with text
        line = rest.rstrip().rpartition("\n")[2]
        start = len(rest.rstrip()) - len(line)
        return (skipped + start, skipped + start + len(line)) if line else None
    if not found:
        return None
    opening = reply_format.wrap("\0").partition("\0")[0]
    start = skipped + rest.rindex(opening + found[-1]) + len(opening)
    return start, start + len(found[-1])
