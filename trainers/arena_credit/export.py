"""`export`: the advantages of recorded episodes in the fields that other trainers read.

Episodes and turns are those of `arena_wrappers`, or objects with the same attributes. `credited`
makes a `TurnBatch` of their turns and gives each turn its advantage. `trace` writes a trajectory
for `WireTrace.model_validate` of verifiers 0.4.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from arena_credit.batch import TurnBatch
from arena_credit.by_name import Estimator, estimate, per_token
from arena_credit.pools import check_choice


class RecordedEpisode(Protocol):
    """The attributes of `arena_wrappers.Episode` that are read."""

    game: str
    params: Mapping[str, Any]
    seed: int
    sample: int
    turns: Sequence[Any]
    returns: Sequence[float]
    terminated: bool
    truncated: bool
    forfeited_by: int | None
    parent: int | None
    lost: str | None


class CreditedTurn(NamedTuple):
    """A turn with its credit.

    Attributes:
        turn: the turn.
        reward: paid from this turn until the seat's next one.
        advantage: the turn's advantage; the mean over its tokens if tokens are credited.
        token_advantages: one per token of the reply; None if the reply has no tokens.
    """

    turn: Any
    reward: float
    advantage: float
    token_advantages: list[float] | None


@dataclass(frozen=True)
class CreditedTrajectory:
    """The turns of one seat in one episode.

    Attributes:
        number: of the episode.
        episode: the episode.
        seat: the seat.
        turns: its turns in order.
    """

    number: int
    episode: Any
    seat: int
    turns: Sequence[CreditedTurn]


def credited(
    episodes: Sequence[RecordedEpisode],
    estimator: str | Estimator,
    *,
    policies: Collection[str] | None,
    columns: Mapping[str, ArrayLike] | None,
    within_turn: str,
    **options: Any,
) -> list[CreditedTrajectory]:
    """The trajectories of the episodes with the credit of each turn; see `export`."""
    _want_whole(episodes)
    if isinstance(policies, str):
        policies = [policies]
    places = [
        (number, turn)
        for number, episode in enumerate(episodes)
        for turn in episode.turns
        if policies is None or turn.policy in policies
    ]
    if not places:
        policy_names = sorted({turn.policy for e in episodes for turn in e.turns})
        raise ValueError(
            f"want turns of the policies {policies}, got those of {policy_names}"
        )
    batch = _batch(episodes, places, dict(columns or {}))
    result = estimate(estimator, batch, within_turn=within_turn, **options)
    advantage = np.asarray(result.advantage, np.float64)
    counts = [len(turn.token_ids or ()) for _, turn in places]
    if per_token(estimator, within_turn):
        parts = np.split(advantage, np.cumsum(counts)[:-1])
        means = [float(part.mean()) if part.size else 0.0 for part in parts]
    else:
        means = [float(value) for value in advantage]
        parts = [np.full(n, v) for n, v in zip(counts, means, strict=True)]
    return _trajectories(episodes, places, means, parts)


def _want_whole(episodes: Sequence[RecordedEpisode]) -> None:
    """Refuses episodes that branched or are lost."""
    for number, episode in enumerate(episodes):
        if episode.parent is not None:
            raise ValueError(
                f"want episodes that did not branch, got episode {number} with parent "
                f"{episode.parent}; play without branch"
            )
        if episode.lost is not None:
            raise ValueError(
                f"want episodes with returns, got episode {number}, which is lost "
                f"({episode.lost}); pass arena_wrappers.without_lost(episodes)"
            )


def _trajectories(
    episodes: Sequence[RecordedEpisode],
    places: Sequence[tuple[int, Any]],
    means: Sequence[float],
    parts: Sequence[Any],
) -> list[CreditedTrajectory]:
    turns_by_seat: dict[tuple[int, int], list[CreditedTurn]] = {}
    for (number, turn), mean, part in zip(places, means, parts, strict=True):
        tokens = None if turn.token_ids is None else part.tolist()
        credited_turn = CreditedTurn(turn, _reward(turn), mean, tokens)
        turns_by_seat.setdefault((number, turn.seat), []).append(credited_turn)
    return [
        CreditedTrajectory(number, episodes[number], seat, turns)
        for (number, seat), turns in turns_by_seat.items()
    ]


def _batch(
    episodes: Sequence[RecordedEpisode],
    places: Sequence[tuple[int, Any]],
    columns: dict[str, Any],
) -> TurnBatch:
    """The turns as a batch; columns that are given come on top of those of the records."""
    games = [f"{e.game} {json.dumps(e.params, sort_keys=True)}" for e in episodes]
    names = list(dict.fromkeys(games))
    starts = [(names.index(g), e.seed) for g, e in zip(games, episodes, strict=True)]
    groups = {start: index for index, start in enumerate(dict.fromkeys(starts))}
    last = {(number, turn.seat): turn.index for number, turn in places}
    is_last = [last[number, turn.seat] == turn.index for number, turn in places]
    of = [episodes[number] for number, _ in places]
    turns = [turn for _, turn in places]
    recorded_columns = {
        "reward": [_reward(turn) for turn in turns],
        "game": [starts[number][0] for number, _ in places],
        "episode": [number for number, _ in places],
        "seat": [turn.seat for turn in turns],
        "turn": [turn.index for turn in turns],
        "group": [groups[starts[number]] for number, _ in places],
        "rewards": _parts(turns),
        "terminated": [e.terminated and x for e, x in zip(of, is_last, strict=True)],
        "truncated": [e.truncated and x for e, x in zip(of, is_last, strict=True)],
        "game_names": tuple(names),
    }
    opponents = _opponent_column(episodes, places)
    return TurnBatch(
        **{**recorded_columns, **opponents, **_token_columns(turns), **columns}
    )


def _opponent_column(
    episodes: Sequence[RecordedEpisode], places: Sequence[tuple[int, Any]]
) -> dict[str, list[int]]:
    """The players of the other seats, if the records name all of them.

    A seat without a turn has no name. Names of some episodes only would make pools depend on
    how long the episodes were.
    """
    seated = [{turn.seat: turn.policy for turn in e.turns} for e in episodes]
    if any(len(e.returns) != len(s) for e, s in zip(episodes, seated, strict=True)):
        return {}
    numbers: dict[tuple[str, ...], int] = {}
    opponents = []
    for number, turn in places:
        names = seated[number]
        others = tuple(names[seat] for seat in sorted(names) if seat != turn.seat)
        opponents.append(numbers.setdefault(others, len(numbers)))
    return {"opponent": opponents}


def _parts(turns: Sequence[Any]) -> dict[str, list[float]]:
    names = dict.fromkeys(name for turn in turns for name in turn.rewards)
    return {name: [float(t.rewards.get(name, 0)) for t in turns] for name in names}


def _token_columns(turns: Sequence[Any]) -> dict[str, Any]:
    """The columns of tokens, if every turn has tokens."""
    if any(turn.token_ids is None for turn in turns):
        return {}
    tokens = {}
    for column, field in (("logprob", "logprobs"), ("entropy", "entropies")):
        values = [getattr(turn, field) for turn in turns]
        if all(part is not None for part in values):
            tokens[column] = [float(value) for part in values for value in part]
    return {
        "num_tokens": [len(turn.token_ids) for turn in turns],
        "row_length": [len(t.prompt_ids or ()) + len(t.token_ids) for t in turns],
        "tokens": tokens or None,
    }


def _reward(turn: Any) -> float:
    return float(sum(turn.rewards.values()))


def trace(trajectory: CreditedTrajectory) -> dict[str, Any]:
    """The trace: a graph of messages, rewards, and the credit of each turn and token."""
    episode, seat = trajectory.episode, trajectory.seat
    turns = trajectory.turns
    penalty = sum(
        float(credited_turn.turn.rewards.get("format", 0)) for credited_turn in turns
    )
    rewards = {"return": {"score": float(episode.returns[seat])}}
    if penalty:
        rewards["format"] = {"score": penalty}
    return {
        "task": {
            "type": "GameTask",
            "data": {
                "idx": trajectory.number,
                "name": f"{episode.game}#{episode.seed}",
                "seed": episode.seed,
                "sample": episode.sample,
            },
        },
        "agent": {"name": f"player_{seat}", "config": {}},
        "nodes": _nodes(turns),
        "rewards": rewards,
        "metrics": {"forfeit": float(episode.forfeited_by == seat)},
        "info": {
            "turn_rewards": [credited_turn.reward for credited_turn in turns],
            "turn_advantages": [credited_turn.advantage for credited_turn in turns],
        },
        "is_completed": True,
        "ok": True,
        "stop_condition": "max_turns" if episode.truncated else "agent_completed",
    }


def _nodes(turns: Sequence[CreditedTurn]) -> list[dict[str, Any]]:
    """The messages as a graph: prompts that begin alike share their first nodes.

    The node of a reply holds all tokens since the reply before it on its path, so that the
    tokens along a path are those that the model read and wrote.
    """
    nodes: list[dict[str, Any]] = []
    node_of: dict[tuple[int | None, str, str], int] = {}  # node by parent and message
    path_tokens: dict[int | None, list[int]] = {
        None: []
    }  # tokens of the path to a node

    def node(parent: int | None, role: str, content: str, **fields: Any) -> int:
        message = {"role": role, "content": content}
        nodes.append({"parent": parent, "message": message, **fields})
        node_of[parent, role, content] = len(nodes) - 1
        path_tokens[len(nodes) - 1] = path_tokens[parent]
        return len(nodes) - 1

    for credited_turn in turns:
        turn = credited_turn.turn
        messages = [(m["role"], _valid(m["content"])) for m in turn.messages]
        prompt = list(messages)
        ids = list(turn.prompt_ids or ())
        parent: int | None = None
        while prompt and (parent, *prompt[0]) in node_of:
            parent = node_of[parent, *prompt.pop(0)]
        if (
            ids[: len(path_tokens[parent])] != path_tokens[parent]
        ):  # the tokens are no continuation
            parent, prompt = None, messages
            node_of.clear()
        for role, content in prompt:
            parent = node(parent, role, content)
        new = ids[len(path_tokens[parent]) :]
        reply = node(
            parent, "assistant", _valid(turn.reply), **_sampled(credited_turn, new)
        )
        path_tokens[reply] = ids + list(turn.token_ids or ())
    return nodes


def _sampled(credited_turn: CreditedTurn, new: Sequence[int]) -> dict[str, Any]:
    """The fields of a reply's node: its tokens, after those of the prompt that are new."""
    ids = credited_turn.turn.token_ids
    if ids is None:
        return {"sampled": True}
    return {
        "sampled": True,
        "token_ids": [*map(int, new), *map(int, ids)],
        "mask": [False] * len(new) + [True] * len(ids),
        "logprobs": [float(x) for x in credited_turn.turn.logprobs or ()],
        "advantages": credited_turn.token_advantages,
    }


