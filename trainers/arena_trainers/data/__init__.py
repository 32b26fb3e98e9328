"""Examples for supervised training, made by play; episodes as data sets and back.

Selectors choose rows to train on from recorded episodes: `select`, by name.
"""

from arena_trainers.data.columns import columns, load_chat, rows_to_dataset, write_rows
from arena_trainers.data.examples import (
    Example,
    FixedRandomBot,
    examples_of,
    legal_play,
    solver_replies,
)
from arena_trainers.data.origin import Origin, only_prompt, origin_of, read_origin
from arena_trainers.data.played import (
    Trajectory,
    completions,
    conversations,
    draw,
    facts_of,
    joined,
    pieces_of,
    trajectories,
)
from arena_trainers.data.rows import Completion, Dropped, Heard, Label, Pair, Row, Said
from arena_trainers.data.selection import Selection, held_out, select
from arena_trainers.data.selection import names as selector_names
from arena_trainers.data.turn_rows import from_dataset, to_dataset

__all__ = [
    "Completion",
    "Dropped",
    "Example",
    "FixedRandomBot",
    "Heard",
    "Label",
    "Origin",
    "Pair",
    "Row",
    "Said",
    "Selection",
    "Trajectory",
    "columns",
    "completions",
    "conversations",
    "draw",
    "examples_of",
    "facts_of",
    "from_dataset",
    "held_out",
    "joined",
    "legal_play",
    "load_chat",
    "only_prompt",
    "origin_of",
    "pieces_of",
    "read_origin",
    "rows_to_dataset",
    "select",
    "selector_names",
    "solver_replies",
    "to_dataset",
    "trajectories",
    "write_rows",
]
