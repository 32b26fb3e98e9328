"""A curriculum.

- **Protocol**: `arena_trainers.curricula.Curriculum`; `BaseCurriculum` has defaults for all but
  `propose`. It knows games, numbers and outcomes, never who plays.
- **Name**: `--curriculum my_curriculum:Shorten`; the group is `arena.curricula`.
- **Check**: `check_curriculum`.
"""

from arena_trainers.curricula import BaseCurriculum, Task
from arena_trainers.curricula.testing import check_curriculum


class Shorten(BaseCurriculum):
    """Truncates a share of the starts, whatever their game."""

    def __init__(self, *, share=0.5, max_turns=4):
        self.share, self.max_turns = share, max_turns

    def propose(self, step, rng):
        return Task(max_turns=self.max_turns if rng.random() < self.share else None)


def test_my_curriculum_keeps_its_promises():
    check_curriculum(Shorten)
