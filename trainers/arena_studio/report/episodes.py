"""Recorded episodes: lines of files, and what they say of an episode and its turns."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from arena_eval.rollouts import Rollout, rollout_of
from arena_eval.tournament.round_robin import EPISODE, HEADER, LINE
from arena_studio.outputs import episode_file, reading_advice
from arena_wrappers import Episode, InvalidReply, Turn
from arena_wrappers.prompts import (
    PromptOptions,
    after_reasoning,
    find_reply_format,
    seat_options,
)

MAX_SHOWN = 20_000  # characters of a line that is no episode


class BadLine(NamedTuple):
    """A line that is no episode.

    Attributes:
        line: number of the line, from 1.
        reason: what is wrong with it.
        text: its beginning.
    """

    line: int
    reason: str
    text: str


class Recorded(NamedTuple):
    """An episode of a file.

    Attributes:
        line: number of its line, from 1.
        rollout: the episode, and the credit of its turns.
        source: name of the file in a page of several files; empty in other pages.
        moment: the source without the name of the run, in a comparison of runs; empty in
            other pages. Episodes of one start and moment are shown as one group.
    """

    line: int
    rollout: Rollout
    source: str = ""
    moment: str = ""


def read_lines(
    path: Path, first: int = 0, count: int | None = None
) -> Iterator[Recorded | BadLine]:
    """The lines of a file of episodes.

    Args:
        path: a file of JSON lines: `episodes.jsonl`, `rollouts/step-N.jsonl`, what a
            command wrote with `--out`, or `results.jsonl` of a tournament, whose first line
            is left out.
        first: first line of the file to read, from 0.
        count: number of lines to read, without that first line of a tournament; None for all.

    Raises:
        ValueError: there is no such file.
    """
    check_is_file(path)
    with open(path, "rb") as file:
        lines = (
            (number, line)
            for number, line in enumerate(file, 1)
            if number > first and not line.startswith(HEADER)
        )
        for number, line in islice(lines, count):
            yield read_line(number, line)


def check_is_file(path: Path) -> None:
    """Raises ValueError unless there is a file; for a folder, names its file of episodes."""
    if path.is_file():
        return
    advice = "give a file such as runs/first/episodes.jsonl"
    if path.is_dir():
        file = episode_file(path)
        advice = reading_advice(path, advice) if file is None else f"give {file}"
    raise ValueError(f"want a file of episodes, found none at {str(path)!r}; {advice}")


def not_blank(lines: Iterable[Recorded | BadLine]) -> Iterator[Recorded | BadLine]:
    """The lines that hold more than white space."""
    return (line for line in lines if isinstance(line, Recorded) or line.text)


def count_lines(path: Path) -> int:
    """Number of the last line of a file that is not blank; 0 if all are."""
    with open(path, "rb") as file:
        return max((n for n, line in enumerate(file, 1) if line.strip()), default=0)


def read_line(number: int, line: bytes) -> Recorded | BadLine:
    """The episode of a line, which may be one of a tournament."""
    record = line
    if line.startswith(LINE):
        record = line.partition(EPISODE)[2].rstrip().removesuffix(b"}")
    try:
        return Recorded(number, rollout_of(record.decode("utf-8")))
    except ValueError as error:
        return BadLine(number, " ".join(str(error).split()), shown_text(line))


def shown_text(line: bytes) -> str:
    """The beginning of a line that cannot be read."""
    text = line[: 4 * MAX_SHOWN].decode("utf-8", "replace")[:MAX_SHOWN]
    return text.strip()


def ending_text(episode: Episode) -> str:
    """The end of an episode, in a few words that many episodes share."""
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
        if best > 0:
            return "return above 0"
        return "return below 0" if best < 0 else "return 0"
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


def episode_title(episode: Episode) -> str:
    """Game, parameters and seed."""
    params = ", ".join(f"{name}={value}" for name, value in episode.params.items())
    game = f"{episode.game} ({params})" if params else episode.game
    return f"{game}, seed {episode.seed}, sample {episode.sample}"


def parsed_part(episode: Episode, turn: Turn) -> tuple[int, int] | None:
    """The begin and end of the part of a reply that was read as the answer; None without."""
    try:
        options = seat_options(episode.prompt, turn.seat)
    except (ValueError, TypeError):
        return None
    return answer_span(turn.reply, options)


def answer_span(reply: str, options: PromptOptions) -> tuple[int, int] | None:
    """The begin and end of the answer in a reply, by the seat's prompt options.

    >>> answer_span("Hm. <answer>bet</answer>", PromptOptions())
    (12, 15)
    """
    visible_reply = after_reasoning(reply)
    if isinstance(visible_reply, InvalidReply):
        return None
    num_skipped = len(reply) - len(visible_reply)
    reply_format = find_reply_format(options.reply_format)
    answers = reply_format.answers(visible_reply)
    if options.parsing == "strict":
        answer = reply_format.extract(visible_reply)
        answers = [] if isinstance(answer, InvalidReply) else [answer]
    elif not answers and (answer := visible_reply.strip()):
        start = num_skipped + visible_reply.index(answer)
        return start, start + len(answer)
    if not answers:
        return None
    opening = reply_format.wrap("\0").partition("\0")[0]
    start = num_skipped + visible_reply.rindex(opening + answers[-1]) + len(opening)
    return start, start + len(answers[-1])


def is_hidden(turn: Turn, viewer: str) -> bool:
    """Whether the prompt and reply of a turn are another seat's than the viewer's."""
    return viewer.startswith("player_") and viewer != f"player_{turn.seat}"
