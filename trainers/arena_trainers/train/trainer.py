"""`TurnGRPOTrainer`: TRL's GRPO trainer on self-play episodes with turn-level credit.

A dataset row is the start of an episode or of a turn tree, so batch sizes count episodes.
For each generation batch the trainer plays the episodes, computes credit over the global
batch, and hands TRL one row per turn, with exactly the tokens that were sampled. TRL
computes the loss from these rows and from one advantage per token. The number of turns
varies; placeholder rows, which have no loss, fill up the batch of every process.

What this class and `CheckpointedTrainer` use of TRL and transformers beyond their public
interface:

| name | use |
|---|---|
| `_generate_and_score_completions` | overridden: plays, then calls TRL's method with the rows, then replaces its `advantages` |
| `rollout_func`, `reward_funcs` | arguments of `GRPOTrainer`: they hand over the rows and the logged returns; TRL's warning that `rollout_func` may change is silenced |
| `eos_token_ids` | replaced by the end tokens of the chat template |
| `_logs["advantages"]` | the latest entries are replaced by the mean advantage of each row |
| `_metrics` | written: the metrics of `arena_trainers.train.metrics` |
| `use_vllm`, `vllm_generation` | replaced where a server generates; `vllm_generation` also where the engine plays adapters |
| `vllm_generation.LLM`, of the module | replaced while the engine is built that plays adapters |
| `_tokenizer`, `model_wrapped`, `num_generations`, `num_generations_eval` | read |
| `create_model_card` | overridden: writes none |
| `save_model` | overridden: also writes `arena_prompt.json` |
| `_save_checkpoint` | overridden: also writes the credit state, the critic and a reference model that moved |
| `_load_optimizer_and_scheduler` | overridden: also reads these, and sets the learning rate to the schedule's |
| `_get_output_dir`, `ref_model`, `lr_scheduler` | read |
| `LambdaLR._last_lr` | written with the learning rate |

TRL's own `reward` metric is the mean return of a trajectory, weighted by its turns.
`arena_trainers.train.metrics` explains the metrics that are logged besides TRL's.
"""

import math
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from accelerate.utils import gather_object
from datasets import Dataset
from numpy.typing import NDArray
from trl.models import unwrap_model_for_generation

from arena_trainers import credit
from arena_trainers.lm.policy import LMPolicy
from arena_trainers.train.batch_credit import credited_batch
from arena_trainers.train.clock import TimedBackend
from arena_trainers.train.column_functions import Supplier
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.critic import FeatureCritic, feature_critic
from arena_trainers.train.engine import engine_backend, without_client
from arena_trainers.train.engine_adapters import with_adapters
from arena_trainers.train.exact_critic import ExactCritic, exact_critic
from arena_trainers.train.filtering import FilteringTrainer
from arena_trainers.train.game_plans import check_replies, episode_starts
from arena_trainers.train.matching import Matching
from arena_trainers.train.metrics import metrics, tally
from arena_trainers.train.prepared_games import PreparedGames, prepare_games
from arena_trainers.train.reward_columns import (
    check_reward_models,
    load_reward_models,
)
from arena_trainers.train.tasks import Tasks
from arena_trainers.train.training_rows import (
    Row,
    loss_weighted,
    training_rows,
    trajectory_rows,
    weighted,
    with_placeholder_rows,
)
from arena_trainers.train.trl_rows import (
    episode_return,
    padded_advantages,
    relog_advantages,
    replay_rows,
)
from arena_trainers.train.turn_records import TurnRecord
from arena_wrappers import Policy


