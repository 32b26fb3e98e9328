"""Rows and recorded turns as a `datasets.Dataset` and as Parquet.

Rows have tokens and masks beside TRL's columns, and their file names their `Origin`: the games
and the prompts that they are of. `to_dataset` makes a row of every turn of the episodes, and
`from_dataset` restores the episodes.
"""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena_envs.checks import short
from arena_envs.extras import import_extra
from arena_trainers.data.rows import (
    Completion,
    Heard,
    Label,
    Pair,
    Piece,
    Row,
    Said,
    messages_of,
)
from arena_wrappers import Episode, PromptOptions, Turn
from arena_wrappers.prompts import DATE, seat_options

if TYPE_CHECKING:
    from arena_trainers.lm.chat import Chat

TRAIN, TEST = (f"{split}-00000-of-00001.parquet" for split in ("train", "test"))
FACTS = ("game", "seat", "turn", "seed", "sample", "policy", "reason")
CALL = ("role", "parent")  # facts of rows that are generations of an agent's turn
_KEY = b"arena"  # of the metadata of a file of rows
MOST = 2**63  # Arrow holds seeds below it
JSON_LINES = (".jsonl", ".json")

# Fields of `Turn` that have a column of their own; the others are in `record`.
_TURN_COLUMNS = {
    name: name
    for name in ("seat", "policy", "legal", "prompt_ids", "token_ids", "logprobs")
} | {"index": "turn", "entropies": "entropies"}


@dataclass(frozen=True)
class Origin:
    """The games that a model trained on rows plays, and the prompts that it then reads.

    Attributes:
        games: dicts of `id`, `params` and `max_turns`, as `games` of `arena train`.
        prompts: the different prompt options of the seats that rows are of.
    """

    games: Sequence[dict[str, Any]]
    prompts: Sequence[PromptOptions]

    def to_json(self) -> str:
        """The origin as JSON, the same for the same origin."""
        prompts = [vars(options) for options in self.prompts]
        return json.dumps({"games": self.games, "prompts": prompts}, sort_keys=True)


def origin_of(rows: Iterable[Row], episodes: Iterable[Episode]) -> Origin:
    """The origin of rows that were chosen from these episodes.

    Raises:
        ValueError: a record has prompt options of another form.
    """
    seats: dict[tuple[str, int, int], set[int]] = {}
    for row in rows:
        seats.setdefault((row.game, row.seed, row.sample), set()).add(row.seat)
    found = []
    for episode in episodes:
        own = seats.get((episode.game, episode.seed, episode.sample), ())
        spec: dict[str, Any] = {"id": episode.game}
        if episode.params:
            spec["params"] = dict(episode.params)
        if episode.max_turns is not None:
            spec["max_turns"] = episode.max_turns
        prompts = [seat_options(episode.prompt, seat) for seat in own]
        found.append(Origin([spec] if own else [], prompts))
    return union(found)


def union(origins: Iterable[Origin]) -> Origin:
    """The different games and prompts of all origins, in an order of their own."""
    found = list(origins)
    games = {json.dumps(game, sort_keys=True) for one in found for game in one.games}
    prompts = {
        json.dumps(vars(options), sort_keys=True)
        for one in found
        for options in one.prompts
    }
    return Origin(
        [json.loads(game) for game in sorted(games)],
        [PromptOptions(**json.loads(options)) for options in sorted(prompts)],
    )


def only_prompt(origin: Origin) -> PromptOptions:
    """The prompt options that all rows share.

    Raises:
        ValueError: rows have different ones.
    """
    if len(origin.prompts) != 1:
        shown = " and ".join(str(vars(options)) for options in origin.prompts)
        raise ValueError(
            f"want rows of seats with the same prompt options, got {shown or 'none'}; "
            "select from episodes of one kind of prompt, or name the model: --model PATH"
        )
    return origin.prompts[0]


def with_origin(table: Any, origin: Origin) -> Any:
    """A `pyarrow.Table` with the origin in its metadata."""
    metadata = {**(table.schema.metadata or {}), _KEY: origin.to_json().encode()}
    return table.replace_schema_metadata(metadata)


