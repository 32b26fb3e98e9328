"""verifiers: the credit of each turn in `node.advantages` of traces.

    from arena_credit.hooks.verifiers import annotate
    annotate(episodes, "mars_loo")

A reply is a node with sampled tokens. `trace.info["turn_rewards"]` has a reward for each reply,
as `arena_wrappers.adapters.verifiers` writes it; without it `trace.reward` is paid with the
last. Agents of one name are a seat; episodes of one task are a group. Further traces of an agent
in one episode, such as attempts at one problem, count as episodes.
"""

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Any

from arena_credit.by_name import Estimator
from arena_credit.hooks.rows import Trajectory, TurnCredit, paid_by_turn


def annotate(
    episodes: Iterable[Any], estimator: str | Estimator, **options: Any
) -> None:
    """Writes the advantage of its turn on each sampled token.

    Traces with errors, of agents that are not trained, or without sampled tokens stay as they
    are.

    Args:
        episodes: of verifiers; all are one batch.
        estimator: as for `TurnCredit`.
        **options: of the estimator.

    Raises:
        ValueError: a trace has a wrong number of turn rewards; or as `estimate`.
    """
    write(TurnCredit(estimator, **options), episodes)


def write(credit: TurnCredit, episodes: Iterable[Any], group: Hashable = None) -> None:
    """`annotate` with an estimator that keeps its state; `group` of all episodes, if it is one."""
    replies_of, trajectories = [], []
    for number, episode in enumerate(episodes):
        num_traces: Counter[str] = Counter()  # of each agent
        for trace in episode.traces:
            replies = [node for node in trace.nodes if any(node.mask)]
            if not trace.agent.trainable or trace.has_error or not replies:
                continue
            num_traces[trace.agent.name] += 1
            turn_rewards = trace.info.get("turn_rewards")
            total = trace.reward if turn_rewards is None else sum(turn_rewards)
            replies_of.append(replies)
            trajectories.append(
                Trajectory(
                    paid_by_turn(total, len(replies), turn_rewards),
                    group=_group_of(episode) if group is None else group,
                    seat=trace.agent.name,
                    episode=(number, num_traces[trace.agent.name]),
                )
            )
    for replies, advantages in zip(replies_of, credit(trajectories), strict=True):
        for node, advantage in zip(replies, advantages, strict=True):
            node.advantages = [advantage] * sum(node.mask)


def _group_of(episode: Any) -> Hashable:
    """The group that the trainer assigned, else the task."""
    if episode.group is not None:
        return ("group", episode.group.id)
    return ("task", episode.task.hash or episode.task.data.idx)
