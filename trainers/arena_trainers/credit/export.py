"""`export`: advantages in the fields that other trainers read."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from numpy.typing import ArrayLike

from arena_trainers.credit.by_name import Estimator
from arena_trainers.credit.pools import check_choice
from arena_trainers.credit.recorded import (
    CreditedTrajectory,
    CreditedTurn,
    RecordedEpisode,
    credited,
)
from arena_trainers.credit.traces import trace


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

    `docs/data.md` shows how each trainer reads them.

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
    found = credited(
        recorded,
        estimator,
        policies=policies,
        columns=columns,
        within_turn=within_turn,
        **options,
    )
    return [entry for trajectory in found for entry in _FORMS[to](trajectory)]


def _as_messages(trajectory: CreditedTrajectory) -> list[dict[str, Any]]:
    """A row for each turn: its messages with the reply, and its credit."""
    episode = trajectory.episode
    return [
        {
            "messages": [*_prompt(found), {"role": "assistant", "content": turn.reply}],
            "advantage": found.advantage,
            "token_advantages": found.token_advantages,
            "reward": found.reward,
            "return": float(episode.returns[trajectory.seat]),
            **{
                "prompt_ids": _ints(turn.prompt_ids),
                "token_ids": _ints(turn.token_ids),
            },
            **{"game": episode.game, "seed": episode.seed, "sample": episode.sample},
            **{"episode": trajectory.number, "seat": turn.seat, "turn": turn.index},
        }
        for found in trajectory.turns
        for turn in (found.turn,)
    ]


def _as_trace(trajectory: CreditedTrajectory) -> list[dict[str, Any]]:
    return [trace(trajectory)]


def _as_steps(trajectory: CreditedTrajectory) -> list[dict[str, Any]]:
    """Steps with the fields of OpenEnv's `StepResult`, and rewards of steps as a rubric's."""
    episode, last = trajectory.episode, len(trajectory.turns) - 1
    steps = [
        {
            "observation": {"messages": _prompt(found), "reply": found.turn.reply},
            "reward": found.reward,
            "done": place == last,
            "metadata": {
                "advantage": found.advantage,
                "token_advantages": found.token_advantages,
                "prompt_token_ids": _ints(found.turn.prompt_ids),
                "completion_token_ids": _ints(found.turn.token_ids),
            },
        }
        for place, found in enumerate(trajectory.turns)
    ]
    return [
        {
            "steps": steps,
            "step_rewards": [found.advantage for found in trajectory.turns],
            "reward": float(episode.returns[trajectory.seat]),
            "agent": f"player_{trajectory.seat}",
            **{"game": episode.game, "seed": episode.seed, "sample": episode.sample},
            "episode": trajectory.number,
        }
    ]


def _prompt(found: CreditedTurn) -> list[dict[str, str]]:
    return [dict(message) for message in found.turn.messages]


def _ints(ids: Sequence[int] | None) -> list[int] | None:
    return None if ids is None else [int(i) for i in ids]


_FORMS: Mapping[str, Callable[[CreditedTrajectory], list[dict[str, Any]]]] = {
    "messages": _as_messages,
    "verifiers": _as_trace,
    "openenv": _as_steps,
}
