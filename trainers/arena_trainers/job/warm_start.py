"""Supervised start on legal play, so that self-play begins with replies that parse."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence

from arena_envs.game import AnyGame
from arena_trainers.lm.policy import LMPolicy
from arena_wrappers import BotPolicy, Episode, EpisodePlan, play_plans
from arena_wrappers.play import EnvFn


class FixedRandomBot:
    """Plays legal actions with probabilities fixed at random per information state.

    Half uniform, half drawn from the simplex: play that differs between information
    states teaches a model to read its prompt, and says nothing about good play.

    Args:
        seed: of the probabilities.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __call__(self, game: AnyGame, state: Any, rng: random.Random) -> Any:
        seat, legal = game.current_player(state), game.legal_actions(state)
        own = random.Random(
            f"{self.seed} {seat} {game.information_state(state, seat)!r}"
        )
        weights = [own.expovariate(1.0) for _ in legal]
        total = sum(weights)
        chances = [0.5 / len(legal) + 0.5 * w / total for w in weights]
        return rng.choices(legal, chances)[0]


def legal_play(env_fns: Sequence[EnvFn], num_episodes: int, seed: int) -> list[Episode]:
    """Episodes of `FixedRandomBot`, spread evenly over the environments."""
    policy = BotPolicy(FixedRandomBot(seed), name="fixed_random")
    num_players = [len(env_fn().possible_agents) for env_fn in env_fns]
    plans = [
        EpisodePlan(
            env_fns[i % len(env_fns)],
            [policy] * num_players[i % len(env_fns)],
            seed * num_episodes + i,
        )
        for i in range(num_episodes)
    ]
    return play_plans(plans, batch_size=256, on_error="raise")


def warm_start(
    policy: LMPolicy,
    episodes: Sequence[Episode],
    *,
    num_steps: int,
    learning_rate: float,
    batch_size: int = 256,
    seed: int = 0,
    on_step: Callable[[int, float], None] = lambda step, loss: None,
) -> list[float]:
    """Trains the policy's model to say the replies of `episodes` to their prompts.

    Args:
        policy: whose model is trained.
        episodes: what is imitated; every turn counts alike.
        num_steps: optimizer steps (AdamW, linear decay to 0).
        learning_rate: at the start.
        batch_size: turns per step.
        seed: of the order of the turns.
        on_step: called after each step with its number, from 1, and its loss.

    Returns:
        The loss of each step, in nats per token.
    """
    tokenizer, model = policy.tokenizer, policy.model
    examples = []
    for turn in (turn for episode in episodes for turn in episode.turns):
        prompt = policy.encode(turn.messages)
        reply = tokenizer.encode(turn.reply, add_special_tokens=False)
        examples.append((prompt, [*reply, policy.eos_ids[0]]))
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
    schedule = torch.optim.lr_scheduler.LinearLR(
        optimizer, 1.0, 0.0, total_iters=num_steps
    )
    rng = random.Random(seed)
    losses = []
    training = model.training
    model.train()
    for _ in range(num_steps):
        batch = rng.choices(examples, k=batch_size)
        loss = _imitation_loss(policy, batch)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(float(loss.detach()))
        on_step(len(losses), losses[-1])
    model.train(training)
    return losses


def _imitation_loss(
    policy: LMPolicy, batch: Sequence[tuple[list[int], list[int]]]
) -> torch.Tensor:
    device = policy.model.device
    ids = [torch.tensor(prompt + reply) for prompt, reply in batch]
    labels = [torch.tensor([-100] * len(prompt) + reply) for prompt, reply in batch]
    input_ids = pad_sequence(ids, batch_first=True, padding_value=policy.pad_id)
    target = pad_sequence(labels, batch_first=True, padding_value=-100)
    # padding is on the right, where a causal model cannot see it
    logits = policy.model(input_ids=input_ids.to(device)).logits
    return cross_entropy(
        logits[:, :-1].flatten(0, 1).float(), target[:, 1:].flatten().to(device)
    )
