"""What a bot would reply in the states that random play meets."""

from collections.abc import Sequence

from arena_trainers.data.examples import Example
from arena_trainers.data.legal_play import plans
from arena_wrappers import Policy, RandomPolicy, Reply, TurnRequest, play_plans
from arena_wrappers.play import EnvFn


class _Noting(RandomPolicy):
    """Plays at random, and notes what another policy would reply."""

    def __init__(self, teacher: Policy) -> None:
        self.teacher = teacher
        self.examples: list[Example] = []

    def act(self, requests: Sequence[TurnRequest]) -> list[Reply]:
        replies = self.teacher.act(requests)
        for request, reply in zip(requests, replies, strict=True):
            if reply.error is not None:
                raise ValueError(f"{self.teacher.name} gave no reply: {reply.error}")
            self.examples.append(Example(tuple(request.messages), reply.text))
        return super().act(requests)


def solver_replies(
    env_fns: Sequence[EnvFn], teacher: Policy, num_episodes: int, seed: int
) -> list[Example]:
    """A teacher's reply in every state that uniform random play meets.

    Random play meets states that the teacher itself would avoid, so that a model also
    learns what to do there.

    Args:
        env_fns: make the environments.
        teacher: who is imitated, such as `make_policy("cfr")`.
        num_episodes: of random play, all environments together.
        seed: of the episodes.

    Raises:
        ValueError: the teacher fails to reply; says why.
    """
    noting = _Noting(teacher)
    play_plans(
        plans(env_fns, noting, num_episodes, seed), batch_size=256, on_error="raise"
    )
    return noting.examples
