"""Several learners on one base model: a LoRA adapter for each role of an agent, or for each seat.

- A row is scored by the adapter of its role or seat. `Forward` sorts rows by adapter, then by length.
- The loss is TRL's over the rows of all learners that the step updates, with one normaliser. Rows of
  the other learners are left out.
- An adapter whose gradient is 0 keeps its weights bit for bit: the optimizer skips it, with its
  momentum and its weight decay.
- The reference of the KL term is the base model for every learner.

Adapters are saved in folders named by role (`seat_0` for a seat), each of which `lm:PATH` plays.
"""

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, TrainerCallback

from arena_trainers.lm.adapters import lora_config
from arena_trainers.lm.policy import LMPolicy
from arena_trainers.train.metrics import Clock, TimedBackend
from arena_trainers.train.records import TrainingRow
from arena_wrappers import Policy, Reply, TurnRequest


def adapter_configs(roles: Mapping[Any, Mapping[str, Any]], base: Any) -> list[Any]:
    """The `LoraConfig` of each learner.

    Args:
        roles: the option `roles`.
        base: what a learner has unless it gives `lora_r`; None for a rank that each must give.

    Raises:
        ValueError: a learner has no rank; names it.
    """
    found = []
    for name, options in roles.items():
        rank = options.get("lora_r") or (base and base.r)
        if not rank:
            raise ValueError(
                f"roles[{name!r}] has no rank; give lora_r: 8, or --lora_r for all"
            )
        if base is None:
            found.append(lora_config(rank, None, ["all-linear"]))
        else:
            alpha = base.lora_alpha * rank / base.r
            found.append(replace(copy.deepcopy(base), r=rank, lora_alpha=alpha))
    return found


class PerRow(float):
    """A number for each row of a batch, as TRL's loss multiplies it; itself the largest.

    Args:
        numbers: float32[B].
    """

    column: torch.Tensor

    def __new__(cls, numbers: torch.Tensor) -> "PerRow":
        made = super().__new__(cls, float(numbers.max()))
        made.column = numbers[:, None]
        return made

    def __mul__(self, other: Any) -> Any:
        return self.column * other


class BySeat:
    """A policy that sends each request to the learner of its seat."""

    def __init__(self, policies: Mapping[int, LMPolicy]) -> None:
        self.policies, first = policies, next(iter(policies.values()))
        self.name, self.prompt = first.name, first.prompt

    def act(self, requests: Sequence[TurnRequest]) -> list[Reply]:
        return self._sent("act", requests)

    def action_probs(
        self, requests: Sequence[TurnRequest]
    ) -> list[tuple[list[float], float]]:
        """As `LMPolicy.action_probs`."""
        return self._sent("action_probs", requests)

    def _sent(self, method: str, requests: Sequence[TurnRequest]) -> list[Any]:
        found: dict[int, Any] = {}
        for seat in dict.fromkeys(request.seat for request in requests):
            if seat not in self.policies:
                known = ", ".join(map(str, self.policies))
                raise ValueError(f"want a learner for seat {seat}, roles has {known}")
            own = [i for i, request in enumerate(requests) if request.seat == seat]
            answer = getattr(self.policies[seat], method)
            found.update(zip(own, answer([requests[i] for i in own]), strict=True))
        return [found[i] for i in range(len(requests))]


