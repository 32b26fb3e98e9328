"""verifiers: writes the advantage of each turn into `node.advantages` of traces.

    from arena_credit.hooks.verifiers import annotate
    annotate(episodes, "mars_loo")

A reply is a node with sampled tokens. `trace.info["turn_rewards"]`, which
`arena_wrappers.adapters.verifiers` writes, has the reward of each reply; without it the last reply is
paid `trace.reward`. Agents with the same name are one seat. Episodes of one task are a group. If an agent
has several traces in an episode, such as attempts at one problem, each counts as an episode. Surprise is
known if the trainer annotated all replies of the batch with `trainer_logprobs` and `entropies`.
"""

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Any

from arena_credit.by_name import Estimator
from arena_credit.hooks.rows import StatefulEstimator, Trajectory, paid_by_turn


def annotate(
    episodes: Iterable[Any], estimator: str | Estimator, **options: Any
) -> None:
    """Gives each sampled token the advantage of its turn.

    Skips traces with errors, without sampled tokens, or of agents that are not trained.

    Args:
        episodes: of verifiers; all are one batch.
        estimator: as for `StatefulEstimator`.
        **options: of the estimator.

    Raises:
        ValueError: a trace has a wrong number of turn rewards; or as `estimate`.
    """
    write(StatefulEstimator(estimator, **options), episodes)


def write(
    credit: StatefulEstimator, episodes: Iterable[Any], group: Hashable = None
) -> None:
    """`annotate` with a stateful estimator; with `group`, all episodes are in this group."""
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
                    **_surprise(replies),
                )
            )
    if any(trajectory.entropies is None for trajectory in trajectories):
        trajectories = [t._replace(logprobs=None, entropies=None) for t in trajectories]
    for replies, advantages in zip(replies_of, credit(trajectories), strict=True):
        for node, advantage in zip(replies, advantages, strict=True):
            node.advantages = [advantage] * sum(node.mask)


def _surprise(replies: list[Any]) -> dict[str, Any]:
    """Log-probabilities and entropies by the trainer's policy, if it annotated all replies."""
    columns = [(node.trainer_logprobs, node.entropies) for node in replies]
    if any(None in pair for pair in columns):
        return {}
    logprobs, entropies = zip(*columns, strict=True)
    return {"logprobs": logprobs, "entropies": entropies}


def _group_of(episode: Any) -> Hashable:
    """The group that the trainer assigned, else the task."""
    if episode.group is not None:
        return ("group", episode.group.id)
    return ("task", episode.task.hash or episode.task.data.idx)