def read_origin(path: str | PathLike[str]) -> Origin | None:
    """The origin of the rows in a Parquet file; None if the file has none, as JSON lines.

    Raises:
        ModuleNotFoundError: pyarrow is missing.
    """
    parquet = import_extra("pyarrow.parquet", "train")
    if Path(path).suffix in JSON_LINES:
        return None
    found = (parquet.read_schema(path).metadata or {}).get(_KEY)
    if found is None:
        return None
    values = json.loads(found)
    prompts = [PromptOptions(**options) for options in values["prompts"]]
    return Origin(values["games"], prompts)


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
    own = base is not None and (Path(model) / "tokenizer_config.json").is_file()
    tokenizer = AutoTokenizer.from_pretrained(model if own else folder)
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


def columns(row: Row, chat: "Chat | None" = None) -> dict[str, Any]:
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
    found = {name: storable_value(getattr(row, name)) for name in (*FACTS, *CALL)}
    found["prompt"] = prompt
    encoded = chat is not None or has_tokens(row)
    if encoded:
        context = [int(i) for i in row.prompt_ids or ()]
        if row.prompt_ids is None and chat is not None:
            context = chat.encode(prompt)
        found["prompt_ids"] = context
    for name, pieces in zip(row.names, row.texts, strict=True):
        said = [dict(message) for message in messages_of(pieces)]
        found[name] = storable_value(said)
        if encoded:
            ids, mask = _tokens(pieces, context, chat)
            found |= {f"{name}_ids": ids, f"{name}_mask": mask}
            largest = max([*context, *ids])
            if chat is not None and largest >= len(chat.tokenizer):
                raise ValueError(
                    f"the record has the token {largest}, and the model's tokenizer only "
                    f"{len(chat.tokenizer)}; give the model that played: --model PATH"
                )
        elif any(isinstance(p, Said) and not (p.counts and p.ends) for p in pieces):
            found[f"{name}_parts"] = _parts(pieces)
    if isinstance(row, Pair):
        return found | {"margin": float(row.margin)}
    if isinstance(row, Completion):
        found["weight"] = float(row.weight)
    return found | ({"label": row.label} if isinstance(row, Label) else {})


