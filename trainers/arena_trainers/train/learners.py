"""`Learners`: several learners, an adapter or a whole model for each role or seat.

- A row is scored by the adapter of its role or seat. The loss is TRL's over the rows of all learners that the step
  updates, with one normaliser; rows of the others are left out.
- An adapter whose gradient is 0 keeps its weights bit for bit: the optimizer skips it, with its momentum and decay.
- The reference of the KL term is the base model; of a whole model, its weights at the start.
- With `update: sequential` the `num_iterations` passes over a generation batch are shared among the learners, in the
  order of `roles`. The advantage of a call is multiplied by HAPPO's factor (https://arxiv.org/abs/2109.11251),
  ∏ π_new / π_old over the trained calls of earlier learners since the learner's last call in the episode, at most e²⁰.
- Learners are saved in folders named by role (`seat_0` for a seat), each of which `lm:PATH` plays.
"""

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import DistributedType
from transformers import (
    PreTrainedModel,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from arena_trainers.lm.models import model_folder
from arena_trainers.lm.policy import LMPolicy
from arena_trainers.train.clock import Clock, TimedBackend
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.parts import LearnerLoop
from arena_trainers.train.rows import TrainingRow
from arena_trainers.train.score.tensors import prompts_with_replies
from arena_wrappers import AgentPolicy, Policy
from arena_wrappers.policies.agents import by_seat


def learner_starts(args: TurnGRPOConfig, model: Any) -> list[Any]:
    """What learners begin as: the run's model, or the folder of a role's own."""
    names = args.learner_starts(None)
    return [model if name is None else str(model_folder(name)) for name in names]


class KLTerm:
    """The weight of the KL term of each of B rows, where TRL's loss has one number, `beta`.

    TRL compares it with 0.0, and multiplies it with the KL divergence of tokens.
    """

    def __init__(self, weights: torch.Tensor) -> None:
        self.weights = weights[:, None]  # [B, 1]

    def __mul__(self, kl: torch.Tensor) -> torch.Tensor:
        return self.weights * kl

    __rmul__ = __mul__

    def __eq__(self, number: object) -> bool:
        return isinstance(number, float | int) and bool(self.weights.eq(number).all())

    __hash__ = None  # type: ignore[assignment] # it is no key


class Learners(TrainerCallback):
    """The part of `TurnGRPOTrainer` that holds the adapters that learn.

    Args:
        trainer: TRL's trainer, after its construction with the first learner's adapter.
        source: what the learners begin as: configurations of adapters, or a model.

    Attributes:
        names: of the learners: roles, or `seat_0`.
        weights: of each learner.
        beta: the largest weight of a KL term.
    """

    def __init__(self, trainer: LearnerLoop, source: Any) -> None:
        args = trainer.args
        self.trainer, self.update = trainer, args.update
        self.names = args.learner_names
        self.model = trainer.accelerator.unwrap_model(trainer.model)
        if trainer.is_deepspeed_enabled or trainer.is_fsdp_enabled:
            raise ValueError(
                "want roles without FSDP and DeepSpeed, with which they have not been "
                "tested; start the processes with torchrun alone, or leave roles out"
            )
        # vLLM leaves a group of one process, in which a later trainer is wrapped in DDP
        self.is_alone = trainer.accelerator.distributed_type == DistributedType.NO
        ddp_handler: Any = trainer.accelerator.ddp_handler
        ddp_handler.find_unused_parameters = False  # see `anchored`
        roles = args.roles.values()
        self.rates = [
            options.get("learning_rate", args.learning_rate) for options in roles
        ]
        betas = [float(options.get("beta", args.beta)) for options in roles]
        self.betas, self.beta = torch.tensor(betas, device=args.device), max(betas)
        self.weights: list[list[Any]] = []
        self._make(source)
        self.use(0)
        trainer.add_callback(self)

    def _make(self, source: Any) -> None:
        """Makes the adapters of the configurations, see `adapter_configs`."""
        for i, (name, config) in enumerate(zip(self.names, source, strict=True)):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(self.trainer.args.seed + i)
                self.model.add_adapter(name, config)
        for name, weights in self.model.named_parameters():
            if ".default." in name:  # the first begins as that of a plain run
                first = name.replace(".default.", f".{self.names[0]}.")
                self.model.get_parameter(first).data.copy_(weights.data)
        self.model.set_adapter(self.names[0])
        self.model.delete_adapter("default")
        self.weights = [
            [
                weight
                for path, weight in self.model.named_parameters()
                if "lora_" in path and f".{name}." in path
            ]
            for name in self.names
        ]

    def use(self, learner: int, model: Any = None) -> Any:
        """The model with the adapter of a learner; all adapters stay trainable."""
        self.model.set_adapter(self.names[learner])
        for weight in chain(*self.weights):
            weight.requires_grad_(True)
        return model

    def player(self, policy: LMPolicy, clock: Clock, agent: Any) -> Policy:
        """What plays: the agent with a policy for each learner."""
        policies: dict[str, Policy] = {}
        engine: Any = policy.backend
        for index, name in enumerate(self.names):
            policies[name] = learner_policy = copy.copy(policy)
            learner_policy.run_on(policy.model, partial(self._adapted, policy, index))
            if self.trainer.args.use_vllm:
                learner_policy.backend = engine.of_learner(name)
            learner_policy.backend = TimedBackend(learner_policy.backend, clock)
        if agent is None and type(next(iter(self.trainer.args.roles))) is not int:
            raise ValueError(
                "roles by name need agent, such as planner_worker; give it"
            )
        player: Policy = (
            agent(policies) if agent else AgentPolicy(by_seat, policies, "self")
        )
        return player

    @contextmanager
    def _adapted(self, policy: LMPolicy, learner: int) -> Iterator[PreTrainedModel]:
        with policy.context() as model:
            yield self.use(learner, model)

    def updated(self, step: int) -> list[int]:
        """The learners that the step after this many updates."""
        every = range(len(self.names))
        if self.update in ("joint", "sequential"):
            return list(every)
        if "alternate" in self.update:
            return [step // self.update["alternate"] % len(every)]
        keys = list(self.trainer.args.roles)
        return [i for i in every if keys[i] not in self.update["freeze"]]

    def rows_of(
        self, rows: Sequence[TrainingRow], step: int, trains: bool
    ) -> list[TrainingRow]:
        """The rows with their learners; in training without those of learners that rest.

        Raises:
            ValueError: a row of a role or seat without a learner.
        """
        for row in rows:
            _, seat = row.trajectory or (0, 0)
            role = row.role or f"seat_{seat}"
            if role in self.names:
                row.learner = self.names.index(role)
            elif len(self.names) == 1:  # also of turns of one call
                row.learner = 0
            else:
                raise ValueError(f"want a learner for {role!r}, roles has {self.names}")
        updated = self.updated(step) if trains else range(len(self.names))
        return [row for row in rows if row.learner in updated]

    def keep(self, batch: dict[str, Any], rows: Sequence[TrainingRow]) -> None:
        """Adds the index of each row to a batch of `sequential`, which `for_current` reads."""
        batch["arena_row"] = torch.arange(len(rows), device=batch["learner"].device)
        self.batch, self.rows, self.num_over = dict(batch), rows, 0
        self.gaps = torch.zeros(len(rows), device=batch["learner"].device)
        self.factors = torch.ones_like(self.gaps)

    def for_current(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """The inputs with a loss of the rows of the learner alone whose update it is."""
        trainer = self.trainer
        passes = (trainer.args.steps_per_generation or 1) * trainer.num_iterations
        current = trainer.micro_step % passes * len(self.names) // passes
        while self.num_over < current:
            self._measure_update(self.num_over)
            self.num_over += 1
        is_own = (inputs["learner"] == current)[:, None]
        factors = self.factors[inputs["arena_row"], None]
        advantages = inputs["advantages"] * factors
        return {
            **inputs,
            "tool_mask": inputs["tool_mask"] * is_own,
            "advantages": advantages,
        }

    def _measure_update(self, learner: int) -> None:
        """Brings `factors` up to date, after the update of a learner."""
        batch, trainer = self.batch, self.trainer
        mine = (batch["learner"] == learner) & batch["tool_mask"].any(dim=1)
        part = {name: column[mine] for name, column in batch.items() if column.dim()}
        if len(part["learner"]):
            with torch.no_grad():
                ids, mask, width = prompts_with_replies(part)
                new = trainer.forward.score(
                    trainer.model,
                    ids,
                    mask,
                    width,
                    compute_entropy=False,
                    learners=part["learner"],
                ).logprobs
            gap = (new - part["old_per_token_logps"]) * part["tool_mask"]
            self.gaps[mine] = gap.sum(dim=1)
        logs = earlier_gaps(self.rows, self.gaps.tolist(), len(self.names))
        self.factors = self.gaps.new_tensor(logs).clamp(-20, 20).exp()
        after = batch["tool_mask"].any(dim=1) & (batch["learner"] == learner + 1)
        if after.any():
            mean = float(self.factors[after].mean())
            self._log(self.names[learner + 1], "factor", mean)

    def anchored(self, loss: torch.Tensor) -> torch.Tensor:
        """The loss with a gradient for all adapters, which DDP sums over the processes."""
        if self.is_alone:
            return loss
        zero: torch.Tensor = 0 * sum(weight.sum() for weight in chain(*self.weights))
        return loss + zero

    def split(self, optimizer: Any) -> None:
        """Gives each learner groups of its own in an optimizer, with its learning rate."""
        groups = []
        for weights, rate in zip(self.weights, self.rates, strict=True):
            ids = {id(weight) for weight in weights}
            for group in optimizer.param_groups:
                params = [weight for weight in group["params"] if id(weight) in ids]
                if params:
                    groups.append({**group, "params": params, "lr": rate})
        optimizer.param_groups = groups

    def kl_term(self, inputs: Mapping[str, Any]) -> KLTerm:
        """The KL term of the rows of a micro-batch."""
        return KLTerm(self.betas[inputs["learner"]])

    def on_pre_optimizer_step(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """Logs the gradients; an adapter without one is not moved."""
        for name, weights in zip(self.names, self.weights, strict=True):
            gradients = [x.grad for x in weights if x.grad is not None]
            norm = float(sum(gradient.norm() ** 2 for gradient in gradients)) ** 0.5
            if norm == 0:
                for weight in weights:
                    weight.grad = None
            self._log(name, "grad_norm", norm)

    def measure(
        self, logprobs: torch.Tensor, counted: torch.Tensor, inputs: Mapping[str, Any]
    ) -> None:
        """Logs each learner's abs(advantage) and KL divergence; arguments as `MismatchCheck`'s."""
        values = {"advantage": inputs["advantages"].abs()}
        if (reference := inputs.get("ref_per_token_logps")) is not None:
            gap = reference - logprobs.detach()
            values["kl"] = gap.exp() - gap - 1
        for i, name in enumerate(self.names):
            own_tokens = counted & (inputs["learner"] == i)[:, None]
            for metric, value in values.items() if own_tokens.any() else ():
                self._log(name, metric, float(value[own_tokens].mean()))

    def _log(self, name: str, metric: str, value: float) -> None:
        self.trainer.note({f"arena/learner/{name}/{metric}": value})

    def save(self, folder: Path) -> bool:
        """Writes the learners into a folder, unless TRL does; whether it did."""
        return False

    def load(self, checkpoint: Path) -> bool:
        """Goes on with the learners of a checkpoint, unless TRL does; whether it did.

        Raises:
            ValueError: it lacks a learner, or has one of another rank or other shapes.
        """
        for name in self.names:
            file = checkpoint / name / "adapter_config.json"
            saved_rank = json.loads(file.read_text())["r"] if file.is_file() else "none"
            if saved_rank != (rank := self.model.peft_config[name].r):
                raise ValueError(
                    f"want learner {name!r} with lora_r {rank} in {str(checkpoint)!r}, "
                    f"got {saved_rank}; resume with the roles of that run"
                )
        return False


def earlier_gaps(
    rows: Sequence[TrainingRow], gaps: Sequence[float], num_learners: int
) -> list[float]:
    """Sums `gaps` over what earlier learners said since the last call of a row's learner.

    Args:
        rows: in playing order, episode by episode.
        gaps: a number for each row.
        num_learners: how many learners there are; those of lower index are earlier.
    """
    sums, since, episode = [], [0.0] * num_learners, -1
    for row, gap in zip(rows, gaps, strict=True):
        if (number := (row.trajectory or (-1, 0))[0]) != episode:
            since, episode = [0.0] * num_learners, number
        sums.append(since[row.learner])
        since[row.learner] = 0.0
        for later in range(row.learner + 1, num_learners):
            since[later] += gap
    return sums
