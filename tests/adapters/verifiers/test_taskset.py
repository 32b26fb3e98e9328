"""A taskset of verifiers as a game here: its rewards score the answers of a policy that plays."""

import sys
import textwrap

import pytest

pytest.importorskip("verifiers.v1")

import arena_credit as credit
from arena_envs import make
from arena_envs.testing import check_game
from arena_wrappers import FunctionPolicy, PromptWrapper, play
from arena_wrappers.adapters.verifiers_tasks import (
    SOURCE,
    from_verifiers,
)


@pytest.fixture
def taskset(tmp_path, monkeypatch):
    """The id of an installed taskset: sums, whose near answers score a half."""
    (tmp_path / "their_sums.py").write_text(
        textwrap.dedent(
            """
            import verifiers.v1 as vf


            class Data(vf.TaskData):
                answer: str = ""


            class Sum(vf.Task[Data]):
                @vf.reward
                async def right(self, task, trace) -> float:
                    off = abs(int(trace.last_reply) - int(task.answer))
                    return {0: 1.0, 1: 0.5}.get(off, 0.0)


            class Sums(vf.Taskset[Sum, vf.TasksetConfig]):
                def load(self):
                    for n in range(8):
                        data = Data(prompt=f"What is {n} + {n}?", answer=str(2 * n))
                        yield Sum(data, self.config.task)


            __all__ = ["Sums"]
            """
        )
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "their_sums"
    sys.modules.pop("their_sums", None)


def test_their_tasks_are_questions_and_their_rewards_the_scores(
    taskset, record_property
):
    game = from_verifiers(taskset)
    bank = game.bank
    train, test = bank.tasks("train"), bank.tasks("test")
    assert len(train) == len(test) == 4
    assert not {t.question for t in train} & {t.question for t in test}
    task = train[0]
    assert [
        bank.score(task, text) for text in (task.answer, str(int(task.answer) + 1))
    ] == [1, 0.5]
    assert bank.score(task, "no number") == 0.0  # their function raises
    check_game(game)
    record_property(
        "learned", "a taskset of verifiers is played, scored and credited here"
    )


@pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
def test_a_policy_is_paid_what_verifiers_pays(taskset):
    def reply(request):
        number = int(request.messages[-1]["content"].split("What is ")[1].split()[0])
        return request.wrap(f"answer {2 * number + request.seed % 2}")

    source = f"{SOURCE}(taskset={taskset})"

    def env():
        return PromptWrapper(make("questions", protocol="solo", source=source))

    episodes = list(play(env, FunctionPolicy(reply), range(4), num_samples=4))
    assert {episode.returns[0] for episode in episodes} == {0.5, 1.0}
    # the credit of this project runs on their rewards: above the mean of the others or below
    for entry in credit.export(episodes, "rloo", "verifiers"):
        (advantage,), (reward,) = (
            entry["info"][name] for name in ("turn_advantages", "turn_rewards")
        )
        assert (advantage > 0) == (reward == 1.0) or advantage == 0