class Learners(TrainerCallback):
    """The part of `TurnGRPOTrainer` that holds the adapters that learn.

    Args:
        trainer: TRL's trainer, after its construction with the first learner's adapter.
        configs: of the adapters, see `adapter_configs`.

    Attributes:
        keys: roles or seats.
        names: of their adapters.
        policies: who plays, by role or seat, once `play` has made them.

    Raises:
        ValueError: training in several processes.
    """

    def __init__(self, trainer: Any, configs: Sequence[Any]) -> None:
        args = trainer.args
        if trainer.accelerator.num_processes > 1:
            raise ValueError(
                "want one process with roles, got several; leave roles out"
            )
        self.trainer, self.keys = trainer, list(args.roles)
        self.names = [f"seat_{k}" if isinstance(k, int) else k for k in self.keys]
        self.model = trainer.accelerator.unwrap_model(trainer.model)
        self.policies: dict[Any, LMPolicy] = {}
        for i, (name, config) in enumerate(zip(self.names, configs, strict=True)):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(args.seed + i)
                self.model.add_adapter(name, config)
        for name, weights in self.model.named_parameters():
            if (
                ".default." in name
            ):  # the first learner begins as the one of a plain run
                own = name.replace(".default.", f".{self.names[0]}.")
                self.model.get_parameter(own).data.copy_(weights.data)
        self.model.set_adapter(self.names[0])
        self.model.delete_adapter("default")
        named = [(n, p) for n, p in self.model.named_parameters() if "lora_" in n]
        self.weights = [[p for n, p in named if f".{x}." in n] for x in self.names]
        options = args.roles.values()
        betas = [float(one.get("beta", args.beta)) for one in options]
        rates = [float(one.get("learning_rate", args.learning_rate)) for one in options]
        self.betas, self.rates = torch.tensor(betas, device=args.device), rates
        trainer.beta = max(betas)
        self.use(0)
        trainer.add_callback(self)

    def use(self, learner: int) -> None:
        """Has the model run with the adapter of a learner; all adapters stay trainable."""
        self.model.set_adapter(self.names[learner])
        for weights in self.weights:
            for p in weights:
                p.requires_grad_(True)

    def play(self, policy: LMPolicy, clock: Clock) -> Policy | Mapping[str, Policy]:
        """What plays in the learner's place: a policy by seat, or one for each role."""
        for index, key in enumerate(self.keys):
            own = self.policies[key] = copy.copy(policy)
            own.run_on(policy.model, self._context(policy, index))
            own.backend = TimedBackend(own.backend, clock)
        by_seat = isinstance(self.keys[0], int)
        return BySeat(self.policies) if by_seat else self.policies

    def _context(self, policy: LMPolicy, index: int) -> Any:
        @contextmanager
        def context() -> Iterator[PreTrainedModel]:
            with policy.context() as model:
                self.use(index)
                yield model

        return context

    def updated(self, step: int) -> list[int]:
        """The learners that the step after this many updates."""
        update, every = self.trainer.args.update, range(len(self.keys))
        if update == "joint":
            return list(every)
        if "alternate" in update:
            return [step // update["alternate"] % len(every)]
        return [i for i in every if self.keys[i] not in update["freeze"]]

    def rows_of(
        self, rows: Sequence[TrainingRow], step: int, trains: bool
    ) -> list[TrainingRow]:
        """The rows with their learners; in training without those of learners that rest.

        Raises:
            ValueError: a row of a role or seat without a learner.
        """
        for row in rows:
            by_seat = isinstance(self.keys[0], int) and row.trajectory is not None
            key = row.trajectory[1] if by_seat else row.role  # type: ignore[index] # checked
            if key == "" and len(self.keys) == 1:  # a turn of one call
                key = self.keys[0]
            if key not in self.keys:
                raise ValueError(
                    f"want a learner for {'seat' if by_seat else 'role'} {key!r}, roles has "
                    f"{', '.join(map(str, self.keys))}"
                )
            row.learner = self.keys.index(key)
        kept = self.updated(step) if trains else range(len(self.keys))
        return [row for row in rows if row.learner in kept]

    def split(self, optimizer: Any) -> None:
        """Gives each learner groups of its own in an optimizer, with its learning rate."""
        optimizer.param_groups = [
            {**group, "params": own, "lr": rate}
            for weights, rate in zip(self.weights, self.rates, strict=True)
            for group in optimizer.param_groups
            if (own := [p for p in group["params"] if any(p is w for w in weights)])
        ]

    def weigh(self, inputs: Mapping[str, Any]) -> None:
        """Gives TRL's loss the weight of the KL term of each row."""
        self.trainer.beta = PerRow(self.betas[inputs["learner"]])

    def on_pre_optimizer_step(
        self, args: Any, state: Any, control: Any, **kwargs: Any
    ) -> None:
        """Logs the gradients; an adapter without one is not moved."""
        for name, weights in zip(self.names, self.weights, strict=True):
            grads = [p.grad for p in weights if p.grad is not None]
            norm = (
                float(torch.stack([g.norm() for g in grads]).norm()) if grads else 0.0
            )
            if norm == 0:
                for p in weights:
                    p.grad = None
            self._log(name, "grad_norm", norm)

    def log_rows(self, rows: Sequence[TrainingRow]) -> None:
        """Logs tokens and advantages of each learner's rows, as they are trained."""
        for i, name in enumerate(self.names):
            own = [r for r in rows if r.learner == i and r.advantage is not None]
            sizes = [abs(float(x)) for r in own for x in r.advantage]  # type: ignore[union-attr] # checked
            if own:
                self._log(name, "reply_tokens", len(sizes) / len(own))
                self._log(name, "advantage", sum(sizes) / max(len(sizes), 1))

    def measure(
        self, logprobs: torch.Tensor, counted: torch.Tensor, inputs: Mapping[str, Any]
    ) -> None:
        """Logs the KL divergence from the reference, by learner, as TRL does for all."""
        reference = inputs.get("ref_per_token_logps")
        if reference is None:
            return
        gap = reference - logprobs.detach()
        kl = (gap.exp() - gap - 1).where(counted, 0.0)
        for i, name in enumerate(self.names):
            own = inputs["learner"] == i
            if num := int(counted[own].sum()):
                self._log(name, "kl", float(kl[own].sum()) / num)

    def _log(self, name: str, what: str, value: float) -> None:
        mode = "train" if self.trainer.model.training else "eval"
        self.trainer._metrics[mode][f"arena/learner/{name}/{what}"].append(value)

    def check(self, checkpoint: Path) -> None:
        """Raises ValueError if a checkpoint lacks a learner, or has one of another rank."""
        for name in self.names:
            file = checkpoint / name / "adapter_config.json"
            found = json.loads(file.read_text())["r"] if file.is_file() else "none"
            if found != (rank := self.model.peft_config[name].r):
                raise ValueError(
                    f"want learner {name!r} with lora_r {rank} in {str(checkpoint)!r}, got "
                    f"{found}; resume with the roles of that run"
                )
