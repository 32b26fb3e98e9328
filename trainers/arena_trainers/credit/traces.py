"""A trajectory as a trace of verifiers 0.4, for `WireTrace.model_validate`."""

from collections.abc import Sequence
from typing import Any

from arena_trainers.credit.recorded import CreditedTrajectory, CreditedTurn


def trace(trajectory: CreditedTrajectory) -> dict[str, Any]:
    """The trace: a graph of messages, rewards, and the credit of each turn and token."""
    episode, seat = trajectory.episode, trajectory.seat
    turns = trajectory.turns
    penalty = sum(float(found.turn.rewards.get("format", 0)) for found in turns)
    rewards = {"return": {"score": float(episode.returns[seat])}}
    if penalty:
        rewards["format"] = {"score": penalty}
    return {
        "task": {
            "type": "GameTask",
            "data": {
                "idx": trajectory.number,
                "name": f"{episode.game}#{episode.seed}",
                **{"seed": episode.seed, "sample": episode.sample},
            },
        },
        "agent": {"name": f"player_{seat}", "config": {}},
        "nodes": _nodes(turns),
        "rewards": rewards,
        "metrics": {"forfeit": float(episode.forfeited_by == seat)},
        "info": {
            "turn_rewards": [found.reward for found in turns],
            "turn_advantages": [found.advantage for found in turns],
        },
        **{"is_completed": True, "ok": True},
        "stop_condition": "max_turns" if episode.truncated else "agent_completed",
    }


def _nodes(turns: Sequence[CreditedTurn]) -> list[dict[str, Any]]:
    """The messages as a graph: prompts that begin alike share their first nodes.

    The node of a reply holds all tokens since the reply before it on its path, so that the
    tokens along a path are those that the model read and wrote.
    """
    nodes: list[dict[str, Any]] = []
    known: dict[tuple[int | None, str, str], int] = {}  # node by parent and message
    read: dict[int | None, list[int]] = {None: []}  # tokens of the path to a node

    def node(parent: int | None, role: str, content: str, **fields: Any) -> int:
        message = {"role": role, "content": content}
        nodes.append({"parent": parent, "message": message, **fields})
        known[parent, role, content] = len(nodes) - 1
        read[len(nodes) - 1] = read[parent]
        return len(nodes) - 1

    for found in turns:
        turn = found.turn
        messages = [(m["role"], _valid(m["content"])) for m in turn.messages]
        prompt = list(messages)
        ids = list(turn.prompt_ids or ())
        parent: int | None = None
        while prompt and (parent, *prompt[0]) in known:
            parent = known[parent, *prompt.pop(0)]
        if ids[: len(read[parent])] != read[parent]:  # the tokens are no continuation
            parent, prompt = None, messages
            known.clear()
        for role, content in prompt:
            parent = node(parent, role, content)
        new = ids[len(read[parent]) :]
        reply = node(parent, "assistant", _valid(turn.reply), **_sampled(found, new))
        read[reply] = ids + list(turn.token_ids or ())
    return nodes


def _sampled(found: CreditedTurn, new: Sequence[int]) -> dict[str, Any]:
    """The fields of a reply's node: its tokens, after those of the prompt that are new."""
    ids = found.turn.token_ids
    if ids is None:
        return {"sampled": True}
    return {
        "sampled": True,
        "token_ids": [*map(int, new), *map(int, ids)],
        "mask": [False] * len(new) + [True] * len(ids),
        "logprobs": [float(x) for x in found.turn.logprobs or ()],
        "advantages": found.token_advantages,
    }


def _valid(text: str) -> str:
    """The text without lone surrogates, which pydantic refuses."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
