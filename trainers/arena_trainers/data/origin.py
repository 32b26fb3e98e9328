"""Where rows come from: the games and the prompts, kept in the metadata of their file."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

from arena_trainers.data.rows import Row
from arena_trainers.extras import import_extra
from arena_wrappers import Episode, PromptOptions
from arena_wrappers.prompts import seat_options

_KEY = b"arena"  # of the metadata


@dataclass(frozen=True)
class Origin:
    """What a model that is trained on rows plays, and what it then reads.

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
    games: set[str] = set()
    prompts: set[str] = set()
    for episode in episodes:
        own = seats.get((episode.game, episode.seed, episode.sample), ())
        for seat in own:
            prompts.add(
                json.dumps(vars(seat_options(episode.prompt, seat)), sort_keys=True)
            )
        if own:
            games.add(_game(episode))
    return Origin(
        [json.loads(game) for game in sorted(games)],
        [PromptOptions(**json.loads(options)) for options in sorted(prompts)],
    )


def _game(episode: Episode) -> str:
    spec: dict[str, Any] = {"id": episode.game}
    if episode.params:
        spec["params"] = dict(episode.params)
    if episode.max_turns is not None:
        spec["max_turns"] = episode.max_turns
    return json.dumps(spec, sort_keys=True)


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
    """The origin of the rows in a Parquet file; None if the file has none.

    Raises:
        ModuleNotFoundError: pyarrow is missing.
    """
    parquet = import_extra("pyarrow.parquet", "train")
    found = (parquet.read_schema(path).metadata or {}).get(_KEY)
    if found is None:
        return None
    values = json.loads(found)
    prompts = [PromptOptions(**options) for options in values["prompts"]]
    return Origin(values["games"], prompts)
