"""Files of rows: what they hold, and whether a trainer and a model can learn from them."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from arena_envs.checks import check_known
from arena_envs.extras import import_extra
from arena_studio.outputs import ROWS, reading_advice
from arena_trainers.data.columns import CALL, FACTS
from arena_trainers.data.origin import JSON_LINES
from arena_trainers.offline.conversations import (
    BATCH,
    conversations_of,
    rows_in,
)
from arena_wrappers import Message

if TYPE_CHECKING:
    import pyarrow

    from arena_trainers.lm.chat import Chat


_TEXTS = {
    "completions": ("completion",),
    "labels": ("completion",),
    "pairs": ("chosen", "rejected"),
}

_FORMS = {
    "completions": "prompt and completion, or messages",
    "labels": "prompt, completion and label, or chosen and rejected",
    "pairs": "chosen and rejected",
}

_NUMBERS = {
    "completions": ("weight",),
    "labels": ("weight", "label"),
    "pairs": ("margin",),
}


class RowFacts(NamedTuple):
    """The facts of all rows of a file.

    Attributes:
        num_rows: how many there are.
        longest: tokens of the longest prompt with its completion.
        longest_reply: tokens of the longest part that is trained at a stretch, with what
            stands before it if it is the first one: masked tokens of the same reply do.
        largest_id: the largest token id.
        num_trained: tokens of all masks.
        weights: float64[N]; ones where rows have no weight.
        scale: factor by which weights are multiplied, so that all tokens that are trained
            have the mean weight 1.
    """

    num_rows: int
    longest: int
    longest_reply: int
    largest_id: int
    num_trained: int
    weights: np.ndarray
    scale: float


def token_columns(kind: str) -> list[str]:
    """The columns that are trained on, of rows of a kind."""
    texts = []
    for text in _TEXTS[kind]:
        texts += [f"{text}_ids", f"{text}_mask"]
    return ["prompt_ids", *texts, *_NUMBERS[kind]]


def check_rows(path: Path, kind: str) -> bool:
    """Checks the columns of a file, without reading its rows.

    Returns:
        Whether all rows have tokens; if not, they are messages, which a model's tokenizer encodes.

    Raises:
        ValueError: the file is missing, neither Parquet nor JSON lines, empty, or holds other rows.
    """
    make_one = (
        "make the file with arena data select ... --out FILE.parquet, or give a data set "
        "of messages"
    )
    if not path.is_file():
        advice = reading_advice(path, make_one)
        raise ValueError(
            f"want a file of rows as data, found none at {str(path)!r}; {advice}"
        )
    names = columns_of(path)
    kind_of_file = _kind({*names})
    if kind_of_file is None:
        raise ValueError(
            f"want {kind} for this trainer in {str(path)!r}, with the columns {_FORMS[kind]} "
            f"(lists of messages), got {', '.join(sorted(names))[:200]}; "
            + reading_advice(path, f"rename the columns, or {make_one}", readable=ROWS)
        )
    if kind_of_file != kind and (kind_of_file, kind) != ("pairs", "labels"):
        raise ValueError(
            f"want {kind} for this trainer, got {kind_of_file} in {str(path)!r}; choose rows with "
            "another selector, or give another --trainer"
        )
    if not _all_have_tokens(path, kind, names):
        return False
    allowed = sorted({*FACTS, *CALL, "prompt", *_TEXTS[kind], *token_columns(kind)})
    for name in sorted(names):
        check_known(name, allowed, f"{str(path)!r} has an unknown column {name!r}")
    for name in sorted({*token_columns(kind)} - {*names}):
        raise ValueError(
            f"want the column {name!r} in {str(path)!r}; make the file with arena data select "
            "... --out FILE.parquet"
        )
    return True


def columns_of(path: Path) -> list[str]:
    """The columns of a file of rows; of JSON lines, those of the first one.

    Raises:
        ValueError: it is neither Parquet nor JSON lines, or holds no row.
    """
    parquet, arrow = (import_extra(n, "train") for n in ("pyarrow.parquet", "pyarrow"))
    empty = f"want at least one row in {str(path)!r}, got none; give another file"
    if path.suffix in JSON_LINES:
        first = next(rows_in(path), None)
        if first is None:
            raise ValueError(empty)
        return [*first]
    try:
        with parquet.ParquetFile(path) as file:
            names, num_rows = file.schema_arrow.names, file.metadata.num_rows
    except arrow.ArrowInvalid as error:
        raise ValueError(
            f"want Parquet in {str(path)!r}, or JSON lines in a file .jsonl, got another file; "
            "make the file with arena data select ... --out FILE.parquet"
        ) from error
    if num_rows == 0:
        raise ValueError(empty)
    return list(names)


def _all_have_tokens(path: Path, kind: str, names: Sequence[str]) -> bool:
    texts = [f"{text}_ids" for text in _TEXTS[kind]]
    if path.suffix in JSON_LINES or not {"prompt_ids", *texts} <= {*names}:
        return False
    parquet = import_extra("pyarrow.parquet", "train")
    with parquet.ParquetFile(path) as file:
        batches = file.iter_batches(BATCH, columns=["prompt_ids"])
        return all(batch["prompt_ids"].null_count == 0 for batch in batches)


def _kind(names: set[str]) -> str | None:
    """The kind of rows that have these columns, of tokens or of messages; None for others."""
    if "prompt_ids" in names and names & {"chosen_ids", "rejected_ids"}:
        return "pairs"
    if {"prompt_ids", "completion_ids"} <= names:
        return "labels" if "label" in names else "completions"
    return conversations_of(names)


def file_facts(path: Path, kind: str) -> RowFacts:
    """The facts of the rows of a file, read piece by piece.

    Raises:
        ValueError: a weight is negative or not finite, or no token is trained.
    """
    parquet = import_extra("pyarrow.parquet", "train")
    longest = longest_reply = largest_id = num_trained = 0
    weighted = 0.0
    weights: list[np.ndarray] = []
    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(BATCH, columns=token_columns(kind)):
            prompts = _lengths(batch["prompt_ids"])
            has_weight = "weight" in batch.schema.names
            weight = batch["weight"].to_numpy() if has_weight else np.ones(len(batch))
            weights.append(weight)
            largest_id = max(largest_id, _largest(batch["prompt_ids"]))
            for text in _TEXTS[kind]:
                lengths = _lengths(batch[f"{text}_ids"])
                longest = max(longest, int((prompts + lengths).max(initial=0)))
                reply = _longest_reply(batch[f"{text}_mask"])
                longest_reply = max(longest_reply, reply)
                largest_id = max(largest_id, _largest(batch[f"{text}_ids"]))
                counts = _sums(batch[f"{text}_mask"])
                num_trained += int(counts.sum())
                weighted += float((counts * weight).sum())
    all_weights = np.concatenate(weights)
    if not np.isfinite(all_weights).all() or all_weights.min() < 0:
        raise ValueError(
            f"want finite weights of at least 0 in {str(path)!r}, got {all_weights.min()} to "
            f"{all_weights.max()}; choose the rows anew"
        )
    if num_trained == 0 or weighted == 0.0 or not math.isfinite(weighted):
        raise ValueError(
            f"want tokens to train in {str(path)!r}, got masks and weights that leave "
            "none; choose other rows"
        )
    return RowFacts(
        num_rows=len(all_weights),
        longest=longest,
        longest_reply=longest_reply,
        largest_id=largest_id,
        num_trained=num_trained,
        weights=all_weights,
        scale=num_trained / weighted,
    )


def _lengths(lists: "pyarrow.ListArray") -> np.ndarray:
    return np.diff(lists.offsets.to_numpy())


def _largest(lists: "pyarrow.ListArray") -> int:
    return int(lists.flatten().to_numpy().max(initial=0))


def _sums(lists: "pyarrow.ListArray") -> np.ndarray:
    """The sum of each list."""
    owner = np.repeat(np.arange(len(lists)), _lengths(lists))
    values = lists.flatten().to_numpy()
    return np.bincount(owner, weights=values, minlength=len(lists))


def _longest_reply(masks: "pyarrow.ListArray") -> int:
    """The most tokens of a list up to the end of its first ones, or of later ones."""
    mask, lengths = masks.flatten().to_numpy().astype(bool), _lengths(masks)
    if not len(mask):
        return 0
    index, ends = np.arange(len(mask)), np.cumsum(lengths)
    starts = np.repeat(ends - lengths, lengths)
    before = np.concatenate([[0], np.cumsum(mask)])  # ones before each token
    counted = mask | (before[:-1] == before[starts])  # or before the first one
    # the token before the run that a token is in
    last = np.maximum.accumulate(np.where(counted, starts - 1, index))
    return int((index - last).max())


def check_row_tokens(path: Path, facts: RowFacts, chat: "Chat") -> None:
    """Checks that the tokens of some rows are those of a model's tokenizer.

    Raises:
        ValueError: an id is too large, or the tokens do not spell the messages.
    """
    advice = "give the model that arena data select --model named"
    size = len(chat.tokenizer)
    if facts.largest_id >= size:
        raise ValueError(
            f"the rows in {str(path)!r} have the token {facts.largest_id}, and the "
            f"model's tokenizer only {size}; {advice}"
        )
    parquet = import_extra("pyarrow.parquet", "train")
    with parquet.ParquetFile(path) as file:
        batch = next(file.iter_batches(20, columns=["prompt", "prompt_ids"]))
    for row in batch.to_pylist():
        if not _spells(row["prompt_ids"], row["prompt"], chat):
            raise ValueError(
                f"the tokens of a row in {str(path)!r} do not spell its prompt with "
                "the model's tokenizer: "
                f"{chat.tokenizer.decode(row['prompt_ids'])!r:.80}; {advice}"
            )


def _spells(ids: list[int], messages: list[Message], chat: "Chat") -> bool:
    """Whether ids are the encoded messages, or hold the text of the last one."""
    if chat.encode(messages) == ids:
        return True
    text = str(chat.tokenizer.decode(ids))
    last = messages[-1]["content"]
    return "".join(last.split()) in "".join(text.split())