def _valid(text: str) -> str:
    """The text without lone surrogates, which pydantic refuses."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def export(
    episodes: Iterable[RecordedEpisode],
    estimator: str | Estimator,
    to: str,
    *,
    policies: Collection[str] | None = None,
    columns: Mapping[str, ArrayLike] | None = None,
    within_turn: str = "uniform",
    **options: Any,
) -> list[dict[str, Any]]:
    """The credit of recorded episodes, in the fields that other trainers read.

    The result holds numbers, texts, lists and dicts only, so that `json.dumps` takes it.

    | `to` | one entry per | where the credit is |
    |---|---|---|
    | `"messages"` | turn | `advantage`, `token_advantages` beside `messages` |
    | `"verifiers"` | seat of an episode, a trace of verifiers 0.4 | `nodes[i]["advantages"]`, `info["turn_rewards"]`, `info["turn_advantages"]` |
    | `"openenv"` | seat of an episode | `step_rewards`; `steps[i]["metadata"]` |

    All episodes are one batch: the estimator compares what you pass. By default a pool joins the
    episodes of one seat against any opponents: those of one group (pools by `group`), or all of
    one game and its parameters (pools by `game`, as in `mars`). To compare only episodes against
    the same policies, add the column `opponent`: `pool=("group", "seat", "opponent")`. The
    batch has it if every seat took a turn in every episode; else pass it in `columns`.

    Tokens have the advantage of their turn unless the estimator or `within_turn` credits tokens.

    Args:
        episodes: `arena_wrappers.Episode`s that did not branch, such as `read_episodes(path)`.
            Those with the same game, parameters and seed are one group.
        estimator: name of the estimator, or the function.
        to: the form.
        policies: names of the policies whose turns are credited, as `Turn.policy` has them;
            None for all. Turns of other policies, such as opponents, are left out.
        columns: further columns of `TurnBatch` that the estimator reads, such as `value`, with
            an entry for each credited turn: episode by episode, in playing order.
        within_turn: as in `estimate`.
        **options: options of the estimator.

    Raises:
        ValueError: there is no episode, an episode branched, no turn is left, `to` is
            unknown, or the estimator refuses the batch, as `estimate` says.
    """
    check_choice("to", to, tuple(_FORMS))
    recorded = list(episodes)
    if not recorded:
        raise ValueError("want at least one episode, got none")
    credited_trajectories = credited(
        recorded,
        estimator,
        policies=policies,
        columns=columns,
        within_turn=within_turn,
        **options,
    )
    return [
        entry
        for trajectory in credited_trajectories
        for entry in _FORMS[to](trajectory)
    ]


def _as_messages(trajectory: CreditedTrajectory) -> list[dict[str, Any]]:
    """A row for each turn: its messages with the reply, and its credit."""
    episode = trajectory.episode
    return [
        {
            "messages": [
                *_prompt(credited_turn),
                {"role": "assistant", "content": turn.reply},
            ],
            "advantage": credited_turn.advantage,
            "token_advantages": credited_turn.token_advantages,
            "reward": credited_turn.reward,
            "return": float(episode.returns[trajectory.seat]),
            "prompt_ids": _ints(turn.prompt_ids),
            "token_ids": _ints(turn.token_ids),
            "game": episode.game,
            "seed": episode.seed,
            "sample": episode.sample,
            "episode": trajectory.number,
            "seat": turn.seat,
            "turn": turn.index,
        }
        for credited_turn in trajectory.turns
        for turn in (credited_turn.turn,)
    ]


def _as_steps(trajectory: CreditedTrajectory) -> list[dict[str, Any]]:
    """Steps with the fields of OpenEnv's `StepResult`, and rewards of steps as a rubric's."""
    episode, last = trajectory.episode, len(trajectory.turns) - 1
    steps = [
        {
            "observation": {
                "messages": _prompt(credited_turn),
                "reply": credited_turn.turn.reply,
            },
            "reward": credited_turn.reward,
            "done": place == last,
            "metadata": {
                "advantage": credited_turn.advantage,
                "token_advantages": credited_turn.token_advantages,
                "prompt_token_ids": _ints(credited_turn.turn.prompt_ids),
                "completion_token_ids": _ints(credited_turn.turn.token_ids),
            },
        }
        for place, credited_turn in enumerate(trajectory.turns)
    ]
    return [
        {
            "steps": steps,
            "step_rewards": [
                credited_turn.advantage for credited_turn in trajectory.turns
            ],
            "reward": float(episode.returns[trajectory.seat]),
            "agent": f"player_{trajectory.seat}",
            "game": episode.game,
            "seed": episode.seed,
            "sample": episode.sample,
            "episode": trajectory.number,
        }
    ]


def _prompt(credited_turn: CreditedTurn) -> list[dict[str, str]]:
    return [dict(message) for message in credited_turn.turn.messages]


def _ints(ids: Sequence[int] | None) -> list[int] | None:
    return None if ids is None else [int(i) for i in ids]


_FORMS: Mapping[str, Callable[[CreditedTrajectory], list[dict[str, Any]]]] = {
    "messages": _as_messages,
    "verifiers": lambda trajectory: [trace(trajectory)],
    "openenv": _as_steps,
}
