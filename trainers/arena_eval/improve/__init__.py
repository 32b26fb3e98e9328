"""Improves a text in a policy's prompts, without training.

In each round of an `Improvement` a proposer reads some episodes and writes texts. All texts play the
same new seeds. The best one replaces the current text if it is significantly better on further new
seeds. The command is `arena improve`.
"""

from arena_eval.improve.openings import OpeningsProposer as OpeningsProposer
from arena_eval.improve.proposers import Evidence as Evidence
from arena_eval.improve.proposers import ModelProposer as ModelProposer
from arena_eval.improve.proposers import Proposer as Proposer
from arena_eval.improve.proposers import Tried as Tried
from arena_eval.improve.rounds import Improvement as Improvement
from arena_eval.improve.rows import read_rows as read_rows
from arena_eval.improve.text_policy import with_text as with_text
from arena_eval.improve.texts import safe_text as safe_text
from arena_eval.improve.texts import text_in as text_in
