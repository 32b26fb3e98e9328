"""`TurnGRPOTrainer`: TRL's GRPO trainer on self-play episodes with turn-level credit.

One private method of TRL is overridden, `_generate_and_score_completions`: it plays the
episodes, computes credit over the global batch, hands TRL one row per turn (token for
token what was sampled), and replaces TRL's advantages by ours, one per token. The loss,
the optimizer, distribution, checkpoints and logging are TRL's.

Where this departs from TRL: a dataset row is the start of an episode or of a turn tree, so
batch sizes count those; the number of rows varies, and dead rows (no loss) fill it up on every process;
`reward` in the logs is the mean return of a trajectory, weighted by its turns.
Metrics logged besides TRL's are explained in `arena_trainers.train.metrics`.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object
from datasets import Dataset
from trl.models import unwrap_model_for_generation

from arena_trainers import credit
from arena_trainers.lm.adapters import share_base
from arena_trainers.lm.policy import LMPolicy
from arena_trainers.train.checkpointed import CheckpointedTrainer
from arena_trainers.train.checks import refuse_absolute_positions
from arena_trainers.train.column_functions import ColumnFunction
from arena_trainers.train.columns import check_credit, estimate_credit, part_weights
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.critic import FeatureCritic, feature_critic
from arena_trainers.train.engine import engine_backend
from arena_trainers.train.exact_critic import ExactCritic, check_exact, exact_critic
from arena_trainers.train.game_plans import (
    GamePlan,
    check_replies,
    episode_starts,
    opponents,
)
from arena_trainers.train.metrics import metrics, tally
from arena_trainers.train.training_rows import (
    Row,
    episode_return,
    loss_weighted,
    replay_rows,
    training_rows,
    trajectory_rows,
    weighted,
    whole_row_lengths,
    with_dead_rows,
)
from arena_trainers.train.turn_records import (
    TurnRecord,
    games_of,
    turn_batch,
    turn_records,
)
from arena_wrappers import Episode, EpisodePlan, Policy, play_plans
from arena_wrappers.noisy import without_noise


class TurnGRPOTrainer(CheckpointedTrainer):
    """Trains a language model on multi-agent games, each turn with its own credit.

    Args:
        model: path or instance of a causal language model.
        args: settings, `TurnGRPOConfig`.
        processing_class: tokenizer with a chat template; default that of the model.
        train_dataset: starts of episodes, rows of `prompt` (a label), `game` (index into
            `args.games`) and `seed`; made from `args` by default.
        eval_dataset: likewise, for evaluation.
        policies: policies by name, for opponents that are objects and not strings.
        columns: functions that give further columns to the estimator, by name:
            `"stratum"`, `"value"`, `"action_value"`, or a part of the reward, such as a
            judge's label, `"rewards.judge"`. Called with an `Episode`, one of its turns
            (`Turn`) and the game's state before it, each returns a number, an integer for
            `"stratum"`. Every process calls them for the episodes that it played. A part of
            the reward is paid only if `part_weights` names it.
        **kwargs: `callbacks`, `optimizers`, `peft_config` and `quantization_config` of
            `trl.GRPOTrainer`.

    Attributes:
        last_episodes: the episodes of this process's latest generation batch.
        last_games: index of the game of each of them.
        last_turns: the turns of the latest global batch, those of learning seats.
        last_credit: their credit.

    Raises:
        ValueError: settings that do not fit together, or that are not supported.
    """

    model: Any
    vllm_generation: Any
    num_generations: int
    num_generations_eval: int
    eos_token_ids: list[int]
    _logs: Any
    last_turns: credit.TurnBatch
    last_credit: credit.Credit

    def __init__(
        self,
        model: Any,
        args: TurnGRPOConfig,
        *,
        processing_class: Any = None,
        train_dataset: Dataset | None = None,
        eval_dataset: Dataset | None = None,
        policies: Mapping[str, Policy] | None = None,
        columns: Mapping[str, ColumnFunction] | None = None,
        **kwargs: Any,
    ) -> None:
        plans = self.game_plans = [GamePlan(spec, args) for spec in args.games]
        rules = [plan.game for plan in plans]
        self._columns = check_credit(args, rules, columns)
        self._functions = dict(columns or {})
        self.critic = None
        if args.critic == "features":
            self.critic = feature_critic(args, rules)
            self._columns += ("features",)
        self._opponents = opponents(plans, args, policies or {})
        check_exact(args, plans, self._opponents)
        if train_dataset is None:
            train_dataset = episode_starts(args, [p.weight for p in plans])
        self._rows: list[Row] = []
        self._generation = (-1, 0)  # optimizer step, and number within it
        self.last_episodes: list[Episode] = []
        with warnings.catch_warnings():
            # the seam is TRL's experiment, not the user's
            warnings.filterwarnings("ignore", "You are using 'rollout_func'")
            super().__init__(
                model=model,
                reward_funcs=[episode_return],
                args=args,
                train_dataset=train_dataset,
                eval_dataset=eval_dataset,
                processing_class=processing_class,
                rollout_func=replay_rows,
                **kwargs,
            )
        refuse_absolute_positions(self.model.config.model_type)
        self.policy = self._learner()
        for policy in self._opponents.values():
            inner = without_noise(policy)
            if isinstance(inner, LMPolicy) and not share_base(inner, self.policy):
                inner.model.to(self.accelerator.device)
        check_replies(args, self.policy)
        self.eos_token_ids = self.policy.eos_ids  # TRL knows fewer
        self._prompt_json = self.policy.prompt_json()  # refused now, not at the end
        if args.critic == "exact":
            self.critic = exact_critic(args, plans, self.policy, self._opponents)

    def _learner(self) -> LMPolicy:
        return LMPolicy(
            self.accelerator.unwrap_model(self.model),
            self._tokenizer,
            name="self",
            context=lambda: unwrap_model_for_generation(
                self.model_wrapped, self.accelerator
            ),
            with_entropy="tokens.entropy" in self._columns,
            prompt=self.args.prompt,
            backend=engine_backend(self),
            **self.args.sampling_options,
        )

    def play(self, inputs: Sequence[Mapping[str, Any]]) -> list[Episode]:
        """Plays this process's episodes of the generation batch: one per input, or a tree."""
        mode = "train" if self.model.training else "eval"
        group = self.num_generations if mode == "train" else self.num_generations_eval
        first = self.accelerator.process_index * len(inputs)
        number = self._generation_number() if mode == "train" else 0
        plans = []
        for index, start in enumerate(inputs):
            plan = self.game_plans[start["game"]]
            policies = plan.policies(self.policy, self._opponents)
            sample = number * group + (first + index) % group
            branch = None
            if mode == "train":
                branch = self.args.branching(np.flatnonzero(plan.learners).tolist())
            seed = int(start["seed"])
            own = EpisodePlan(plan.env_fn, policies, seed, sample, branch=branch)
            plans.append(own)
        return play_plans(plans, on_error="raise")

    def _generation_number(self) -> int:
        """Numbers generation batches, so that a start that comes again is played anew.

        It follows from the optimizer step, so that a resumed run counts on alike.
        """
        step, within = self.state.global_step, 0
        if self._generation[0] == step:
            within = self._generation[1] + 1
        self._generation = (step, within)
        return int(step * math.ceil(self.args.generations_per_step)) + within

    def _generate_and_score_completions(
        self, inputs: list[dict[str, Any]]
    ) -> dict[str, Any]:
        episodes = self.last_episodes = self.play(inputs)
        asked_for = [start["game"] for start in inputs]
        games = self.last_games = games_of(episodes, asked_for)
        learners = [plan.learners for plan in self.game_plans]
        rules = [plan.game for plan in self.game_plans]
        asked = self._columns, self._functions, self.args.branching(())
        records = turn_records(episodes, games, learners, rules, *asked)
        shares = gather_object([records])
        batch, result = self._credited(shares)
        advantage = result.advantage
        if self.args.weighting == "turn":
            advantage = weighted(advantage, batch)
        offset = sum(map(len, shares[: self.accelerator.process_index]))
        rows = training_rows(episodes, games, learners, batch, advantage, offset)
        if self.args.layout == "trajectory":
            own = shares[self.accelerator.process_index]
            keys = [(turn.episode, turn.seat) for turn in own if turn.unselected]
            rows = trajectory_rows(rows, keys)
        num_rows = self._num_rows(max(gather_object([len(rows)])))
        self._rows = with_dead_rows(rows, num_rows, self.policy.eos_ids[0])
        label = [{"prompt": inputs[0]["prompt"]} for _ in self._rows]
        output: dict[str, Any] = super()._generate_and_score_completions(label)
        output["advantages"] = self._padded_advantages(output["completion_ids"])
        self._relog_advantages()
        tallies = gather_object([tally(episodes, games, self.game_plans)])
        mode = "train" if self.model.training else "eval"
        names = [plan.name for plan in self.game_plans]
        trained = loss_weighted(advantage, batch, self.args.loss_type, self.args.layout)
        for name, value in metrics(tallies, names, batch, result, trained).items():
            self._metrics[mode][name].append(value)
        if isinstance(self.critic, ExactCritic):
            self._metrics[mode]["arena/illegal_mass"].append(self.critic.illegal_mass)
        return output

    def _credited(
        self, shares: list[list[TurnRecord]]
    ) -> tuple[credit.TurnBatch, credit.Credit]:
        """The global batch and its credit; in training, states and critics go on."""
        turns = [turn for share in shares for turn in share]
        batch = turn_batch(
            shares,
            part_weights(self.args, self._functions),
            [plan.name for plan in self.game_plans],
            self._columns,
            [plan.game.teams for plan in self.game_plans],
        )
        if self.args.layout == "trajectory":
            batch = replace(batch, row_length=whole_row_lengths(batch))
        if self.critic is not None:
            batch = self.critic.with_values(batch, turns)
        result = estimate_credit(self.args, batch, self._credit_state)
        if self.model.training:
            self._credit_state = result.state
            if isinstance(self.critic, FeatureCritic):
                error = self.critic.fit(batch, turns)
                self._metrics["train"]["arena/critic_error"].append(error)
        self.last_turns, self.last_credit = batch, result
        return batch, result

    def _num_rows(self, most: int) -> int:
        """Rows of each process: enough, whole groups, and whole micro-batches."""
        if self.model.training:
            steps = self.args.steps_per_generation or 1  # TRL fills it in
            unit = math.lcm(steps, self.num_generations)
        else:
            unit = self.num_generations_eval
        return max(math.ceil(most / unit), 1) * unit

    def _padded_advantages(self, completion_ids: torch.Tensor) -> torch.Tensor:
        advantages = torch.zeros(completion_ids.shape, device=completion_ids.device)
        for i, row in enumerate(self._rows):
            if row.advantage is not None:
                own = torch.from_numpy(np.asarray(row.advantage, np.float32))
                advantages[i, : len(own)] = own.to(advantages.device)
        return advantages  # [B, T]

    def _relog_advantages(self) -> None:
        """TRL has logged its own advantages with the rows; ours take their place."""
        means = [
            0.0 if row.advantage is None else float(row.advantage.mean())
            for row in self._rows
        ]
        logged = gather_object(means)
        for _ in range(min(len(logged), len(self._logs["advantages"]))):
            self._logs["advantages"].pop()
        self._logs["advantages"].extend(logged)
