"""CoMLRL trains two agents with our advantages, at the nodes of its turn tree."""

from typing import Any

import pytest

pytest.importorskip("comlrl", reason="comlrl is not installed: make adapters")
pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.slow]


def test_their_trainer_learns_from_our_advantages(model) -> None:
    import torch
    from comlrl.trainers.reinforce import MAGRPOConfig, MAGRPOTrainer
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from arena_credit.hooks.comlrl import with_credit

    seen = []

    class Watched(with_credit(MAGRPOTrainer, "rloo")):  # type: ignore[misc]
        def _compute_loss_with_gradients(
            self, agent: Any, data: Any, returns: Any
        ) -> Any:
            seen.append(
                (returns, self._compute_advantages(torch.tensor(returns)).tolist())
            )
            assert not self.args.advantage_normalization
            return super()._compute_loss_with_gradients(agent, data, returns)

    rewards = iter(range(1000))

    def reward(*completions: Any, **_: Any) -> list[float]:
        return [float(next(rewards)) ** 2 for _ in completions[0]]

    args = MAGRPOConfig(
        num_agents=2,
        num_turns=1,
        num_generations=3,
        num_train_epochs=1,
        max_new_tokens=3,
        rollout_buffer_size=1,
    )
    trainer = Watched(
        agents=[AutoModelForCausalLM.from_pretrained(model) for _ in range(2)],
        num_agents=2,
        reward_func=reward,
        formatters=[lambda item: item["prompt"]] * 2,
        args=args,
        train_dataset=Dataset.from_dict({"prompt": ["0", "1"]}),
        tokenizer=AutoTokenizer.from_pretrained(model),
    )
    before = [p.detach().clone() for p in trainer.agents[0].parameters()]
    trainer.train()
    assert len(seen) == 4  # two agents, two prompts
    for returns, advantages in seen:
        others = [(sum(returns) - x) / 2 for x in returns]
        expected = [x - o for x, o in zip(returns, others, strict=True)]
        assert advantages == pytest.approx(expected)
    after = trainer.agents[0].parameters()
    assert any((p != q).any() for p, q in zip(after, before, strict=True))
