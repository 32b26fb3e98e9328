"""lm-evaluation-harness: solved positions, scored by how an equilibrium plays them."""

from typing import Any

from datasets import Dataset

from arena_envs import make_game
from arena_wrappers import TurnRequest, make_policy, play

KUHN = make_game("kuhn_poker")


def positions(num_episodes: int = 100, **_: Any) -> dict[str, Dataset]:
    """The different positions of random Kuhn poker, with the action probabilities of CFR."""
    rows, solver = {}, make_policy("cfr:1000")
    for episode in play("kuhn_poker", "random", range(num_episodes)):
        for t in episode.turns:
            request = TurnRequest(
                0, 0, t.seat, KUHN, t.state, t.messages, (), t.legal, 0
            )
            ((probs, _),) = solver.action_probs([request])  # type: ignore[attr-defined]
            text = "\n\n".join(m["content"] for m in t.messages) + "\n\n<answer>"
            best = {"probs": probs, "best": probs.index(max(probs))}
            rows[text] = {"text": text, "choices": list(t.legal), **best}
    return {"test": Dataset.from_list(list(rows.values()))}


def score(doc: dict[str, Any], results: Any) -> dict[str, float]:
    scores = [score for score, _ in results]
    return {"equilibrium": doc["probs"][scores.index(max(scores))]}


TASK: dict[str, Any] = {
    "task": "arena_kuhn",
    "custom_dataset": positions,
    "test_split": "test",
    "output_type": "multiple_choice",
    "doc_to_text": "{{text}}",
    "doc_to_choice": "{{choices}}",
    "doc_to_target": "{{best}}",
    "target_delimiter": "",
    "process_results": score,
    "metric_list": [
        {"metric": "equilibrium", "aggregation": "mean", "higher_is_better": True}
    ],
}
