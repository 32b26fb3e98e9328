"""Selectors by the rules' verdict on a reply: `feedback_pairs`, `rule_labels`."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from arena_envs.game import check_number
from arena_trainers.data.arguments import Policies, seeded_integer
from arena_trainers.data.recorded_play import (
    RecordedTrajectory,
    is_legal,
    pieces_of,
    recorded_trajectories,
    row_facts,
)
from arena_trainers.data.rows import Dropped, Label, Pair
from arena_wrappers import (
    Episode,
    Turn,
)


class _Prompt(NamedTuple):
    """A prompt of a policy: the start of its group, the role of its call, its texts."""

    start: tuple[Any, ...]
    policy: str
    role: str
    texts: tuple[str, ...]


def feedback_pairs(
    episodes: Sequence[Episode], *, seed: int, policies: Policies = None
) -> Iterator[Pair | Dropped]:
    """A legal reply over a refused one at the same prompt.

    Environment Preference Optimization, EPO (https://arxiv.org/abs/2408.16090): the
    environment's feedback orders two replies at one state. The legal reply is that of another
    sample, or the one that the seat gave when it was asked again. Differences: EPO trains a reward
    model on feedback, to order replies that were not played; here the rules' own verdict orders
    played ones.

    Args:
        episodes: the records.
        seed: of the draw among the legal replies at a prompt.
        policies: names of those who learn; None for all.
    """
    legal: dict[_Prompt, list[Turn]] = {}
    refused: dict[_Prompt, list[tuple[RecordedTrajectory, Turn]]] = {}
    for trajectory in recorded_trajectories(episodes, policies):
        unanswered: list[
            _Prompt
        ] = []  # with refused replies, which wait for a legal one
        for turn in trajectory.turns:
            prompt = _Prompt(
                start=trajectory.start,
                policy=turn.policy,
                role=getattr(turn, "role", ""),
                texts=tuple(message["content"] for message in turn.messages),
            )
            if not is_legal(turn):
                refused.setdefault(prompt, []).append((trajectory, turn))
                if turn.action is None:  # the seat is asked again
                    unanswered.append(prompt)
                else:  # another action was played in its place
                    unanswered = []
                continue
            legal.setdefault(prompt, []).append(turn)
            for earlier in unanswered:
                if earlier.role == prompt.role:
                    legal.setdefault(earlier, []).append(turn)
            unanswered = [
                earlier for earlier in unanswered if earlier.role != prompt.role
            ]
    num_unrefused = sum(
        len(turns) for prompt, turns in legal.items() if prompt not in refused
    )
    if num_unrefused:
        yield Dropped("nothing was refused at its prompt", num_unrefused)
    for prompt, replies in refused.items():
        if prompt not in legal:
            yield Dropped("no legal reply at its prompt", len(replies))
            continue
        for trajectory, turn in replies:
            lot = seeded_integer(
                seed, tuple(prompt), trajectory.episode.sample, turn.reply
            )
            better = legal[prompt][lot % len(legal[prompt])]
            if better.reply == turn.reply:  # what is legal depends on what is hidden
                yield Dropped("the same reply was legal and refused at its prompt")
                continue
            yield Pair(
                **row_facts(trajectory.episode, turn, "legal over refused"),
                chosen=pieces_of([better]),
                rejected=pieces_of([turn], lambda turn: True),
            )


def rule_labels(
    episodes: Sequence[Episode],
    *,
    seed: int,
    min_reward: float | None = None,
    policies: Policies = None,
) -> Iterator[Label | Dropped]:
    """Every turn with the rules' verdict: good if it is legal and costs nothing.

    STEVE (https://arxiv.org/abs/2503.12532) labels every step as right or wrong, for KTO. Differences:
    its judge is a large model that sees the screen before and after the step. Here, a rule
    judges, which knows nothing of good play; `solver_labels` does. With `min_reward`, a last
    turn that loses the game is bad, whether it was at fault or not.

    Args:
        episodes: the records.
        seed: not used.
        min_reward: a legal turn with a lower reward is bad; None: every legal turn is good.
        policies: names of those who learn; None for all.
    """
    if min_reward is not None:
        check_number("min_reward", min_reward)
    for trajectory in recorded_trajectories(episodes, policies):
        for turn in trajectory.turns:
            label, reason = is_legal(turn), "legal"
            if not label:
                reason = "refused"
            elif min_reward is not None:
                label = turn.reward >= min_reward
                side = "at least" if label else "below"
                reason = f"legal, reward {side} {min_reward:g}"
            facts = row_facts(trajectory.episode, turn, reason)
            pieces = pieces_of([turn], lambda turn: True)
            yield Label(**facts, completion=pieces, label=label)
