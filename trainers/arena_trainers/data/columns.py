"""Rows as a `datasets.Dataset` and as Parquet, with tokens and masks beside TRL's columns."""

from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from arena_envs.extras import import_extra
from arena_trainers.data.origin import Origin, with_origin
from arena_trainers.data.rows import (
    Completion,
    Label,
    NewMessages,
    Pair,
    Piece,
    ReplyPart,
    Row,
    messages_of,
)
from arena_wrappers import Episode
from arena_wrappers.prompts import DATE
from arena_wrappers.records import replacing

if TYPE_CHECKING:
    from datasets import Dataset

    from arena_trainers.lm.chat import Chat

TRAIN, TEST = (f"{split}-00000-of-00001.parquet" for split in ("train", "test"))

FACTS = ("game", "seat", "turn", "seed", "sample", "policy", "reason")

CALL = ("role", "parent")  # facts of rows that are generations of an agent's turn

MOST = 2**63  # Arrow holds seeds below it


def load_chat(model: str) -> "Chat":
    """The chat template and the tokenizer of a model, as `LMPolicy` has them; no weights.

    Args:
        model: a folder of a model or an adapter, or an id of the Hugging Face hub.

    Raises:
        ValueError: there is no such model, or its tokenizer has no chat template.
    """
    from transformers import AutoTokenizer

    from arena_trainers.lm.chat import Chat
    from arena_trainers.lm.models import adapter_base, model_folder, prompt_folder
    from arena_trainers.lm.prompt_file import read_prompt_file

    base = adapter_base(model)
    folder = model_folder(base or model)
    has_tokenizer = (
        base is not None and (Path(model) / "tokenizer_config.json").is_file()
    )
    tokenizer = AutoTokenizer.from_pretrained(model if has_tokenizer else folder)
    options = read_prompt_file(prompt_folder(model))
    prompt = options.get("prompt")
    return Chat(
        tokenizer,
        template_options=options.get("chat_template_kwargs"),
        reasoning_marks=options.get("reasoning_marks"),
        date=DATE if prompt is None else prompt.date,
    )


def has_tokens(row: Row) -> bool:
    """True if the record has all tokens of a row, so that no model is needed."""
    pieces = [piece for text in row.texts for piece in text]
    return row.prompt_ids is not None and all(p.ids is not None for p in pieces)


def columns_of_row(row: Row, chat: "Chat | None" = None) -> dict[str, Any]:
    """A row as a mapping: its facts, its messages, its tokens and their masks.

    Tokens are those of the record. Where it has none, they are those of `LMPolicy`: what other
    seats wrote becomes no control token, and neither does what a reply says. Without a `chat`, such
    a row has messages alone, which `arena train` encodes. If some of their replies do not count or
    are made of parts, `NAME_parts` lists the parts of the replies of the column `NAME`.

    Args:
        row: the row.
        chat: encodes what the record has no tokens of.

    Raises:
        ValueError: tokens are not of the tokenizer of `chat`.
    """
    prompt = storable_value([dict(message) for message in row.prompt])
    values = {name: storable_value(getattr(row, name)) for name in (*FACTS, *CALL)}
    values["prompt"] = prompt
    encoded = chat is not None or has_tokens(row)
    if encoded:
        context = [int(i) for i in row.prompt_ids or ()]
        if row.prompt_ids is None and chat is not None:
            context = chat.encode(prompt)
        values["prompt_ids"] = context
    for name, pieces in zip(row.names, row.texts, strict=True):
        messages = [dict(message) for message in messages_of(pieces)]
        values[name] = storable_value(messages)
        if encoded:
            ids, mask = _tokens(pieces, context, chat)
            values |= {f"{name}_ids": ids, f"{name}_mask": mask}
            largest = max([*context, *ids])
            if chat is not None and largest >= len(chat.tokenizer):
                raise ValueError(
                    f"the record has the token {largest}, and the model's tokenizer only "
                    f"{len(chat.tokenizer)}; give the model that played: --model PATH"
                )
        elif any(
            isinstance(p, ReplyPart) and not (p.counts and p.ends) for p in pieces
        ):
            values[f"{name}_parts"] = _parts(pieces)
    if isinstance(row, Pair):
        values["margin"] = float(row.margin)
    if isinstance(row, Completion):
        values["weight"] = float(row.weight)
    if isinstance(row, Label):
        values["label"] = row.label
    return values


def _parts(pieces: Sequence[Piece]) -> list[dict[str, Any]]:
    """The parts of the replies of a completion."""
    return [
        {"text": storable_value(p.text), "counts": p.counts, "ends": p.ends}
        for p in pieces
        if isinstance(p, ReplyPart)
    ]


