"""Ten turns of a seat with replies of 4,096 tokens: a step at true lengths, in bounded memory, as planned."""

import random
import re
import threading
import time

import psutil
import pytest
import torch

import arena_envs
from arena_trainers import TurnGRPOConfig, TurnGRPOTrainer
from arena_trainers.lm import LMPolicy
from arena_trainers.lm.backends import Generated
from arena_trainers.runs import tiny_model, tiny_tokenizer, words_of
from arena_trainers.runs.checks.dry_run import plan_lines
from arena_wrappers import PromptOptions
from arena_wrappers.records import Episode

GAME, TURNS, REPLY = "iterated_prisoners_dilemma", 10, 4096
CONTEXT = 2 * TURNS * REPLY
SHORT = PromptOptions("bare", rules=False)
SETTINGS = {
    "games": [GAME],
    "opponents": ["self", "random"],
    "rules": False,
    "reply_format": "bare",
    "on_invalid": "random",
    "history": "transcript",
    "layout": "trajectory",
    "max_completion_length": REPLY,
    "episodes_per_step": 2,
    "num_generations": 2,
    "max_tokens_per_forward": 8192,
    "max_steps": 1,
    "logging_steps": 1,
    "learning_rate": 1e-2,
    "bf16": False,
    "use_cpu": True,
}
OTHERS = {"gradient_checkpointing": False, "report_to": "none", "save_strategy": "no"}


class LongReplies:
    """Replies of the greatest length, of random words."""

    runs_model = False

    def __init__(self, num_words):
        self.num_words = num_words

    def generate(self, prompt_ids, seeds, sampling):
        replies = []
        for seed in seeds:
            rng = random.Random(seed)
            words = [rng.randrange(6, self.num_words) for _ in range(REPLY - 1)]
            replies.append([*words, sampling.end_ids[0]])
        logprobs = [[-3.0] * REPLY for _ in replies]
        return Generated(replies, logprobs, [[1.0] * REPLY for _ in replies])


class Peak:
    """The most bytes by which this process grows in the context."""

    def __enter__(self):
        self.process, self.ended = psutil.Process(), threading.Event()
        self.before, self.size = self.process.memory_info().rss, 0
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def watch(self):
        while not self.ended.is_set():
            grown = self.process.memory_info().rss - self.before
            self.size = max(self.size, grown)
            time.sleep(0.01)

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:sampled and trained log-probabilities differ")
def test_a_step_of_conversations_of_forty_thousand_tokens(tmp_path):
    tokenizer = tiny_tokenizer(words_of(arena_envs.make_game(GAME), SHORT))
    model = tiny_model(tokenizer, hidden_size=16, num_layers=1, seed=1)
    model.config.max_position_embeddings = CONTEXT
    LMPolicy(model, tokenizer, prompt=SHORT).save_pretrained(tmp_path / "model")
    plan, _ = plan_lines(
        SETTINGS | {"model": str(tmp_path / "model")}, tmp_path / "run"
    )
    longest = int(re.search(r"^rows .* (\d+) at", "\n".join(plan), re.M)[1])

    args = TurnGRPOConfig(**SETTINGS, **OTHERS, output_dir=str(tmp_path / "out"))
    trainer = TurnGRPOTrainer(str(tmp_path / "model"), args)
    trainer.policy.backend = LongReplies(len(tokenizer))
    with Peak() as peak:
        trainer.train()

    episodes = trainer.last_episodes
    assert [len(e.turns) for e in episodes] == [2 * TURNS] * 2
    again = Episode.from_json(episodes[0].to_json())
    said = [turn for turn in again.turns if turn.seat == 0]
    assert [len(turn.token_ids) for turn in said] == [REPLY] * TURNS
    lengths = [len(r.prompt_ids) + len(r.completion_ids) for r in trainer._rows]
    assert TURNS * REPLY < max(lengths) <= longest < 1.1 * max(lengths)
    assert [sum(row.loss_mask) for row in trainer._rows] == [TURNS * REPLY] * 2
    dense = max(lengths) ** 2  # bytes of a mask
    assert peak.size < dense, peak.size / 2**30
    assert torch.isfinite(torch.tensor(trainer.state.log_history[0]["grad_norm"]))
