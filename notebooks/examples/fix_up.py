"""A fix-up phase: after each update, steps on the KL divergence alone until no row is beyond a bound.

After FixPO (https://arxiv.org/abs/2312.05405). The trust region then holds after every update, for a few more
gradient steps, where a KL term in the loss alone only damps. The divergence KL(old || new) is that of the
whole vocabulary at each token of a reply, exactly. FixPO also adapts the weight of its KL term; here it is fixed.

    python notebooks/examples/fix_up.py
"""

from tempfile import TemporaryDirectory

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import TrainerCallback

from arena_envs import make_game
from arena_trainers import TurnGRPOConfig, TurnGRPOTrainer
from arena_trainers.runs import tiny_model, tiny_tokenizer, words_of
from arena_wrappers import PromptOptions


class FixUp(TrainerCallback):
    """Steps on the KL divergence until that of each token is at most `bound`."""

    def __init__(self, bound, most=50):
        self.bound, self.most, self.trainer = bound, most, None
        self.reached, self.num_steps = [], 0

    def on_pre_optimizer_step(self, args, state, control, model, **_):
        turns = [t for episode in self.trainer.last_episodes for t in episode.turns]
        rows = sorted({(tuple(t.prompt_ids), tuple(t.token_ids)) for t in turns})
        self.ids = [torch.tensor([*prompt, *reply]) for prompt, reply in rows]
        self.places = [range(len(p) - 1, len(p) + len(r) - 1) for p, r in rows]
        with torch.no_grad():
            self.old = self.logps(model)

    def on_step_end(self, args, state, control, model, optimizer, **_):
        for step in range(self.most + 1):
            new = self.logps(model)
            divergence = (self.old.exp() * (self.old - new)).sum(-1)
            beyond = divergence[divergence > self.bound]
            if not len(beyond) or step == self.most:
                break
            optimizer.zero_grad()
            beyond.mean().backward()
            optimizer.step()
            self.num_steps += 1
        optimizer.zero_grad()
        self.reached.append(divergence.detach().max().item())

    def logps(self, model):
        """float[tokens of replies, vocabulary]; rows are padded behind, which no token reads."""
        ids = pad_sequence(self.ids, batch_first=True)
        logps = model(input_ids=ids).logits.log_softmax(-1)
        pairs = zip(logps, self.places, strict=True)
        return torch.cat([row[list(places)] for row, places in pairs])


def train(folder, bound=0.05, num_steps=20):
    """The largest divergence after each update, and the number of further steps."""
    tokenizer = tiny_tokenizer(
        words_of(make_game("kuhn_poker"), PromptOptions("bare", rules=False))
    )
    args = TurnGRPOConfig(
        output_dir=folder, games=["kuhn_poker"], rules=False, reply_format="bare",
        max_completion_length=2, max_steps=num_steps, episodes_per_step=64, penalty=1.0,
        learning_rate=1e-2, use_cpu=True, bf16=False, report_to="none", save_strategy="no",
        gradient_checkpointing=False, disable_tqdm=True, logging_steps=1000,
    )  # fmt: skip
    model, fix_up = tiny_model(tokenizer, hidden_size=16, num_layers=1), FixUp(bound)
    fix_up.trainer = TurnGRPOTrainer(
        model, args, processing_class=tokenizer, callbacks=[fix_up]
    )
    fix_up.trainer.train()
    return fix_up.reached, fix_up.num_steps


if __name__ == "__main__":
    with TemporaryDirectory() as place:
        reached, num_steps = train(place)
        print(f"largest divergence {max(reached):.3f}, {num_steps} further steps")