def _tokens(
    pieces: Sequence[Piece], context: Sequence[int], chat: Any
) -> tuple[list[int], list[int]]:
    """Tokens of a completion, and 1 for those that count."""
    ids: list[int] = []
    mask: list[int] = []
    begins = True  # a reply, not a later part of one
    for piece in pieces:
        if piece.ids is not None:
            new = [int(i) for i in piece.ids]
        elif isinstance(piece, NewMessages):
            prompt = storable_value([dict(message) for message in piece.prompt])
            new = chat.continuation([*context, *ids], prompt)
        else:
            # a reply that spells a control token must not become one
            encode = chat.reply_ids if begins else chat.text_ids
            new = encode([*context, *ids], storable_value(piece.text), plain=True)
            new = [*new, chat.end_ids[0]] if piece.ends else new
        begins = isinstance(piece, NewMessages) or piece.ends
        counts = not isinstance(piece, NewMessages) and piece.counts
        ids += new
        mask += [int(counts)] * len(new)
    return ids, mask


def rows_to_dataset(rows: Iterable[Row], chat: "Chat | None" = None) -> Any:
    """Rows as a data set with TRL's columns, and tokens with masks beside them.

    | rows | columns |
    |---|---|
    | all | `game`, `seat`, `turn`, `seed`, `sample`, `policy`, `reason`, `prompt`, `prompt_ids` |
    | completions | `completion`, `completion_ids`, `completion_mask`, `weight` |
    | labels | the same, and `label` |
    | generations of agents' turns | also `role` and `parent`, if one of the rows is such |
    | pairs | `chosen`, `chosen_ids`, `chosen_mask`, `rejected`, `rejected_ids`, `rejected_mask`, `margin` |

    A mask has one entry for each token of its text: 1 where the learner wrote it and it counts, 0
    for what the seat read in between and for wrong replies. Without `chat`, rows have tokens and
    masks only if their records have them: others have None there, or no row has these columns.

    Args:
        rows: of one kind, at least one.
        chat: encodes what the record has no tokens of; see `columns_of_row`.

    Returns:
        A `datasets.Dataset`.

    Raises:
        ValueError: there is no row, or a number does not fit.
        ModuleNotFoundError: datasets is missing.
    """
    datasets = import_extra("datasets", "train")
    rows = list(rows)
    if not rows:
        raise ValueError("want at least one row, got none; select other episodes")
    for row in rows:
        _check_storable(row)
    entries = [columns_of_row(row, chat) for row in rows]
    # a value of each column, first those of the longest row
    examples: dict[str, Any] = {}
    for entry in sorted(entries, key=len, reverse=True):
        for name, example in entry.items():
            examples.setdefault(name, example)
    if not any(row.role or row.parent >= 0 for row in rows):
        for name in CALL:
            examples.pop(name, None)
    data = {name: [entry.get(name) for entry in entries] for name in examples}
    return datasets.Dataset.from_dict(data, features=_features(datasets, examples))


def _check_storable(start: Row | Episode) -> None:
    if max(start.seed, start.sample) >= MOST:
        raise ValueError(
            f"want seeds and samples below 2**63 in a data set, got seed {start.seed}, "
            f"sample {start.sample}; play with smaller ones"
        )


def _features(datasets: ModuleType, row: dict[str, Any]) -> Any:
    """The types of the columns."""
    text, integer = datasets.Value("string"), datasets.Value("int64")
    kinds = {
        str: text,
        bool: datasets.Value("bool"),
        int: integer,
        float: datasets.Value("float64"),
    }
    truth = datasets.Value("bool")
    of_end = {
        "ids": datasets.List(integer),
        "mask": datasets.List(integer),
        "parts": datasets.List({"text": text, "counts": truth, "ends": truth}),
    }
    messages = datasets.List({"role": text, "content": text})
    lists = {
        name: of_end.get(name.rpartition("_")[2], messages)
        for name, value in row.items()
        if isinstance(value, list)
    }
    return datasets.Features(
        {name: lists.get(name) or kinds[type(value)] for name, value in row.items()}
    )


def write_rows(
    dataset: "Dataset", path: str | PathLike[str], origin: Origin | None = None
) -> None:
    """Writes rows as Parquet; the file appears whole, and equal rows give equal bytes.

    Args:
        dataset: what `rows_to_dataset` made.
        path: the file.
        origin: the games and prompts of the rows, for `arena train --data`.
    """
    with replacing(Path(path)) as part:
        if origin is None:
            dataset.to_parquet(str(part))
        else:
            parquet = import_extra("pyarrow.parquet", "train")
            table = dataset.with_format("arrow")[:]
            parquet.write_table(with_origin(table, origin), str(part))


def storable_value(value: Any) -> Any:
    """A value of JSON in which no text has a lone surrogate."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    if isinstance(value, list):
        return [storable_value(part) for part in value]
    if isinstance(value, dict):
        return {name: storable_value(part) for name, part in value.items()}
    return value
