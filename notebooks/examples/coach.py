"""A coach that is annealed: hints in the prompts of training, fewer and fewer, and none in the end.

After LLM-mediated guidance of multi-agent learning (https://arxiv.org/abs/2503.13553), where interventions
early in training help most. The coach is a solver, whose move stands in a share of the prompts; the share
falls from 1 to 0 in the first half. Credit and loss are those of any run, and evaluation has no coach. In
the paper a language model or rules steer the agents' tasks.

    python notebooks/examples/coach.py
"""

import random
from dataclasses import replace
from tempfile import TemporaryDirectory

from transformers import TrainerCallback

from arena_envs import make_game
from arena_eval import exploitability
from arena_trainers import TurnGRPOConfig, TurnGRPOTrainer
from arena_trainers.runs import tiny_model, tiny_tokenizer, words_of
from arena_wrappers import PromptOptions, make_policy
from arena_wrappers.policies import add_instruction

HINT = "The coach says:"


class Coach(TrainerCallback):
    """The policy that plays in training: the model, with a hint in a share of its prompts."""

    name, prompt = "coached", None

    def __init__(self, solver):
        self.solver, self.share, self.model = make_policy(solver), 1.0, None

    def on_step_begin(self, args, state, control, **_):
        self.share = max(0.0, 1 - 2 * state.global_step / args.max_steps)

    def act(self, requests):
        hinted = []
        for request, hint in zip(requests, self.solver.act(requests), strict=True):
            if random.Random(request.seed).random() < self.share:
                prompt = add_instruction(f"{HINT} {hint.text}", request.messages)
                request = replace(request, messages=prompt)
            hinted.append(request)
        return self.model.act(hinted)


def train(folder, num_steps=60):
    """The trainer, and the exact NashConv of the model without a coach, before and after."""
    game, short = make_game("kuhn_poker"), PromptOptions("bare", rules=False)
    tokenizer = tiny_tokenizer([*words_of(game, short), HINT])
    args = TurnGRPOConfig(
        output_dir=folder, games=["kuhn_poker"], rules=False, reply_format="bare",
        max_completion_length=2, max_steps=num_steps, episodes_per_step=64, penalty=1.0,
        learning_rate=1e-2, use_cpu=True, bf16=False, report_to="none", save_strategy="no",
        gradient_checkpointing=False, disable_tqdm=True, logging_steps=1000,
    )  # fmt: skip
    model, coach = tiny_model(tokenizer, hidden_size=16, num_layers=1), Coach("cfr")

    def coached(learner):
        coach.model, coach.prompt = learner, learner.prompt
        return coach

    trainer = TurnGRPOTrainer(model, args, processing_class=tokenizer, agent=coached)
    trainer.add_callback(coach)
    before = exploitability(trainer.policy, game, short).nash_conv
    trainer.train()
    return trainer, before, exploitability(trainer.policy, game, short).nash_conv


if __name__ == "__main__":
    with TemporaryDirectory() as place:
        print("NashConv without the coach, before and after:", *train(place)[1:])