class TurnGRPOTrainer(FilteringTrainer):
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
            `"stratum"`. Every process calls them for the episodes that it played. A
            `RewardColumn(PATH)` takes the place of a function where a reward model supplies
            the column, see `arena_trainers.train.reward_columns`. A part of the reward is
            paid only if `part_weights` names it.
        games: what `prepare_games` made of `args`, `policies` and `columns`; the trainer
            calls it by default.
        **kwargs: `callbacks`, `optimizers`, `peft_config` and `quantization_config` of
            `trl.GRPOTrainer`.

    Attributes:
        games: the games, their opponents and the columns that credit reads.
        last_episodes: the episodes of this process's latest generation batch.
        last_games: index of the game of each of them.
        last_seats: who played each seat of each of them.
        last_records: their turns of seats that learn, without groups that were dropped.
        last_rows: where these turns are in `last_turns`.
        last_turns: these turns of all processes: the global batch.
        last_credit: their credit.

    Raises:
        ValueError: settings that do not fit together, or that are not supported.
    """

    model: Any
    vllm_generation: Any
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
        columns: Mapping[str, Supplier] | None = None,
        games: PreparedGames | None = None,
        **kwargs: Any,
    ) -> None:
        if games is not None and (policies or columns):
            raise ValueError(
                "want games, or policies and columns, got both; give policies and columns "
                "to prepare_games"
            )
        self.games = games = games or prepare_games(args, policies, columns)
        is_learned = args.critic == "features"
        self.critic = feature_critic(args, games.rules) if is_learned else None
        if train_dataset is None:
            train_dataset = episode_starts(args, [plan.weight for plan in games.plans])
        self._rows: list[Row] = []
        slots = with_adapters(args, games.matchmaker, model, kwargs.get("peft_config"))
        with warnings.catch_warnings(), without_client(args), slots:
            # TRL warns that rollout_func may change; the user did not choose it
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
        self._set_up_policies()

    def _set_up_policies(self) -> None:
        """Makes the policy that learns of TRL's model, and what depends on it."""
        args, games = self.args, self.games
        self.policy = self._learner()
        device = self.accelerator.device
        games.place_opponents(self.policy, device)
        check_reward_models(games.functions, self._tokenizer, args)
        self.reward_models = load_reward_models(games.functions, device)
        self.tasks = Tasks(games, args)
        self.matching = Matching(games, args, self.accelerator, self.policy, self.clock)
        for policy in (self.policy, *games.models):
            policy.backend = TimedBackend(policy.backend, self.clock)
        check_replies(args, self.policy)
        self.eos_token_ids = self.policy.eos_ids  # TRL knows fewer
        self._prompt_json = self.policy.prompt_json()  # refused now, not at the end
        if args.critic == "exact":
            self.critic = exact_critic(args, games.plans, self.policy, games.opponents)

    def _learner(self) -> LMPolicy:
        return LMPolicy(
            self.accelerator.unwrap_model(self.model),
            self._tokenizer,
            name="self",
            context=lambda: unwrap_model_for_generation(
                self.model_wrapped, self.accelerator, gather_deepspeed3_params=False
            ),
            with_entropy="tokens.entropy" in self.games.columns,
            prompt=self.args.prompt,
            backend=engine_backend(self),
            **self.args.sampling_options,
        )

    def _generate_and_score_completions(
        self, inputs: list[dict[str, Any]]
    ) -> dict[str, Any]:
        with self.weights_for_play():  # for the critic, too
            with self.clock.part("environment"):
                self.play(inputs)
            shares = self.trained_records()
            with self.clock.part("credit"):
                self._estimate(shares)
        with self.clock.part("credit"):
            advantage = self.last_credit.advantage
            if self.args.weighting == "turn":
                advantage = weighted(advantage, self.last_turns)
            self._rows = self._training_rows(advantage)
            label = [{"prompt": inputs[0]["prompt"]} for _ in self._rows]
        with self.clock.part("training"):
            self.agreement.check(self._rows)
        with self.clock.part("rest"):
            output: dict[str, Any] = super()._generate_and_score_completions(label)
        with self.clock.part("credit"):
            ids = output["completion_ids"]
            output["advantages"] = padded_advantages(self._rows, ids)
            relog_advantages(self._logs["advantages"], self._rows)
            self._log_play(advantage)
        return output

    def _estimate(self, shares: list[list[TurnRecord]]) -> None:
        """Computes the credit; in training, the estimator's state and the critic go on."""
        batch, result = credited_batch(
            self.args, self.games, shares, self.critic, self._credit_state
        )
        if self.model.training:
            self._credit_state = result.state
            if isinstance(self.critic, FeatureCritic):
                turns = [turn for share in shares for turn in share]
                error = self.critic.fit(batch, turns)
                self._metrics["train"]["arena/critic_error"].append(error)
        self.last_turns, self.last_credit = batch, result

    def _training_rows(self, advantage: NDArray[np.float64]) -> list[Row]:
        """This process's rows, as many as every other process trains."""
        rows = training_rows(
            self.last_episodes,
            self.last_records,
            self.last_turns,
            advantage,
            self.last_rows,
        )
        if self.args.layout == "trajectory":
            rows = trajectory_rows(rows)
        num_rows = self._num_rows(max(gather_object([len(rows)])))
        return with_placeholder_rows(rows, num_rows, self.policy.eos_ids[0])

    def _num_rows(self, most: int) -> int:
        """Rows of each process: enough, whole groups, and whole micro-batches."""
        if self.model.training:
            steps = self.args.steps_per_generation or 1  # TRL fills it in
            unit = math.lcm(steps, self.num_generations)
        else:
            unit = self.num_generations_eval
        return max(math.ceil(most / unit), 1) * unit

    def _log_play(self, advantage: NDArray[np.float64]) -> None:
        """Logs the metrics of play and credit, see `arena_trainers.train.metrics`."""
        args, turns = self.args, self.last_turns
        played = self.first_episodes, self.last_games, self.last_seats
        tallies = gather_object([tally(*played)])
        trained = loss_weighted(advantage, turns, args.loss_type, args.layout)
        found = metrics(tallies, self.games.names, turns, self.last_credit, trained)
        if isinstance(self.critic, ExactCritic):
            found["arena/illegal_mass"] = self.critic.illegal_mass
        found |= self.filter_metrics
        mode = "train" if self.model.training else "eval"
        for name, value in found.items():
            self._metrics[mode][name].append(value)
