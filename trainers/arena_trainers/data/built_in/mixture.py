"""The rows of another selector with a share of general conversations: `mixed`."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from arena_trainers.data.arguments import check_share, seeded_integer
from arena_trainers.data.rows import (
    GENERAL,
    Completion,
    Dropped,
    ReplyPart,
    Row,
)
from arena_trainers.data.selection import run_selector
from arena_wrappers import (
    Episode,
    Message,
)


def mixed(
    episodes: Sequence[Episode],
    *,
    seed: int,
    general: str | Path,
    share: float,
    select: str = "wins",
    **options: Any,
) -> Iterator[Completion | Dropped]:
    """The completions of another selector, mixed with general conversations.

    AgentTuning (https://arxiv.org/abs/2310.12823): the loss is share x (episodes) + (1 - share) x
    (general data), which keeps general skills. Difference: the share is one of rows, by weight,
    and not of terms of the loss.

    Args:
        episodes: the records.
        seed: of the draw of the conversations.
        general: file of JSON lines `{"messages": [...]}`, each of which ends with a message of
            the assistant.
        share: of the rows that are of episodes, above 0 and below 1.
        select: name of the other selector.
        **options: of the other selector.

    Raises:
        ValueError: the file has too few conversations, or a line is no conversation.
    """
    check_share("share", share)
    if share == 1:
        raise ValueError("want share below 1, got 1; give the other selector instead")
    if not isinstance(general, str | Path):
        raise ValueError(f"want general as the path of a file, got {general!r:.60}")
    if not Path(general).is_file():
        raise ValueError(
            f"want general as a file of conversations, found none at {str(general)!r}; give "
            'a file of JSON lines such as {"messages": [...]}'
        )
    weight = 0.0
    for entry in run_selector(select, episodes, seed, options):
        if type(entry) is Completion:
            weight += entry.weight
        elif isinstance(entry, Row):
            raise ValueError(
                f"want a selector of completions to mix, got {select!r}; give wins"
            )
        yield entry
    count = round(weight * (1 - share) / share)
    rows = _general_rows(Path(general)) if count else []
    if len(rows) < count:
        raise ValueError(
            f"want {count} conversations for a share of {share:g}, got {len(rows)} in "
            f"{general}; add some, or raise share"
        )
    rows.sort(key=lambda row: seeded_integer(seed, row.seed))
    yield from rows[:count]


def _general_rows(path: Path) -> list[Completion]:
    """A row for each line of a file; its seed is the number of the line."""
    rows = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            messages = _messages(line)
            if messages is None:
                raise ValueError(
                    f"{path}, line {number}: want an object with messages that end with "
                    f"one of the assistant, got {line[:60]!r}"
                )
            rows.append(
                Completion(
                    seat=0,
                    turn=0,
                    seed=number,
                    sample=0,
                    game=GENERAL,
                    policy=GENERAL,
                    reason="general conversation",
                    prompt=messages[:-1],
                    completion=[ReplyPart(messages[-1]["content"], None)],
                )
            )
    return rows


def _messages(line: str) -> list[Message] | None:
    """The messages of a line; None if it is no conversation that ends with a reply."""
    try:
        messages: list[Message] = json.loads(line)["messages"]
        roles = [message["role"] for message in messages]
        texts = [message["content"] for message in messages]
    except (ValueError, TypeError, KeyError):
        return None
    if len(messages) < 2 or roles[-1] != "assistant":
        return None
    return messages if all(isinstance(text, str) for text in texts) else None
