"""The origin of rows, which their file names: the games and the prompts that they are of."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena_envs.extras import import_extra
from arena_trainers.data.rows import Row
from arena_wrappers import Episode, PromptOptions
from arena_wrappers.prompts import seat_options

if TYPE_CHECKING:
    import pyarrow

_KEY = b"arena"  # of the metadata of a file of rows

JSON_LINES = (".jsonl", ".json")


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
    origins = []
    for episode in episodes:
        row_seats = seats.get((episode.game, episode.seed, episode.sample), ())
        spec: dict[str, Any] = {"id": episode.game}
        if episode.params:
            spec["params"] = dict(episode.params)
        if episode.max_turns is not None:
            spec["max_turns"] = episode.max_turns
        prompts = [seat_options(episode.prompt, seat) for seat in row_seats]
        origins.append(Origin([spec] if row_seats else [], prompts))
    return union(origins)


def union(origins: Iterable[Origin]) -> Origin:
    """The different games and prompts of all origins, in an order of their own."""
    games: set[str] = set()
    prompts: set[str] = set()
    for origin in origins:
        games |= {json.dumps(game, sort_keys=True) for game in origin.games}
        prompts |= {
            json.dumps(vars(options), sort_keys=True) for options in origin.prompts
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
        options_text = " and ".join(str(vars(options)) for options in origin.prompts)
        raise ValueError(
            f"want rows of seats with the same prompt options, got {options_text or 'none'}; "
            "select from episodes of one kind of prompt, or name the model: --model PATH"
        )
    return origin.prompts[0]


def with_origin(table: "pyarrow.Table", origin: Origin) -> Any:
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
    text = (parquet.read_schema(path).metadata or {}).get(_KEY)
    if text is None:
        return None
    values = json.loads(text)
    prompts = [PromptOptions(**options) for options in values["prompts"]]
    return Origin(values["games"], prompts)
