"""TRL: advantages of tokens in `GRPOTrainer`, and rows of turns in the asynchronous loop."""

import asyncio
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="trl is not installed: make adapters")
pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.slow]
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")


def paid(returns: Any, **_: Any) -> Any:
    return returns


def one_step(folder: Path, **options: Any) -> Any:
    """Settings of TRL's trainer for a step of four rows on a CPU."""
    from trl import GRPOConfig

    return GRPOConfig(
        str(folder),
        report_to="none",
        max_steps=1,
        per_device_train_batch_size=4,
        num_generations=2,
        use_cpu=True,
        bf16=False,
        save_strategy="no",
        disable_tqdm=True,
        gradient_checkpointing=False,
        shuffle_dataset=False,
        **options,
    )


def test_their_trainer_learns_from_the_credit_of_turns(model, tmp_path) -> None:
    """Rows of a turn, and of two with a token of the game in between, paid 1 and 2."""
    from datasets import Dataset
    from trl import GRPOTrainer

    from arena_credit.hooks.trl import with_credit

    def rollout_func(prompts: Any, trainer: Any) -> dict[str, list[Any]]:
        rows = range(len(prompts))
        long = [row % 2 == 0 for row in rows]
        ids = [[4, 6, 5] if is_long else [4] for is_long in long]
        return {
            "prompt_ids": [[2] for _ in rows],
            "completion_ids": ids,
            "logprobs": [[-1.0] * len(own) for own in ids],
            "env_mask": [[1, 0, 1] if is_long else [1] for is_long in long],
            "returns": [3.0 if is_long else 5.0 for is_long in long],
            "turn_rewards": [[1.0, 2.0] if is_long else [5.0] for is_long in long],
        }

    seen: list[Any] = []

    class Watched(with_credit(GRPOTrainer, "mars_loo")):  # type: ignore[misc]
        def _compute_loss(self, model, inputs):
            seen.append(inputs["advantages"].tolist())
            return super()._compute_loss(model, inputs)

    args = one_step(tmp_path, learning_rate=1e-2)
    prompts = [[{"role": "user", "content": text}] for text in ("0", "1")]
    trainer = Watched(
        model,
        paid,
        args,
        Dataset.from_dict({"prompt": prompts}),
        rollout_func=rollout_func,
    )
    before = {n: p.detach().clone() for n, p in trainer.model.named_parameters()}
    trainer.train()
    # others of a long row: turns of 3, 2, 5 and 5; of a short one: 3, 2, 3, 2 and 5
    long, short = [3 - 15 / 4, 0.0, 2 - 15 / 4], [2.0, 0.0, 0.0]
    rows: list[list[float]] = [row for batch in seen for row in batch]  # shuffled
    assert sorted(rows) == sorted([long, short] * 2)
    changed = trainer.model.named_parameters()
    assert any((p != before[n]).any() for n, p in changed)


def test_surprise_is_that_of_the_model_that_sampled(
    model, tmp_path, monkeypatch
) -> None:
    """By a forward pass of each row alone; a token of the game in between is left out."""
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM
    from trl import GRPOTrainer

    from arena_credit.hooks.rows import StatefulEstimator
    from arena_credit.hooks.trl import with_credit

    replies = [[4, 6, 5], [5]]

    def rollout_func(prompts: Any, trainer: Any) -> dict[str, list[Any]]:
        ids = [replies[row % 2] for row in range(len(prompts))]
        return {
            "prompt_ids": [[2] for _ in ids],
            "completion_ids": ids,
            "logprobs": [[-1.0] * len(own) for own in ids],
            "env_mask": [[1, 0, 1] if len(own) == 3 else [1] for own in ids],
            "returns": [float(len(own)) for own in ids],
        }

    seen: list[Any] = []
    call = StatefulEstimator.__call__

    def watched(self: Any, rows: Any) -> Any:
        seen.append(rows)
        return call(self, rows)

    monkeypatch.setattr(StatefulEstimator, "__call__", watched)
    args = one_step(tmp_path, temperature=0.5)
    prompts = [[{"role": "user", "content": text}] for text in ("0", "1")]
    Trainer = with_credit(GRPOTrainer, "control_variates")
    data = Dataset.from_dict({"prompt": prompts})
    Trainer(model, paid, args, data, rollout_func=rollout_func).train()
    causal = AutoModelForCausalLM.from_pretrained(model)
    (rows,) = seen
    assert len(rows) == 4
    for row in rows:
        ids = replies[0] if len(row.rewards) == 2 else replies[1]
        with torch.no_grad():
            logits = causal(torch.tensor([[2, *ids]])).logits[0, :-1] / 0.5
        logps = logits.log_softmax(-1)
        entropies = -(logps.exp() * logps).sum(-1)
        sampled = [0, 2] if len(ids) == 3 else [0]
        wanted = [[logps[place, ids[place]].item()] for place in sampled]
        for got, values in (
            (row.logprobs, wanted),
            (row.entropies, [[entropies[place].item()] for place in sampled]),
        ):
            assert [pytest.approx(x, abs=1e-4) for x in values] == list(got)


def test_the_asynchronous_loop_gives_each_turn_a_row(monkeypatch) -> None:
    from trl.experimental.async_grpo import async_rollout_worker as worker

    from arena_credit.hooks.trl import credited_rows, use_async

    monkeypatch.setattr(worker.AsyncRolloutWorker, "_loop_cls", None)
    monkeypatch.setattr(worker._AsyncRolloutLoop, "__init__", lambda self: None)
    use_async("mars_loo")  # what reaches the child process makes the loop
    loop = pickle.loads(pickle.dumps(worker.AsyncRolloutWorker._loop_cls))()
    loop.reward_funcs, loop.reward_func_names = [lambda **_: [3.0, 1.0]], ["paid"]
    loop._env_reward_types, loop._provides_rollout_reward = [], False

    def row(mask: list[int]) -> Any:
        ids = list(range(len(mask)))
        return worker.TrainingSequence(ids, mask, [-1.0] * len(mask), "r")

    group = worker.RolloutGroup(
        prompts=[[], []],
        reward_kwargs={},
        completions=[[], []],
        completions_ids=[[], []],
        completions_sequences=[[row([0, 1, 0]), row([0, 1, 0, 1])], [row([0, 1])]],
        tool_call_counts=[0, 0],
        tool_failure_counts=[0, 0],
        model_version=0,
        group_id=0,
        env_rewards=[None, None],
        rollout_rewards=[None, None],
    )
    found = asyncio.run(loop._score_group(group))
    own = [(s.completion_mask.tolist(), s.advantage) for s in found]
    assert own == [([0, 1, 0], 2.0), ([0, 1, 0, 1], 2.0), ([0, 1], -2.0)]

    # turns of one row differ where an earlier turn was paid: the row becomes two
    conversations = [found[:2], found[2:]]
    found = credited_rows(lambda _: [[1.0, 1.0, 4.0], [-2.0]], conversations)
    own = [(s.completion_mask.tolist(), s.advantage) for s in found]
    assert own == [([0, 1, 0], 1.0), ([0, 1], 1.0), ([0, 0, 0, 1], 4.0), ([0, 1], -2.0)]
    assert all(len(s.input_ids) == len(s.old_log_probs) for s in found)
