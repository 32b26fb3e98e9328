"""Recorded turns as a `datasets.Dataset`, a row each, and the episodes restored from them."""

import json
from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from types import ModuleType
from typing import TYPE_CHECKING, Any

from arena_envs.checks import short
from arena_envs.extras import import_extra
from arena_trainers.data.columns import _check_storable, storable_value
from arena_wrappers import Episode, Turn

if TYPE_CHECKING:
    from datasets import Dataset

# Fields of `Turn` that have a column of their own; the others are in `record`.
_TURN_COLUMNS = {
    name: name
    for name in ("seat", "policy", "legal", "prompt_ids", "token_ids", "logprobs")
} | {"index": "turn", "entropies": "entropies"}


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
        fields = json.loads(episode.to_json())
        turns = fields.pop("turns")
        fields["num_turns"] = len(turns)
        for place, (turn, values) in enumerate(zip(episode.turns, turns, strict=True)):
            row = _turn_row(episode, turn, values)
            if record:
                row["record"] = json.dumps({"episode": fields, "turn": values})
            columns["episode"].append(number)
            columns["place"].append(place)
            for name, value in row.items():
                columns[name].append(value)
    return datasets.Dataset.from_dict(columns, features=features)


def _turn_features(datasets: ModuleType, record: bool) -> Any:
    """The columns and their types, which do not depend on the episodes."""
    text, number = datasets.Value("string"), datasets.Value("float64")
    integer = datasets.Value("int64")
    messages = datasets.List({"role": text, "content": text})
    return datasets.Features(
        {
            "prompt": messages,
            "completion": messages,
            "episode": integer,
            "place": integer,
            "game": text,
            "seed": integer,
            "sample": integer,
            "seat": integer,
            "turn": integer,
            "policy": text,
            "legal": datasets.List(text),
            "is_valid": datasets.Value("bool"),
            "reward": number,
            "return": number,
            "prompt_ids": datasets.List(integer),
            "token_ids": datasets.List(integer),
            "logprobs": datasets.List(number),
            "entropies": datasets.List(number),
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
        "game": episode.game,
        "seed": episode.seed,
        "sample": episode.sample,
        **{column: storable_value(values[f]) for f, column in _TURN_COLUMNS.items()},
        "is_valid": turn.invalid is None,
        "reward": float(turn.reward),
        "return": float(episode.returns[turn.seat]),
    }
    for field, value_of in _READ.items():
        if value_of(row) == values[field]:
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


def want_episodes(episodes: Any) -> None:
    """Raises TypeError for one episode, a path or anything else that is no list."""
    if isinstance(episodes, Episode):
        raise TypeError("want a list of Episodes, got one Episode; write [episode]")
    if isinstance(episodes, (str, PathLike)) or not isinstance(episodes, Iterable):
        raise TypeError(
            f"want a list of Episodes, got {short(episodes)}; read a file with "
            "arena_wrappers.read_episodes(path)"
        )


def from_dataset(dataset: "Dataset") -> list[Episode]:
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
    rows_by_episode: dict[int, dict[int, Mapping[str, Any]]] = {}
    for row in dataset:
        rows = rows_by_episode.setdefault(row["episode"], {})
        if row["place"] in rows:
            raise ValueError(
                f"episode {row['episode']} stands twice; restore each data set before you "
                "join them"
            )
        rows[row["place"]] = row
    numbers = {number: index for index, number in enumerate(sorted(rows_by_episode))}
    return [_episode(number, rows_by_episode[number], numbers) for number in numbers]


def _episode(
    number: int, rows: Mapping[int, Mapping[str, Any]], numbers: Mapping[int, int]
) -> Episode:
    """An episode of its rows by place; `numbers` are the new ones of all episodes."""
    records = {place: json.loads(rows[place]["record"]) for place in sorted(rows)}
    fields = next(iter(records.values()))["episode"]
    num_turns = fields.pop("num_turns")
    if list(records) != list(range(num_turns)):
        raise ValueError(
            f"want all {num_turns} turns of episode {number}, got {list(records)}; restore "
            "episodes before you filter rows"
        )
    if fields["parent"] is not None:
        if fields["parent"] not in numbers:
            raise ValueError(
                f"want episode {fields['parent']}, the parent of episode {number}, got none; "
                "keep both or leave out both"
            )
        fields["parent"] = numbers[fields["parent"]]
    turns = [
        {name: value_of(rows[place]) for name, value_of in _READ.items()}
        | record["turn"]
        for place, record in records.items()
    ]
    return Episode.from_json(json.dumps({**fields, "turns": turns}))
