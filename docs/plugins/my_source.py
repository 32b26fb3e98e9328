"""A source of questions.

- **Protocol**: `arena_envs.games.questions.TaskSource`. `tasks(split)` gives the same `Task`s
  at every call, none in both splits; `score(task, answer)` is from 0 to 1 for any text, and 1
  for the right answer.
- **Name**: the group `arena.tasks`, or `make("questions", source="my_source:Colors")`.
- **Check**: `arena check "questions(source='my_source:Colors')"`.
"""

from arena_envs.games.questions import Task


class Colors:
    """Two questions; near answers score a half."""

    def tasks(self, split):
        thing = {"train": "blood", "test": "a ruby"}[split]
        return [Task(f"Which color has {thing}?", "red")]

    def score(self, task, answer):
        return {"red": 1.0, "pink": 0.5}.get(answer, 0.0)


def test_right_answers_score_1():
    source = Colors()
    tasks = [task for split in ("train", "test") for task in source.tasks(split)]
    assert [source.score(task, task.answer) for task in tasks] == [1.0, 1.0]
