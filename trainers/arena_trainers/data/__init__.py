"""Examples for supervised training, made by play; episodes as data sets and back.

Selectors choose rows to train on from recorded episodes: `select`, by name. Rollouts are
training episodes with the credit of each turn.
"""

from arena_trainers.data.columns import (
    Origin,
    columns,
    from_dataset,
    load_chat,
    only_prompt,
    origin_of,
    read_origin,
    rows_to_dataset,
    to_dataset,
    write_rows,
)
from arena_trainers.data.examples import (
    Example,
    FixedRandomBot,
    Recorder,
    examples_of,
    legal_play,
    solver_replies,
)
from arena_trainers.data.rollouts import (
    Rollout,
    TurnCredit,
    read_rollouts,
    rollout_of,
    write_rollouts,
)
from arena_trainers.data.rows import (
    Completion,
    Dropped,
    Heard,
    Label,
    Pair,
    Row,
    Said,
    Trajectory,
    completions,
    conversations,
    draw,
    facts_of,
    joined,
    messages_of,
    pieces_of,
    trajectories,
)
from arena_trainers.data.selection import Selection, held_out, select, selectors
from arena_trainers.data.selection import names as selector_names

__all__ = [
    "Completion",
    "Dropped",
    "Example",
    "FixedRandomBot",
    "Heard",
    "Label",
    "Origin",
    "Pair",
    "Recorder",
    "Rollout",
    "Row",
    "Said",
    "Selection",
    "Trajectory",
    "TurnCredit",
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
    "messages_of",
    "only_prompt",
    "origin_of",
    "pieces_of",
    "read_origin",
    "read_rollouts",
    "rollout_of",
    "rows_to_dataset",
    "select",
    "selector_names",
    "selectors",
    "solver_replies",
    "to_dataset",
    "trajectories",
    "write_rollouts",
    "write_rows",
]
