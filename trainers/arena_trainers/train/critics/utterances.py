"""`UtteranceCritic`: Q and V of replies, learned from hidden states and a replay buffer."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from arena_credit import TurnBatch, trajectories
from arena_trainers.lm.backends.forward_pass import positions, reads_padding
from arena_trainers.lm.backends.memory import chunks_by_length
from arena_trainers.lm.backends.padding import left_padded
from arena_trainers.lm.reward_model import PromptAndReply
from arena_trainers.train.critics.networks import check_loss, value_networks
from arena_trainers.train.critics.registry import OptionLimits, check_limits
from arena_trainers.train.critics.texts import read_texts
from arena_trainers.train.parts import CriticLoop
from arena_trainers.train.records import TurnRecord


class UtteranceCritic:
    """Q and V of whole replies, fitted to turns of earlier batches, too; the critic of ArCHer.

    s is the last hidden state of a prompt in the model before training, which rests, and u that after the
    reply. There are two networks of each kind. They minimise

        (Q(u) - r - γ V'(s'))² + (V(s) - Q'(u))²

    over turns that are drawn from the replay buffer. Q' and V' are target networks, θ' ← (1 - τ) θ' + τ θ
    after each step; s' is the prompt of the seat's next turn, and V' = 0 where the game ended. The
    values of a batch are the smaller of both networks, before they are fitted to it; 0 in the first batch.

    Args:
        trainer: TRL's trainer before training; its model is copied.
        discount: γ, per turn of the same seat.
        seed: of initial weights and of draws.
        hidden_size: width of the two hidden layers.
        learning_rate: learning rate of Adam.
        num_steps: steps of Adam per batch.
        batch_size: turns of a step.
        replay: turns of the replay buffer; the oldest go first. Checkpoints hold them.
        polyak: τ.

    Raises:
        ValueError: a number out of range.
    """

    supplies = ("value", "next_value", "action_value")
    limits: ClassVar[OptionLimits] = {
        "hidden_size": (1, 10_000_000),
        "learning_rate": (0.0, None),
        "num_steps": (1, 10_000_000),
        "batch_size": (1, 10_000_000),
        "replay": (1, 10_000_000),
        "polyak": (0.0, 1.0),
    }
    one_process = True  # it has not been tested with several

    def __init__(
        self,
        trainer: CriticLoop,
        discount: float = 1.0,
        seed: int = 0,
        *,
        hidden_size: int = 256,
        learning_rate: float = 1e-4,
        num_steps: int = 50,
        batch_size: int = 256,
        replay: int = 10_000,
        polyak: float = 0.1,
    ) -> None:
        check_limits(
            self.limits,
            hidden_size=hidden_size,
            learning_rate=learning_rate,
            num_steps=num_steps,
            batch_size=batch_size,
            replay=replay,
            polyak=polyak,
        )
        self.trainer, self.discount, self.polyak = trainer, discount, polyak
        self.num_steps, self.batch_size, self.replay = num_steps, batch_size, replay
        model = trainer.accelerator.unwrap_model(trainer.model)
        causal = model.get_base_model() if hasattr(model, "peft_config") else model
        body = copy.deepcopy(causal.base_model)  # its forward is that of transformers
        self.encoder = body.eval().requires_grad_(False)
        self.size: int = model.config.get_text_config().hidden_size
        networks = value_networks([self.size] * 4, hidden_size, seed).float()
        self.networks = networks.to(trainer.args.device)
        self.targets = copy.deepcopy(self.networks).requires_grad_(False)
        self.optimizer = torch.optim.Adam(self.networks.parameters(), learning_rate)
        self.rng = torch.Generator().manual_seed(seed)
        self.seen: list[torch.Tensor] = []  # s, u, s', r, and γ where there is an s'
        self._latest = torch.zeros(0)

    @torch.no_grad()
    def with_values(self, batch: TurnBatch, records: Sequence[TurnRecord]) -> TurnBatch:
        """The batch with the columns `value`, `action_value` and `next_value`."""
        texts, truncated_rows = read_texts(self.trainer, records)
        self._latest = states = self._encoded(texts)
        num = len(records)
        q, v = self._values(self.networks, states[:, 1], states[:, 0])
        turn_values, state_values = (x.amin(0).double().cpu().numpy() for x in (q, v))
        next_value = np.full(num, np.nan)  # read only at truncation
        next_value[truncated_rows] = state_values[num:]
        with_state_values = replace(
            batch, value=state_values[:num], next_value=next_value
        )
        return replace(with_state_values, action_value=turn_values[:num])

    def _encoded(self, texts: Sequence[PromptAndReply]) -> torch.Tensor:
        """float32[N, 2, H]: the last hidden state of each prompt, and of it with its reply."""
        device, most = self.trainer.args.device, self.trainer.forward.max_tokens
        states = torch.zeros(len(texts), 2, self.size, device=device)
        sizes = [len(prompt) + len(reply) for prompt, reply in texts]
        reads_pads = reads_padding(self.trainer.policy.model)
        chunks = chunks_by_length(sizes, [0] * len(sizes), most, reads_pads)
        for chunk in chunks if texts else ():
            rows = [[*texts[i][0], *texts[i][1]] for i in chunk]
            ids, mask = left_padded(rows, 0, device)
            places_of = positions(self.encoder, mask)
            output = self.encoder(input_ids=ids, attention_mask=mask, **places_of)
            for i, hidden in zip(chunk, output.last_hidden_state.float(), strict=True):
                states[i] = hidden[[-1 - len(texts[i][1]), -1]]
        return states

    @staticmethod
    def _values(
        networks: nn.ModuleList, pairs: torch.Tensor, states: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Q and V of both networks, float32[2, N]."""
        q, v = (
            torch.stack([network(x)[:, 0] for network in two])
            for two, x in ((networks[:2], pairs), (networks[2:], states))
        )
        return q, v

    def after(
        self, batch: TurnBatch, records: Sequence[TurnRecord], trains: bool
    ) -> dict[str, float]:
        if not trains or not len(records):
            return {}
        new = self._transitions(batch)
        old = self.seen or [x[:0] for x in new]
        self.seen = [
            torch.cat(both)[-self.replay :] for both in zip(old, new, strict=True)
        ]
        losses = [self._step() for _ in range(self.num_steps)]
        return {"arena/critic_error": losses[0]}

    def _transitions(self, batch: TurnBatch) -> list[torch.Tensor]:
        """The turns of a batch as the replay buffer holds them."""
        num, states, live = len(batch.reward), self._latest, trajectories(batch)
        following = np.full(num, -1)
        goes_on = np.flatnonzero(live.left > 0)
        following[live.row[goes_on]] = live.row[goes_on + 1]
        if batch.truncated is not None:
            cut = np.flatnonzero(batch.truncated)
            following[cut] = num + np.arange(len(cut))
        factor = torch.from_numpy(np.where(following < 0, 0.0, self.discount)).float()
        reward = torch.from_numpy(batch.reward).float()
        after = states[torch.from_numpy(following.clip(0)), 0]
        device = states.device
        return [
            states[:num, 0],
            states[:num, 1],
            after,
            reward.to(device),
            factor.to(device),
        ]

    def _step(self) -> float:
        """One step on turns that are drawn from the buffer; returns the mean loss of a network."""
        size = (self.batch_size,)
        sample = torch.randint(len(self.seen[0]), size, generator=self.rng)
        states, pairs, next_states, reward, factor = (x[sample] for x in self.seen)
        with torch.no_grad():
            target_q, _ = self._values(self.targets, pairs, states)
            _, next_values = self._values(self.targets, pairs, next_states)
        q, v = self._values(self.networks, pairs, states)
        loss = (
            ((q - reward - factor * next_values) ** 2 + (v - target_q) ** 2)
            .mean(1)
            .sum()
        )
        check_loss(loss)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        weights = self.networks.parameters(), self.targets.parameters()
        for weight, target_weight in zip(*weights, strict=True):
            target_weight.data.lerp_(weight.data, self.polyak)
        return float(loss.detach()) / 4

    def state_dict(self) -> dict[str, Any]:
        parts = (self.networks, self.targets, self.optimizer)
        part_states = [part.state_dict() for part in parts]
        return {"parts": part_states, "seen": self.seen, "rng": self.rng.get_state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        parts: Any = (self.networks, self.targets, self.optimizer)
        for part, part_state in zip(parts, state["parts"], strict=True):
            part.load_state_dict(part_state)
        self.seen = [x.to(self.trainer.args.device) for x in state["seen"]]
        self.rng.set_state(state["rng"].cpu())
