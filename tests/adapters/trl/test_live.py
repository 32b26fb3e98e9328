"""TRL's own trainer plays: rollouts that it learns from, and tools that it calls."""

import os
import random
import runpy
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),
    pytest.mark.skipif(
        find_spec("trl") is None, reason="trl is missing: make adapters"
    ),
]
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import arena_envs

HERE = Path(__file__)
SMALL = {
    "use_cpu": True,
    "bf16": False,
    "save_strategy": "no",
    "disable_tqdm": True,
    "gradient_checkpointing": False,
}


# Imports stand in functions: collecting this file for the fast suite imports neither.


@pytest.fixture(scope="module")
def example():
    return runpy.run_path(str(HERE.with_name("example.py")))


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    """The folder of a model that replies legally."""
    import torch

    from arena_trainers.data import legal_play
    from arena_trainers.lm import LMPolicy
    from arena_trainers.offline.warm_start import warm_start
    from arena_trainers.runs import tiny_model, tiny_tokenizer, words_of
    from arena_wrappers import PromptOptions, PromptWrapper

    torch.set_num_threads(1)
    options = PromptOptions(history="transcript")
    tokenizer = tiny_tokenizer(words_of(arena_envs.make_game("kuhn_poker"), options))
    policy = LMPolicy(tiny_model(tokenizer), tokenizer)
    env = PromptWrapper(arena_envs.make("kuhn_poker"), history="transcript")
    examples = legal_play([env.clone], 400, seed=0)
    warm_start(policy, examples, num_steps=100, learning_rate=3e-3)
    folder = tmp_path_factory.mktemp("model")
    policy.save_pretrained(folder)
    return str(folder)


def test_it_learns_kuhn_poker(example, model, tmp_path, record_property) -> None:
    size = {"max_steps": 25, "per_device_train_batch_size": 64, "logging_steps": 5}
    trainer = example["main"](model, str(tmp_path), learning_rate=2e-3, **size, **SMALL)
    trainer.train()
    rewards = [log["reward"] for log in trainer.state.log_history if "reward" in log]
    told = f"return against random {rewards[0]:.2f} -> {rewards[-1]:.2f}"
    record_property("learned", told)
    assert rewards[-1] > rewards[0] + 0.1


def test_the_trainer_learns_from_the_credit_of_turns(model, tmp_path) -> None:
    """`mars_loo` with pools of groups, computed again from the rewards of the turns."""
    from functools import partial

    from trl import GRPOConfig, GRPOTrainer

    from arena_credit.hooks.trl import with_credit
    from arena_trainers.lm import learner_of
    from arena_wrappers.adapters.trl import episode_return, rollout_func, starts

    seen = []

    class Watched(with_credit(GRPOTrainer, "mars_loo", pool=("group", "seat"))):  # type: ignore[misc]
        def _generate_and_score_completions(self, inputs):
            scored = super()._generate_and_score_completions(inputs)
            seen.append((self._turn_rewards, list(self._logs["advantages"])))
            return scored

    size = {"max_steps": 2, "per_device_train_batch_size": 16, "num_generations": 8}
    args = GRPOConfig(str(tmp_path), report_to="none", **size, **SMALL)
    play = rollout_func("kuhn_poker", partial(learner_of, max_new_tokens=16))
    Watched(model, episode_return, args, starts(range(20)), rollout_func=play).train()
    assert len(seen) == 2
    for paid, means in seen:
        assert {len(rewards) for rewards in paid} == {1, 2}
        for start in (0, 8):
            to_go = [
                [sum(r[k:]) for k in range(len(r))] for r in paid[start : start + 8]
            ]
            for row, own in enumerate(to_go):
                others = [x for k, r in enumerate(to_go) if k != row for x in r]
                expected = sum(own) / len(own) - sum(others) / len(others)
                assert means[start + row] == pytest.approx(expected, abs=1e-5)


def test_log_probabilities_are_those_of_the_tokens(example, model, tmp_path) -> None:
    import torch

    from arena_wrappers.adapters.trl import starts

    trainer = example["main"](model, str(tmp_path), temperature=0.7, **SMALL)
    rows = trainer.rollout_func(starts(range(20))["prompt"], trainer)
    assert any(len(set(mask)) == 2 for mask in rows["env_mask"])
    for prompt, said, mask, logprobs in zip(
        *(rows[n] for n in ("prompt_ids", "completion_ids", "env_mask", "logprobs")),
        strict=True,
    ):
        with torch.no_grad():
            logits = trainer.model(torch.tensor([prompt + said])).logits[0] / 0.7
        scores = logits.log_softmax(-1)[len(prompt) - 1 : -1]
        wanted = scores[torch.arange(len(said)), torch.tensor(said)]
        ours = torch.tensor(mask).bool()
        torch.testing.assert_close(torch.tensor(logprobs)[ours], wanted[ours])


def test_vllm_is_refused() -> None:
    from arena_trainers.lm import learner_of

    trainer = SimpleNamespace(args=SimpleNamespace(use_vllm=True))
    with pytest.raises(ValueError, match="set use_vllm=False"):
        learner_of(trainer)


CALL = '<tool_call>\n{"name": "act", "arguments": {"action": "%s"}}\n</tool_call>'


def byte_tokenizer():
    """Tokens for tool calls, with Qwen3's chat template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast
    from trl.chat_template_utils import qwen3_chat_template

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    rules = arena_envs.make_game("kuhn_poker").rules(0)
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    core.train_from_iterator(
        [qwen3_chat_template, rules, CALL] * 50,
        trainers.BpeTrainer(
            vocab_size=900,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            special_tokens=special,
            show_progress=False,
        ),
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=qwen3_chat_template,
        padding_side="left",
        model_max_length=2048,
    )


def test_it_calls_the_tool_of_a_seat(tmp_path) -> None:
    import torch
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    from arena_trainers.runs import tiny_model
    from arena_wrappers.adapters.trl import seat_tools

    tokenizer = byte_tokenizer()
    asked = [{"role": "user", "content": "Play by calling the tool act."}]
    trainer = GRPOTrainer(
        tiny_model(tokenizer),
        train_dataset=Dataset.from_list([{"prompt": asked, "seed": 7}] * 4),
        processing_class=tokenizer,
        environment_factory=seat_tools("kuhn_poker", opponents="random"),
        args=GRPOConfig(
            str(tmp_path),
            max_steps=1,
            num_generations=8,
            per_device_train_batch_size=8,
            max_completion_length=900,
            report_to="none",
            **SMALL,
        ),
    )
    rng, prompts = random.Random(0), []

    def says(input_ids, **_):
        """A model that calls the tool until the game is over."""
        rows = []
        for ids in input_ids:
            text = tokenizer.decode(ids)
            prompts.append(text)
            call = CALL % rng.choice(["bet", "pass", "fold"])
            said = "I am done." if "The game is over" in text else call
            rows.append([*tokenizer.encode(said), tokenizer.eos_token_id])
        width = max(map(len, rows))
        pad = [tokenizer.pad_token_id]
        padded = [row + pad * (width - len(row)) for row in rows]
        return torch.cat([input_ids, torch.tensor(padded)], dim=1)

    trainer.model.generate = says
    trainer.train()
    assert "Legal actions: pass, bet." in prompts[0]
    assert any("fold" in text and "legal" in text for text in prompts)  # a tool's error
    (log,) = [log for log in trainer.state.log_history if "reward" in log]
    assert log["tools/call_frequency"] >= 1
    assert 0 < log["tools/failure_frequency"] < 1
    assert log["rewards/SeatTools/mean"] == log["reward"]
    assert log["reward_std"] > 0  # the members of the group met other opponents