def _parts(pieces: Sequence[Piece]) -> list[dict[str, Any]]:
    """The parts of the replies of a completion."""
    return [
        {"text": storable_value(p.text), "counts": p.counts, "ends": p.ends}
        for p in pieces
        if isinstance(p, Said)
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
        elif isinstance(piece, Heard):
            prompt = storable_value([dict(message) for message in piece.prompt])
            new = chat.continuation([*context, *ids], prompt)
        else:
            # a reply that spells a control token must not become one
            encode = chat.reply_ids if begins else chat.text_ids
            new = encode([*context, *ids], storable_value(piece.text), plain=True)
            new = [*new, chat.end_ids[0]] if piece.ends else new
        begins = isinstance(piece, Heard) or piece.ends
        counts = not isinstance(piece, Heard) and piece.counts
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
        chat: encodes what the record has no tokens of; see `columns`.

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
    found = [columns(row, chat) for row in rows]
    examples: dict[
        str, Any
    ] = {}  # a value of each column, first those of the longest row
    for entry in sorted(found, key=len, reverse=True):
        for name, value in entry.items():
            examples.setdefault(name, value)
    if not any(row.role or row.parent >= 0 for row in rows):
        examples = {name: x for name, x in examples.items() if name not in CALL}
    data = {name: [entry.get(name) for entry in found] for name in examples}
    return datasets.Dataset.from_dict(data, features=_features(datasets, examples))


def _check_storable(one: Row | Episode) -> None:
    if max(one.seed, one.sample) >= MOST:
        raise ValueError(
            f"want seeds and samples below 2**63 in a data set, got seed {one.seed}, "
            f"sample {one.sample}; play with smaller ones"
        )


def _features(datasets: Any, row: dict[str, Any]) -> Any:
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
    dataset: Any, path: str | PathLike[str], origin: Origin | None = None
) -> None:
    """Writes rows as Parquet; the file appears whole, and equal rows give equal bytes.

    Args:
        dataset: what `rows_to_dataset` made.
        path: the file.
        origin: the games and prompts of the rows, for `arena train --data`.
    """
    path = Path(path)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        if origin is None:
            dataset.to_parquet(str(part))
        else:
            parquet = import_extra("pyarrow.parquet", "train")
            table = dataset.with_format("arrow")[:]
            parquet.write_table(with_origin(table, origin), str(part))
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def to_dataset(episodes: Iterable[Episode], *, record: bool = True) -> Any:
    """The turns of the episodes as rows: prompts and completions as TRL's trainers read them.

    A row is a turn, because a turn is what a model is trained on: `prompt` are the messages
    that it read, `completion` is its reply as one message (TRL's conversational
    prompt-completion format, for `SFTTrainer`). A conversation of several turns is the
    `prompt` of its last turn if `history="transcript"`.

    | column | content |
    |---|---|
    | `prompt`, `completion` | lists of messages, `{"role": ..., "content": ...}` |
    | `episode`, `place` | number of the episode; which of its turns, from 0 |
    | `game`, `seed`, `sample` | the start of the episode; equal in a group but `sample` |
    | `seat`, `turn`, `policy` | who replied; which of the seat's turns, from 0 |
    | `legal` | texts of the legal actions |
    | `is_valid` | whether the reply was a legal action |
    | `reward`, `return` | paid until the seat's next turn; of the seat, by the rules |
    | `prompt_ids`, `token_ids`, `logprobs`, `entropies` | tokens, if the policy reports them |
    | `record` | JSON of all else, with which `from_dataset` restores the episode |

    All games have the same columns, so rows of several games fit in one data set. Filter rows
    with `dataset.filter(lambda row: row["is_valid"] and row["return"] > 0)`. An episode in
    which nobody moved has no row.

    `record` of every row holds hidden information: the chance outcomes, such as all cards, the
    actions of the episode and the returns of all seats. Give `record=False` if readers of a row
    may know only what its seat saw. Rows of other seats still hold what those seats saw.

    Args:
        episodes: in any order, of any games. `Episode.parent` counts them from 0.
        record: whether to add the column `record`, without which `from_dataset` cannot
            restore the episodes.

    Returns:
        A `datasets.Dataset`. Lone surrogates in texts, which no data set can hold, are U+FFFD
        in the columns and themselves in `record`.

    Raises:
        ValueError: a seed or a sample is 2**63 or more, a number is not finite, or an episode
            is lost.
        TypeError: an entry is no `Episode`.
        ModuleNotFoundError: datasets is missing.
    """
    want_episodes(episodes)
    datasets = import_extra("datasets", "train")
    features = _turn_features(datasets, record)
    columns: dict[str, list[Any]] = {name: [] for name in features}
    for number, episode in enumerate(episodes):
        if not isinstance(episode, Episode):
            raise TypeError(f"want Episodes, got entry {number}, {short(episode)}")
        if episode.lost is not None:
            raise ValueError(
                f"want episodes with returns, got entry {number}, which is lost "
                f"({episode.lost}); pass arena_wrappers.without_lost(episodes)"
            )
        _check_storable(episode)
        told = json.loads(episode.to_json())
        turns = told.pop("turns")
        for place, (turn, values) in enumerate(zip(episode.turns, turns, strict=True)):
            row = _turn_row(episode, turn, values)
            if record:
                row["record"] = json.dumps(
                    {"episode": {**told, "num_turns": len(turns)}, "turn": values}
                )
            for name, value in {"episode": number, "place": place, **row}.items():
                columns[name].append(value)
    return datasets.Dataset.from_dict(columns, features=features)


def _turn_features(datasets: Any, record: bool) -> Any:
    """The columns and their types, which do not depend on the episodes."""
    text, number = datasets.Value("string"), datasets.Value("float64")
    integer = datasets.Value("int64")
    messages = datasets.List({"role": text, "content": text})
    return datasets.Features(
        {
            **{"prompt": messages, "completion": messages},
            **{"episode": integer, "place": integer},
            **{"game": text, "seed": integer, "sample": integer},
            **{"seat": integer, "turn": integer, "policy": text},
            **{"legal": datasets.List(text), "is_valid": datasets.Value("bool")},
            **{"reward": number, "return": number},
            **{name: datasets.List(integer) for name in ("prompt_ids", "token_ids")},
            **{name: datasets.List(number) for name in ("logprobs", "entropies")},
            **({"record": text} if record else {}),
        }
    )


