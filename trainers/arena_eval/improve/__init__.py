"""Better play without training: a text in a policy's prompt that is kept only if play gets better.

`Improvement` plays rounds. In each one a proposer reads chosen episodes and writes texts; they race
on the same fresh seeds, and the best one must beat the current text on seeds that no candidate has
played. `arena improve` is its command.
"""

from arena_eval.improve.openings import OpeningsProposer as OpeningsProposer
from arena_eval.improve.proposers import Evidence as Evidence
from arena_eval.improve.proposers import ModelProposer as ModelProposer
from arena_eval.improve.proposers import Proposer as Proposer
from arena_eval.improve.proposers import Tried as Tried
from arena_eval.improve.rounds import Improvement as Improvement
from arena_eval.improve.rows import read_rows as read_rows
from arena_eval.improve.text_policy import TextPolicy as TextPolicy
from arena_eval.improve.text_policy import with_text as with_text
from arena_eval.improve.texts import safe_text as safe_text
from arena_eval.improve.texts import text_in as text_in
