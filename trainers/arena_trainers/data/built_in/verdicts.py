"""Selectors by the rules' verdict on a reply: `feedback_pairs`, `rule_labels`."""

from collections.abc import Iterator, Sequence
from typing import Any

from arena_envs.game import check_number
from arena_trainers.data.arguments import Policies, draw
from arena_trainers.data.recorded_play import (
    Trajectory,
    facts_of,
    is_legal,
    pieces_of,
    trajectories,
)
from arena_trainers.data.rows import Dropped, Label, Pair
from arena_wrappers import (
    Episode,
    Turn,
)


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
    legal: dict[Any, list[Turn]] = {}
    refused: dict[Any, list[tuple[Trajectory, Turn]]] = {}
    for one in trajectories(episodes, policies):
        open_keys: list[Any] = []  # of refused replies that wait for a legal one
        for turn in one.turns:
            texts = tuple(message["content"] for message in turn.messages)
            role = getattr(turn, "role", "")
            key = (one.start, turn.policy, role, texts)
            if not is_legal(turn):
                refused.setdefault(key, []).append((one, turn))
                open_keys = [*open_keys, key] if turn.action is None else []
                continue
            for asked in (key, *(other for other in open_keys if other[2] == role)):
                legal.setdefault(asked, []).append(turn)
            open_keys = [other for other in open_keys if other[2] != role]
    untouched = sum(len(turns) for key, turns in legal.items() if key not in refused)
    if untouched:
        yield Dropped("nothing was refused at its prompt", untouched)
    for key, replies in refused.items():
        if key not in legal:
            yield Dropped("no legal reply at its prompt", len(replies))
            continue
        for one, turn in replies:
            lot = draw(seed, key, one.episode.sample, turn.reply)
            better = legal[key][lot % len(legal[key])]
            if better.reply == turn.reply:  # what is legal depends on what is hidden
                yield Dropped("the same reply was legal and refused at its prompt")
                continue
            yield Pair(
                **facts_of(one.episode, turn, "legal over refused"),
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
    for one in trajectories(episodes, policies):
        for turn in one.turns:
            label, reason = is_legal(turn), "legal"
            if not label:
                reason = "refused"
            elif min_reward is not None:
                label = turn.reward >= min_reward
                side = "at least" if label else "below"
                reason = f"legal, reward {side} {min_reward:g}"
            facts = facts_of(one.episode, turn, reason)
            said = pieces_of([turn], lambda turn: True)
            yield Label(**facts, completion=said, label=label)
