"""Curricula: which game each start has, and how long its episodes may be.

docs/plugins.md lists them.

`Curriculum` is the protocol. The entry-point group `arena.curricula` names curricula of other
distributions, and `arena_trainers.curricula.testing` checks them. A curriculum knows games,
numbers and outcomes, and never who plays: opponents are a matchmaker's.
"""

from arena_trainers.curricula.protocol import BaseCurriculum as BaseCurriculum
from arena_trainers.curricula.protocol import Curriculum as Curriculum
from arena_trainers.curricula.protocol import Outcome as Outcome
from arena_trainers.curricula.protocol import Task as Task
from arena_trainers.curricula.protocol import curricula as curricula
