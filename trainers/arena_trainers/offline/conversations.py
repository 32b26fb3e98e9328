"""Rows of messages as rows of tokens: TRL's conversational forms, encoded as the model plays them.

| rows | columns |
|---|---|
| completions | `prompt` and `completion`, or `messages`, of which every reply is trained |
| labels | `prompt`, `completion` and `label`, or those of pairs: a good and a bad completion |
| pairs | `chosen` and `rejected`, with `prompt` or with a common beginning |

Each of `prompt`, `completion`, `messages`, `chosen` and `rejected` is a list of messages with `role` and
`content`. `weight` and `margin` may stand beside them; further columns are not read. A row that has tokens,
as `arena data select` and `to_dataset` write them, keeps them.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from arena_envs.extras import import_extra
from arena_trainers.data.columns import columns_of_row
from arena_trainers.data.origin import JSON_LINES
from arena_trainers.data.rows import (
    GENERAL,
    AnyRow,
    Completion,
    Label,
    NewMessages,
    Pair,
    Piece,
    ReplyPart,
)
from arena_trainers.lm.chat import Chat
from arena_wrappers import Message

BATCH = 1000  # rows that are encoded at once
ROLES = ("system", "user", "assistant")
REPLY = "assistant"
# columns that change what a chat template writes, which the run's model does by its own options
UNREAD = ("tools", "chat_template_kwargs", "images", "image")

Values = Mapping[str, Any]


def rows_in(path: Path) -> Iterator[Values]:
    """The rows of a Parquet file or of JSON lines.

    Raises:
        ValueError: a line is no object of JSON.
    """
    if path.suffix in JSON_LINES:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _object(path, number, line)
        return
    parquet = import_extra("pyarrow.parquet", "train")
    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(BATCH):
            yield from batch.to_pylist()


def _object(path: Path, number: int, line: str) -> Values:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, Mapping):
        raise ValueError(
            f"{path}, line {number}: want an object of JSON, got {line[:60]!r}; write one "
            "row a line"
        )
    return row


def conversations_of(names: Iterable[str]) -> str | None:
    """The kind of rows that have these columns of messages; None if they are no such rows."""
    columns_of_row = {*names}
    if {"chosen", "rejected"} <= columns_of_row:
        return "pairs"
    if {"prompt", "completion"} <= columns_of_row:
        return "labels" if "label" in columns_of_row else "completions"
    return "completions" if "messages" in columns_of_row else None


def write_tokens(source: Path, kind: str, chat: Chat, path: Path) -> None:
    """Writes the rows of a file with tokens and masks, as Parquet.

    Args:
        source: the file of rows of messages.
        kind: `"completions"`, `"labels"` or `"pairs"`.
        chat: encodes messages, as the model that is trained reads them.
        path: of the new file.

    Raises:
        ValueError: a row is of another form; names the row.
    """
    arrow, parquet = (import_extra(n, "train") for n in ("pyarrow", "pyarrow.parquet"))
    schema = _schema(arrow, kind)
    batch: list[dict[str, Any]] = []
    with parquet.ParquetWriter(path, schema) as writer:
        for number, values in enumerate(rows_in(source), 1):
            try:
                batch += _encoded(values, number, kind, chat)
            except ValueError as error:
                raise ValueError(f"{source}, row {number}: {error}") from error
            if len(batch) >= BATCH:
                writer.write_table(arrow.Table.from_pylist(batch, schema))
                batch = []
        writer.write_table(arrow.Table.from_pylist(batch, schema))


def _schema(arrow: ModuleType, kind: str) -> Any:
    ids = arrow.list_(arrow.int64())
    message = arrow.struct([("role", arrow.string()), ("content", arrow.string())])
    fields = [("prompt", arrow.list_(message)), ("prompt_ids", ids)]
    for name in ("chosen", "rejected") if kind == "pairs" else ("completion",):
        fields += [(f"{name}_ids", ids), (f"{name}_mask", ids)]
    number = "margin" if kind == "pairs" else "weight"
    fields.append((number, arrow.float64()))
    if kind == "labels":
        fields.append(("label", arrow.bool_()))
    return arrow.schema(fields)


def _encoded(
    values: Values, number: int, kind: str, chat: Chat
) -> Iterator[dict[str, Any]]:
    """The rows of tokens of a row; two for a pair where labels are wanted."""
    for name in UNREAD:
        if values.get(name):
            raise ValueError(
                f"want no {name}, which are not read; leave the column out"
            )
    rows = _token_rows(values, kind)
    yield from rows or (
        columns_of_row(row, chat) for row in _rows(values, number, kind)
    )


def _token_rows(values: Values, kind: str) -> list[dict[str, Any]]:
    """The rows of a row that has its tokens; those of a turn are all trained."""
    row = {"weight": 1.0, "margin": 0.0, **values}
    names = ("chosen", "rejected") if "chosen" in values else ("completion",)
    if row.get("token_ids") is not None:  # of `to_dataset`
        row["completion_ids"] = row["token_ids"]
        row["completion_mask"] = [1] * len(row["token_ids"])
    parts = [f"{name}_{part}" for name in names for part in ("ids", "mask")]
    if any(row.get(name) is None for name in ("prompt_ids", *parts)):
        return []
    if kind != "labels" or "chosen" not in values:
        return [row]
    return [
        {
            **row,
            "label": name == "chosen",
            "completion_ids": row[f"{name}_ids"],
            "completion_mask": row[f"{name}_mask"],
        }
        for name in names
    ]


def _rows(values: Values, number: int, kind: str) -> Iterator[AnyRow]:
    """A row of messages as rows of a kind."""
    facts: dict[str, Any] = {
        "game": GENERAL,
        "policy": GENERAL,
        "reason": "",
        "seat": 0,
        "turn": 0,
        "seed": number,
        "sample": 0,
    }
    weight = _number(values, "weight", 1.0)
    if "chosen" in values:
        pair = _pair(values)
        facts["prompt"] = pair.prompt
        if kind == "labels":
            for label, pieces in ((True, pair.chosen), (False, pair.rejected)):
                yield Label(**facts, completion=pieces, weight=weight, label=label)
            return
        facts |= {"chosen": pair.chosen, "rejected": pair.rejected}
        yield Pair(**facts, margin=_number(values, "margin", 0.0))
        return
    prompt, completion = _prompt_and_completion(values)
    pieces = _pieces(prompt, completion, values.get("completion_parts"))
    facts |= {"prompt": prompt, "completion": pieces, "weight": weight}
    if kind == "completions":
        yield Completion(**facts)
        return
    is_good: Any = values.get("label")
    if type(is_good) is not bool:
        raise ValueError(f"want label as true or false, got {is_good!r:.60}")
    yield Label(**facts, label=is_good)


@dataclass(frozen=True)
class _Pair:
    prompt: list[Message]
    chosen: list[Piece]
    rejected: list[Piece]


def _pair(values: Values) -> _Pair:
    chosen, rejected = (_messages(values, name) for name in ("chosen", "rejected"))
    if values.get("prompt") is not None:
        prompt = _messages(values, "prompt")
    else:  # TRL's implicit prompt
        num_shared = 0
        for better_message, worse_message in zip(chosen, rejected, strict=False):
            if better_message != worse_message:
                break
            num_shared += 1
        prompt = chosen[:num_shared]
        chosen, rejected = chosen[num_shared:], rejected[num_shared:]
    _check_prompt(prompt)
    return _Pair(
        prompt,
        _pieces(prompt, chosen, values.get("chosen_parts")),
        _pieces(prompt, rejected, values.get("rejected_parts")),
    )


def _prompt_and_completion(values: Values) -> tuple[list[Message], list[Message]]:
    if values.get("completion") is not None:
        prompt, completion = (_messages(values, n) for n in ("prompt", "completion"))
    else:
        messages = _messages(values, "messages")
        replies = [i for i, m in enumerate(messages) if m["role"] == REPLY]
        if not replies:
            raise ValueError(
                f"want a message of the role {REPLY} in messages, got none"
            )
        first, last = replies[0], replies[-1]
        prompt, completion = messages[:first], messages[first : last + 1]
    _check_prompt(prompt)
    return prompt, completion


def _check_prompt(prompt: Sequence[Message]) -> None:
    if not prompt or prompt[-1]["role"] == REPLY:
        got = f"one of the role {REPLY}" if prompt else "none"
        raise ValueError(
            f"want a message of the user or the system before the first reply, got {got}"
        )


def _messages(values: Values, name: str) -> list[Message]:
    """The messages of a column, with role and content alone.

    Raises:
        ValueError: it is no list of messages, or a message has more than a text.
    """
    value = values.get(name)
    if isinstance(value, str):
        raise ValueError(
            f"want {name} as messages, got the text {value[:60]!r}; write "
            '[{"role": "user", "content": TEXT}], or the role assistant for a reply'
        )
    if not isinstance(value, list) or not value:
        raise ValueError(f"want {name} as a list of messages, got {value!r:.60}")
    messages: list[Message] = []
    for message in value:
        role = message.get("role") if isinstance(message, Mapping) else None
        content = message.get("content") if isinstance(message, Mapping) else None
        if role not in ROLES or not isinstance(content, str):
            raise ValueError(
                f"want messages of a role (system, user or assistant) and a content that is a "
                f"text, got {message!r:.100} in {name}"
            )
        if message.get("tool_calls"):
            raise ValueError(
                f"want no tool_calls, which are not read, got some in {name}"
            )
        messages.append({"role": role, "content": content})
    return messages


def _pieces(
    prompt: Sequence[Message],
    completion: Sequence[Message],
    parts: Sequence[Values] | None,
) -> list[Piece]:
    """A completion's replies, and what is read between them.

    Args:
        prompt: the messages before.
        completion: its messages.
        parts: the parts of its replies that `arena data select` tells apart; None for whole replies.

    Raises:
        ValueError: it does not begin and end with a reply, or two replies follow each other.
    """
    roles = [message["role"] for message in completion]
    is_reply = [role == REPLY for role in roles]
    if not is_reply or not is_reply[0] or not is_reply[-1]:
        raise ValueError(
            f"want a completion that begins and ends with a reply (role {REPLY}), got the "
            f"roles {roles}"
        )
    remaining_parts = iter(parts or ())
    pieces: list[Piece] = []
    start = 0  # of the messages since the reply before
    for place, message in enumerate(completion):
        if not is_reply[place]:
            continue
        if place:
            if start == place:
                raise ValueError("want a message between two replies, got none")
            context = [*prompt, *completion[:place]]
            pieces.append(NewMessages(context, len(prompt) + start, None))
        start = place + 1
        pieces += _reply(message["content"], remaining_parts, is_whole=parts is None)
    return pieces


def _reply(
    text: str, parts: Iterator[Values], *, is_whole: bool
) -> Iterator[ReplyPart]:
    """A reply, or its parts up to the one that ends it."""
    if is_whole:
        yield ReplyPart(text, None)
        return
    for part in parts:
        yield ReplyPart(part["text"], None, part["counts"], part["ends"])
        if part["ends"]:
            return


def _number(values: Values, name: str, default: float) -> float:
    value = values.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"want {name} as a number, got {value!r:.60}")
    return float(value)
