"""Examples for supervised training, made by play; episodes as data sets and back.

Selectors choose rows to train on from recorded episodes: `select`, by name. Rollouts are
training episodes with the credit of each turn.
"""

from arena_trainers.data.arguments import seeded_integer as seeded_integer
from arena_trainers.data.columns import columns_of_row as columns_of_row
from arena_trainers.data.columns import load_chat as load_chat
from arena_trainers.data.columns import rows_to_dataset as rows_to_dataset
from arena_trainers.data.columns import write_rows as write_rows
from arena_trainers.data.examples import Example as Example
from arena_trainers.data.examples import FixedRandomBot as FixedRandomBot
from arena_trainers.data.examples import Recorder as Recorder
from arena_trainers.data.examples import examples_of as examples_of
from arena_trainers.data.examples import legal_play as legal_play
from arena_trainers.data.examples import solver_examples as solver_examples
from arena_trainers.data.origin import Origin as Origin
from arena_trainers.data.origin import only_prompt as only_prompt
from arena_trainers.data.origin import origin_of as origin_of
from arena_trainers.data.origin import read_origin as read_origin
from arena_trainers.data.recorded_play import RecordedTrajectory as RecordedTrajectory
from arena_trainers.data.recorded_play import completions as completions
from arena_trainers.data.recorded_play import conversations as conversations
from arena_trainers.data.recorded_play import joined as joined
from arena_trainers.data.recorded_play import pieces_of as pieces_of
from arena_trainers.data.recorded_play import (
    recorded_trajectories as recorded_trajectories,
)
from arena_trainers.data.recorded_play import row_facts as row_facts
from arena_trainers.data.rows import Completion as Completion
from arena_trainers.data.rows import Dropped as Dropped
from arena_trainers.data.rows import Label as Label
from arena_trainers.data.rows import NewMessages as NewMessages
from arena_trainers.data.rows import Pair as Pair
from arena_trainers.data.rows import ReplyPart as ReplyPart
from arena_trainers.data.rows import Row as Row
from arena_trainers.data.rows import messages_of as messages_of
from arena_trainers.data.selection import Selection as Selection
from arena_trainers.data.selection import held_out as held_out
from arena_trainers.data.selection import select as select
from arena_trainers.data.selection import selectors as selectors
from arena_trainers.data.turns import from_dataset as from_dataset
from arena_trainers.data.turns import to_dataset as to_dataset