def _turn_row(episode: Episode, turn: Turn, values: dict[str, Any]) -> dict[str, Any]:
    """The columns of a turn; takes from `values` what the columns hold exactly."""
    row = {
        "prompt": storable_value(values["messages"]),
        "completion": [
            {"role": "assistant", "content": storable_value(values["reply"])}
        ],
        **{"game": episode.game, "seed": episode.seed, "sample": episode.sample},
        **{column: storable_value(values[f]) for f, column in _TURN_COLUMNS.items()},
        "is_valid": turn.invalid is None,
        "reward": float(turn.reward),
        "return": float(episode.returns[turn.seat]),
    }
    for field, read in _READ.items():
        if read(row) == values[field]:
            del values[field]
    return row


# What `from_dataset` reads of a row, by field of `Turn`; `record` overrides it.
_READ: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "messages": lambda row: row["prompt"],
    "reply": lambda row: row["completion"][0]["content"],
    **{
        field: lambda row, column=column: row[column]  # type: ignore[misc]
        for field, column in _TURN_COLUMNS.items()
    },
}


def storable_value(value: Any) -> Any:
    """A value of JSON in which no text has a lone surrogate."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    if isinstance(value, list):
        return [storable_value(part) for part in value]
    if isinstance(value, dict):
        return {name: storable_value(part) for name, part in value.items()}
    return value


def want_episodes(episodes: Any) -> None:
    """Raises TypeError for one episode, a path or anything else that is no list."""
    if isinstance(episodes, Episode):
        raise TypeError("want a list of Episodes, got one Episode; write [episode]")
    if isinstance(episodes, (str, PathLike)) or not isinstance(episodes, Iterable):
        raise TypeError(
            f"want a list of Episodes, got {short(episodes)}; read a file with "
            "arena_wrappers.read_episodes(path)"
        )


def from_dataset(dataset: Any) -> list[Episode]:
    """The episodes whose rows `to_dataset` made, in the order of their numbers.

    Args:
        dataset: all rows of each of the episodes, in any order, also after a round trip
            through Parquet. Whole episodes may be missing.

    Raises:
        ValueError: a column, a row of an episode or the parent of an episode is missing; two
            episodes have the same number, as in joined data sets; or `to_dataset` did not make
            a row.
        TypeError: `dataset` is no data set.
    """
    if not hasattr(dataset, "column_names"):
        raise TypeError(
            f"want a datasets.Dataset, got {short(dataset)}; read a file with "
            "datasets.Dataset.from_parquet(path)"
        )
    lacking = {"record", "episode", "place"} - set(dataset.column_names)
    if lacking:
        raise ValueError(
            f"want the columns of to_dataset, got {dataset.column_names} without "
            f"{sorted(lacking)}; make the data set with to_dataset and record=True"
        )
    found: dict[int, dict[int, Mapping[str, Any]]] = {}
    for row in dataset:
        rows = found.setdefault(row["episode"], {})
        if row["place"] in rows:
            raise ValueError(
                f"episode {row['episode']} stands twice; restore each data set before you "
                "join them"
            )
        rows[row["place"]] = row
    numbers = {number: index for index, number in enumerate(sorted(found))}
    return [_episode(number, found[number], numbers) for number in numbers]


def _episode(
    number: int, rows: Mapping[int, Mapping[str, Any]], numbers: Mapping[int, int]
) -> Episode:
    """An episode of its rows by place; `numbers` are the new ones of all episodes."""
    records = {place: json.loads(rows[place]["record"]) for place in sorted(rows)}
    told = next(iter(records.values()))["episode"]
    num_turns = told.pop("num_turns")
    if list(records) != list(range(num_turns)):
        raise ValueError(
            f"want all {num_turns} turns of episode {number}, got {list(records)}; restore "
            "episodes before you filter rows"
        )
    if told["parent"] is not None:
        if told["parent"] not in numbers:
            raise ValueError(
                f"want episode {told['parent']}, the parent of episode {number}, got none; "
                "keep both or leave out both"
            )
        told["parent"] = numbers[told["parent"]]
    turns = [
        {name: read(rows[place]) for name, read in _READ.items()} | record["turn"]
        for place, record in records.items()
    ]
    return Episode.from_json(json.dumps({**told, "turns": turns}))
