"""`TurnGRPOTrainer`: TRL's GRPO trainer on self-play episodes with turn-level credit.

A dataset row is the start of an episode or of a turn tree, so batch sizes count episodes.
For each generation batch the trainer plays the episodes, computes credit over the global
batch, and hands TRL one row per turn, with exactly the tokens that were sampled. TRL
computes the loss from these rows and from one advantage per token. The number of turns
varies; placeholder rows, which have no loss, fill up the batch of every process.

What this class and its parts use of TRL and transformers beyond their public
interface:

| name | use |
|---|---|
| `_generate_and_score_completions` | overridden: plays, credits, and returns the columns that `_compute_loss` reads, without a call of TRL's |
| `reward_funcs` | argument of `GRPOTrainer`, which wants one; never called |
| `eos_token_ids` | replaced by the end tokens of the chat template |
| `_logs` | written with `log_completions` |
| `_metrics` | written: the metrics of `arena_trainers.train.metrics` |
| `use_vllm` | replaced where a server generates |
| `vllm_generation`, `_entropy_bonus_enabled` | read |
| `vllm_generation.LLM`, of the module | replaced while the engine is built that plays adapters |
| `_step`, `_tokenizer`, `model_wrapped`, `num_generations`, `num_generations_eval`, `num_iterations`, `pad_to_multiple_of`, `mask_truncated_completions`, `log_completions`, `vllm_importance_sampling_*` | read |
| `create_model_card` | overridden: writes none |
| `save_model` | overridden: also writes `arena_prompt.json`, and whole models of learners |
| `train` | overridden: resumes from whole checkpoints only, and starts the clock |
| `get_train_dataloader` | overridden: each start of a batch is read once, and accelerate leaves it where it is |
| `train_dataset` | replaced while the data loader is built |
| `get_batch_samples` | overridden: reads the starts of the next batches ahead, for `asynchronous` |
| `training_step`, `log` | overridden: time, and weights that are held until the backward pass is over |
| `_compute_loss` | overridden: notes its inputs for the next row, and adds the terms of `losses` and the loss of values |
| `_get_per_token_logps_and_entropies` | overridden: `forward` scores the rows |
| `_save_checkpoint` | overridden: also writes the credit state, the critic, and the states of matchmaker and curriculum |
| `_load_optimizer_and_scheduler` | overridden: also reads these and a reference model that moved, and sets the learning rate to the schedule's |
| `create_optimizer` | overridden: each learner has groups of its own, and so has a critic of tokens |
| `_load_from_checkpoint` | overridden: checks the adapters of the learners, or loads their whole models |
| `_get_output_dir`, `ref_model`, `lr_scheduler`, `epsilon_low`, `epsilon_high`, `loss_type` | read |
| `beta` | a number for each row where there are several learners; set where terms of the loss read the reference, and `beta` of the settings is 0; 0 where the reference has prompts of its own, and where learners keep references |
| `add_fused_lm_head`, of `trl.trainer.utils` | called for the whole models of learners |
| `create_model_from_path`, of the module; `disable_dropout_in_model`, of `trl.trainer.utils`; `prepare_deepspeed`, `prepare_fsdp`, of `trl.models` | called to make the reference that `reference` names, as TRL makes one of the learner |
| `SyncRefModelCallback`, of `trl.trainer.callbacks` | added for that reference |
| `LambdaLR._last_lr` | written with the learning rate |

`arena_trainers.train.metrics` explains the metrics that are logged besides those of TRL's loss.

The modules of this folder describe the parts; `learners` several learners.
"""

import gc
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object, is_peft_model
from datasets import Dataset
from numpy.typing import NDArray
from trl import GRPOTrainer
from trl.models import unwrap_model_for_generation
from trl.trainer.callbacks import SyncRefModelCallback

from arena_credit import Credit, TurnBatch
from arena_trainers.checkpoint import checkpoint_of
from arena_trainers.engines import (
    engine_backend,
    with_adapters,
    without_client,
)
from arena_trainers.engines.protocols import WeightSender
from arena_trainers.lm.adapters import adapter_configs
from arena_trainers.lm.backends.forward_pass import evaluating
from arena_trainers.lm.policy import LMPolicy
from arena_trainers.losses import Term, terms_of
from arena_trainers.train.advantages import BatchCredit
from arena_trainers.train.checkpoint import CheckpointFiles
from arena_trainers.train.clock import Clock, Meter, TimedBackend
from arena_trainers.train.columns import Supplier
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.critics.make import make_critic
from arena_trainers.train.critics.tokens import TokenCritic
from arena_trainers.train.finite_steps import FiniteSteps
from arena_trainers.train.learners import KLTerm, Learners, learner_starts
from arena_trainers.train.losses.averages import rows_factor
from arena_trainers.train.losses.terms import LossTerms
from arena_trainers.train.matching import Matching
from arena_trainers.train.metrics import metrics, tally
from arena_trainers.train.opponent_policies import check_replies
from arena_trainers.train.played import PlayedBatch, SelectedTurns
from arena_trainers.train.prepared import PreparedGames, prepare_games
from arena_trainers.train.rollout.asynchronous import AsyncPlayer
from arena_trainers.train.rollout.expected import ExpectedReplies, backend_of_learner
from arena_trainers.train.rollout.filters import Filter
from arena_trainers.train.rollout.player import RolloutPlayer
from arena_trainers.train.rollout.reward_columns import (
    check_reward_models,
    load_reward_models,
)
from arena_trainers.train.rows import (
    TrainingRow,
    loss_weighted,
    training_rows,
    trajectory_rows,
    weighted,
    with_placeholder_rows,
)
from arena_trainers.train.score.forward import Forward
from arena_trainers.train.score.reference_memo import ReferenceMemo
from arena_trainers.train.score.reference_model import (
    check_vocabulary,
    make_reference,
    reference_folder,
)
from arena_trainers.train.score.sharding import ShardedWeights
from arena_trainers.train.score.tensors import row_tensors
from arena_trainers.train.starts import RepeatedRows, episode_starts
from arena_trainers.train.tasks import Tasks
from arena_trainers.train.together import check_together
from arena_trainers.train.whole_checkpoints import whole_checkpoint
from arena_trainers.train.whole_learners import WholeLearners
from arena_wrappers import Episode, Policy
from arena_wrappers.policies.agents import agent_of
from arena_wrappers.prompts import find_reply_format


class TurnGRPOTrainer(FiniteSteps, GRPOTrainer):
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
            the column, see `arena_trainers.train.rollout.reward_columns`. A part of the reward is
            paid only if `part_weights` names it.
        games: what `prepare_games` made of `args`, `policies` and `columns`; the trainer
            calls it by default.
        agent: makes the policy that plays from the model that learns, such as
            `lambda model: AgentPolicy(planner_worker, model)`. Each generation of a turn is
            trained as a turn of its own, and the last is paid. Where `args.roles` names roles,
            it gets a policy for each. Default: `args.agent`.
        **kwargs: `callbacks`, `optimizers`, `peft_config` and `quantization_config` of
            `trl.GRPOTrainer`.

    Attributes:
        games: the games, their opponents and the columns that credit reads.
        policy: the model that learns, as a policy.
        clock: counts from the start of `train`.
        reference_memo: knows the reference's log-probabilities of rows that come again.
        sharded_weights: knows where the weights are.
        forward: runs rows.
        checkpoint_files: writes and reads checkpoints.
        matching: seats the starts.
        tasks: chooses the games of starts.
        player: plays generation batches.
        async_player: has them played beside training, if `args.asynchronous` says so.
        learners: those of `args.roles`, if there are several.
        expected_replies: those that will probably come again.
        filter: chooses what is trained.
        terms: the terms that `losses` adds to the loss.
        tokens: the critic with a term of its own in the loss, if there is one.
        credit: gives the turns their credit, with a critic if there is one.
        last_played: this process's latest generation batch.
        last_selected: its turns that are trained.
        last_turns: the trained turns of all processes: the global batch.
        last_credit: their credit.

    Raises:
        ValueError: settings that do not fit together, or that are not supported.
    """

    args: TurnGRPOConfig
    model: Any
    beta: float | KLTerm  # type: ignore[assignment] # TRL's loss multiplies it
    ref_model: Any
    model_wrapped: Any
    accelerator: Any
    vllm_generation: Any
    eos_token_ids: list[int]
    num_generations: int
    num_generations_eval: int
    _logs: Any
    sender: WeightSender  # set by the engine that a server runs
    last_played: PlayedBatch
    last_selected: SelectedTurns
    last_turns: TurnBatch
    last_credit: Credit

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
        agent: Callable[[Policy], Policy] | None = None,
        **kwargs: Any,
    ) -> None:
        self.agent = agent or (agent_of(args.agent) if args.agent else None)
        first = kwargs.get("peft_config")
        configs = adapter_configs(args.roles, first)
        kwargs["peft_config"] = [*configs, first][0]
        self.games = games = _prepare(args, policies, columns, games, first)
        if train_dataset is None:
            train_dataset = episode_starts(args, [plan.weight for plan in games.plans])
        self.clock = Clock()
        self._meter = Meter(self.clock)
        self._rows: list[TrainingRow] = []
        slots = with_adapters(args, games.matchmaker, model, configs or [first])
        terms = terms_of(args.losses, args.layout)
        is_whole = bool(args.roles) and not configs
        reference = reference_folder(args)
        makes_reference = reference is None and not is_whole
        with without_client(args), slots, _reference_by_trl(args, makes_reference):
            super().__init__(
                model=next(iter(learner_starts(args, model)), model),
                reward_funcs=[no_reward],
                args=args,
                train_dataset=train_dataset,
                eval_dataset=eval_dataset,
                processing_class=processing_class,
                **kwargs,
            )
        if reference is not None:
            self._set_up_reference(reference)
        kind = WholeLearners if is_whole else Learners
        self.learners = kind(self, configs or model) if args.roles else None
        self.reference_memo = self._reference_memo()
        self._set_up_parts(terms)

    def _set_up_parts(self, terms: Sequence[Term]) -> None:
        """Makes the policy that learns of TRL's model, and the parts that play and credit."""
        self.sharded_weights = ShardedWeights(self)
        self.forward = Forward(self, self.sharded_weights, self.clock)
        self.terms = LossTerms(self, terms)
        args, games, clock = self.args, self.games, self.clock
        self.policy = self._learner()
        device = self.accelerator.device
        games.place_opponents(self.policy, device)
        check_reward_models(games.functions, self._tokenizer, args)
        reward_models = load_reward_models(games.functions, device)
        self.tasks = Tasks(games, args)
        self.matching = Matching(
            games, args, self.accelerator, self.policy, clock, self._agent()
        )
        self.expected_replies = ExpectedReplies(
            backend_of_learner(args, self.policy, self.learners is not None),
            self.accelerator.process_index,
        )
        for policy in (self.policy, *games.models):
            policy.backend = TimedBackend(policy.backend, clock)
        check_replies(args, self.policy)
        self.eos_token_ids = self.policy.eos_ids  # TRL knows fewer
        self.checkpoint_files = CheckpointFiles(self)
        critic = None if args.critic is None else make_critic(self)
        self.tokens = critic if isinstance(critic, TokenCritic) else None
        self.player = RolloutPlayer(
            args,
            games,
            self.matching,
            self.tasks,
            process=self.accelerator.process_index,
            group_sizes=(self.num_generations_eval, self.num_generations),
            clock=clock,
        )
        self.credit = BatchCredit(
            args,
            games,
            critic,
            reward_models,
            clock,
            max_tokens=self.forward.max_tokens,
            spans=self.policy.chat.spans,
            policy=self.policy,
        )
        self.async_player = AsyncPlayer(self) if args.asynchronous else None
        self.filter = Filter(
            args,
            games,
            self.player,
            self.credit,
            process=self.accelerator.process_index,
            clock=clock,
        )

    def _set_up_reference(self, path: str) -> None:
        """Makes the reference of a folder, and has it follow the learner if the settings say so."""
        if is_peft_model(self.model):
            raise ValueError(
                "want reference without model where an adapter is trained, as TRL takes "
                f"the base model for it; got {path!r}; leave model or the adapter out"
            )
        check_vocabulary(path, self._tokenizer)
        self.beta = self.args.beta or 1.0  # as TRL has it where it makes the reference
        self.ref_model = make_reference(
            path,
            learner=self.accelerator.unwrap_model(self.model),
            args=self.args,
            accelerator=self.accelerator,
            temperature=self.temperature,
        )
        if self.args.sync_ref_model:
            self.add_callback(SyncRefModelCallback(self.ref_model, self.accelerator))

    def _reference_memo(self) -> ReferenceMemo | None:
        """For one process and one reference; several processes run sharded weights together."""
        is_one = self.accelerator.num_processes == 1 and self.learners is None
        if not is_one or self.ref_model is None:
            return None
        return ReferenceMemo(
            lambda: (
                self.state.global_step // self.args.ref_model_sync_steps
                if self.args.sync_ref_model
                else 0
            )
        )

    def _agent(self) -> Callable[[Policy], Policy] | None:
        """Makes what plays from the policy that learns; one player for several learners."""
        if self.learners is None:
            return self.agent
        learners = self.learners
        player = learners.player(self.policy, self.clock, self.agent)

        def player_of(model: Policy) -> Policy:
            """The learners, or those of a snapshot."""
            if model is self.policy:
                return player
            return learners.player(model, self.clock, self.agent)  # type: ignore[arg-type] # a snapshot

        return player_of

    def _learner(self) -> LMPolicy:
        return LMPolicy(
            self.accelerator.unwrap_model(self.model),
            self._tokenizer,
            name="self",
            context=self._generating,
            with_entropy="tokens.entropy" in self.games.columns,
            prompt=self.args.prompt,
            backend=engine_backend(self),
            max_context=self.args.vllm_max_model_length if self.use_vllm else None,
            **self.args.sampling_options,
        )

    def _generating(self) -> AbstractContextManager[Any]:
        """The model for generation: whole, and without the checkpointing of its layers."""
        if not self.args.gradient_checkpointing:
            return nullcontext(self.policy.model)
        return unwrap_model_for_generation(
            self.model_wrapped, self.accelerator, gather_deepspeed3_params=False
        )

    def _generate_and_score_completions(
        self, inputs: list[dict[str, Any]]
    ) -> dict[str, Any]:
        """A batch from its starts to TRL's loss: play, filter, credit, rows."""
        trains, step = self.model.training, self.state.global_step
        model = self.policy.model
        # for the critic, too
        with self.sharded_weights.weights_for_play(), evaluating(model):
            self.credit.step = step
            if trains:
                self.expected_replies.announce()
            played = (self.async_player or self.player).play(inputs, step, trains)
            selected = self.filter(played)
            self.last_played, self.last_selected = played, selected
            credited = self.credit(selected.shares, trains)
        self.last_turns, self.last_credit = credited
        with self.clock.part("credit"):
            advantage = self.last_credit.advantage
            if self.args.weighting == "turn":
                advantage = weighted(advantage, self.last_turns)
            self._rows = self._training_rows(advantage)
            if trains:
                self.expected_replies.add(self._rows, self.last_episodes)
            batch = row_tensors(self._rows, self)
        with self.clock.part("training"):
            turns = [turn for episode in self.last_episodes for turn in episode.turns]
            wrap = find_reply_format(self.args.reply_format).wrap
            self.policy.check_scored(turns, wrap)
            self.forward.mismatch_check.check(self._rows)
            batch.update(self.forward.loss_columns(batch, self._rows))
        with self.clock.part("credit"):
            batch["learner"] = self.forward.learners_of(None, len(self._rows))
            if self.args.update == "sequential" and trains:
                self.learners.keep(batch, self._rows)  # type: ignore[union-attr] # checked
            batch.update(self.terms.columns(self._rows, batch["completion_ids"]))
            if self.tokens is not None:
                batch.update(self.tokens.columns(self._rows))
            self._log_play(advantage)
            self._log_rows()
        return batch

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        compute_entropy: bool = False,
        compute_aux_loss: bool = False,
        **images: Any,
    ) -> Any:
        rows = input_ids, attention_mask
        return self.forward.score(model, *rows, logits_to_keep, compute_entropy)[:3]

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        if "arena_row" in inputs:
            inputs = self.learners.for_current(inputs)  # type: ignore[union-attr] # of `keep`
        active, trl_inputs = self.terms.active(), inputs
        if any(term.surrogate for term in active):  # in place of TRL's
            trl_inputs = {
                **inputs,
                "advantages": torch.zeros_like(inputs["advantages"]),
            }
        self.beta = self.learners.kl_term(inputs) if self.learners else self.args.beta
        tokens = self.tokens if self.tokens and self.tokens.loss_weight else None
        with self.forward.loss_of(inputs, bool(active or tokens)):
            loss: torch.Tensor = super()._compute_loss(model, trl_inputs)
        loss = rows_factor(self, inputs) * loss
        if active and self.forward.latest is not None:
            loss = loss + self.terms.loss(active, inputs, self.forward.latest)
        if tokens and self.forward.latest is not None:
            loss = loss + tokens.loss(inputs, self.forward.latest)
        self.forward.latest = None
        return self.learners.anchored(loss) if self.learners else loss

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        with self.clock.part("training"), self.sharded_weights.held:
            loss: torch.Tensor = super().training_step(*args, **kwargs)
            if self.args.device.type == "cuda":
                torch.cuda.synchronize()  # else its time would count where others wait
        return loss

    def train(
        self, resume_from_checkpoint: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        """Trains; `resume_from_checkpoint=True` takes the newest valid checkpoint.

        Raises:
            ValueError: the checkpoint is not as it was written, or there is none.
        """
        folder = Path(str(self.args.output_dir))
        checkpoint = whole_checkpoint(folder, resume_from_checkpoint)
        self.clock.restart()
        self._meter = Meter(self.clock)
        self.expected_replies.clear()
        if self.reference_memo is not None:
            self.reference_memo.forget()  # an earlier run may have moved the reference
        with (
            _with_few_collections(self.args.generation_batch_size or 1),
            nullcontext() if self.async_player is None else self.async_player.running(),
        ):
            return super().train(checkpoint, *args, **kwargs)

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: Any
    ) -> Any:
        if self.async_player is not None:
            epoch_iterator = self.async_player.read(epoch_iterator, num_batches)
        return super().get_batch_samples(epoch_iterator, num_batches, device)

    def get_train_dataloader(self) -> Any:
        """TRL's; each start is read once, and not searched for tensors, as it has none."""
        starts = self.train_dataset
        if isinstance(starts, Dataset):  # not a stream
            self.train_dataset = RepeatedRows(starts)  # type: ignore[assignment] # read as one
        try:
            loader = super().get_train_dataloader()
        finally:
            self.train_dataset = starts
        loader.device = None
        return loader

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        if "loss" in logs:  # not the summary at the end
            logs.update(self._meter.read() | self.forward.mismatch_check.read())
        super().log(logs, start_time)

    def save_model(
        self, output_dir: str | None = None, _internal_call: bool = False
    ) -> None:
        """Saves the model with its `arena_prompt.json`; only the main process writes."""
        self.check_weights()
        folder = Path(output_dir or str(self.args.output_dir))
        with self.checkpoint_files.model_in(folder):
            if self.learners is None or not self.learners.save(folder):
                super().save_model(output_dir, _internal_call)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        step = self.state.global_step
        self.checkpoint_files.save(checkpoint_of(self._get_output_dir(trial), step))

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None:
            self.checkpoint_files.load(Path(checkpoint))

    def create_optimizer(self, *args: Any, **kwargs: Any) -> Any:
        is_new = self.optimizer is None
        if self.learners is not None:
            self.learners.use(0)  # a checkpoint leaves one trainable
        optimizer = super().create_optimizer(*args, **kwargs)
        if self.learners is not None and is_new:
            self.learners.split(optimizer)
        if self.tokens is not None:
            self.tokens.join(optimizer)
        return optimizer

    def _load_from_checkpoint(self, checkpoint: str, model: Any = None) -> None:
        if self.learners is None or not self.learners.load(Path(checkpoint)):
            super()._load_from_checkpoint(checkpoint, model)

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """Writes no model card: TRL's describes other training. `arena train` writes one."""

    def _training_rows(self, advantage: NDArray[np.float64]) -> list[TrainingRow]:
        """This process's rows, as many as every other process trains."""
        selected = self.last_selected
        rows = training_rows(
            self.last_episodes,
            selected.records,
            self.last_turns,
            advantage,
            selected.rows,
        )
        if self.args.layout == "trajectory":
            rows = trajectory_rows(rows)
        if self.learners is not None:
            step, trains = self.state.global_step, self.model.training
            rows = self.learners.rows_of(rows, step, trains)
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
        args, turns, played = self.args, self.last_turns, self.last_played
        own_tally = tally(played.first_episodes, played.games, played.seats)
        trained = loss_weighted(advantage, turns, args.loss_type, args.layout)
        names = self.games.names
        values = {
            **metrics(
                gather_object([own_tally]), names, turns, self.last_credit, trained
            ),
            **self.credit.metrics,
            **self.last_selected.metrics,
        }
        self.note(values)

    def _log_rows(self) -> None:
        """Logs sizes and returns of the rows of all processes."""
        trained = [row for row in self._rows if row.advantage is not None]
        ends = {*self.eos_token_ids, self._tokenizer.pad_token_id}
        sizes = [
            (
                len(row.prompt_ids),
                sum(row.loss_mask),
                row.completion_ids[-1] not in ends,
                row.episode_return,
            )
            for row in trained
        ]
        of_all = np.array(gather_object(sizes)).reshape(-1, 4)
        prompt_tokens, reply_tokens, is_clipped, returns = of_all.T
        if self.model.training:
            self.state.num_input_tokens_seen += int(
                prompt_tokens.sum() + reply_tokens.sum()
            )
        if len(returns):  # a learner may have no turn
            self.note(
                {
                    "reward": float(returns.mean()),
                    "completions/clipped_ratio": float(is_clipped.mean()),
                    "completions/mean_length": float(reply_tokens.mean()),
                    "completions/min_length": float(reply_tokens.min()),
                    "completions/max_length": float(reply_tokens.max()),
                }
            )
        kind = "train" if self.model.training else "eval"
        self._metrics[kind]["num_tokens"] = [self.state.num_input_tokens_seen]
        if self.log_completions:
            self._log_texts(trained)

    def _log_texts(self, rows: Sequence[TrainingRow]) -> None:
        """Gives TRL's table of completions the rows of all processes."""
        for name, ids in (("prompt", "prompt_ids"), ("completion", "completion_ids")):
            texts = self._tokenizer.batch_decode([[*getattr(r, ids)] for r in rows])
            self._logs[name].extend(gather_object(texts))
        returns = gather_object([row.episode_return for row in rows])
        self._logs["rewards"]["return"].extend(returns)
        means = [float(np.mean(row.advantage)) for row in rows]  # type: ignore[arg-type]
        self._logs["advantages"].extend(gather_object(means))

    def note(self, values: Mapping[str, float], kind: str = "") -> None:
        """Adds metrics to the next log, which has the mean of all that were noted."""
        kind = kind or ("train" if self.model.training else "eval")
        for name, value in values.items():
            self._metrics[kind][name].append(value)

    def noted(self, name: str) -> list[float]:
        """A metric of the steps since the last log."""
        return list(self._metrics["train"].get(name, ()))

    @property
    def micro_step(self) -> int:
        """How many micro-batches were trained."""
        return int(self._step)

    @property
    def chat_tokenizer(self) -> Any:
        """The tokenizer, with a chat template."""
        return self._tokenizer

    @property
    def has_entropy_bonus(self) -> bool:
        """Whether the loss reads the entropies of all rows."""
        return bool(self._entropy_bonus_enabled)

    @property
    def last_episodes(self) -> list[Episode]:
        """The episodes of this process's latest generation batch."""
        return self.last_played.episodes


# new objects after which Python looks for garbage; its default is 700
MAX_NEW_OBJECTS = 20_000
OBJECTS_PER_EPISODE = 100  # one of Kuhn poker makes half as many


@contextmanager
def _with_few_collections(num_episodes: int) -> Iterator[None]:
    """Keeps Python's garbage collections few, and from visiting all that was made before.

    With torch loaded a full one takes 0.2 s, a tenth of the time of a tiny model's training. Play makes
    many objects that live until the next batch, which small collections would visit again and again.

    Args:
        num_episodes: of a batch.
    """
    is_own = gc.get_freeze_count() == 0
    thresholds = gc.get_threshold()
    if is_own:
        gc.collect()  # else it would keep what an earlier run left
        gc.freeze()
        most = max(MAX_NEW_OBJECTS, OBJECTS_PER_EPISODE * num_episodes, thresholds[0])
        gc.set_threshold(most, *thresholds[1:])
    try:
        yield
    finally:
        if is_own:
            gc.set_threshold(*thresholds)
            gc.unfreeze()


@contextmanager
def _reference_by_trl(args: TurnGRPOConfig, is_made: bool) -> Iterator[None]:
    """Has TRL make the reference, for terms of the loss also if `beta` is 0, or none."""
    beta, moves = args.beta, args.sync_ref_model
    args.beta = (beta or 1.0) if is_made and args.reads_reference else 0.0
    args.sync_ref_model = moves and is_made  # TRL refuses it where it makes none
    try:
        yield
    finally:
        args.beta, args.sync_ref_model = beta, moves


def _prepare(
    args: TurnGRPOConfig,
    policies: Mapping[str, Policy] | None,
    columns: Mapping[str, Supplier] | None,
    games: PreparedGames | None,
    adapter: Any,
) -> PreparedGames:
    check_together(args, is_adapted=adapter is not None)
    if games is not None and (policies or columns):
        raise ValueError(
            "want games, or policies and columns, got both; give policies and columns "
            "to prepare_games"
        )
    return games or prepare_games(args, policies, columns)


def no_reward(**_: Any) -> list[float | None]:
    """Stands for TRL's reward function: returns come from `RolloutPlayer`, credit from `BatchCredit`."""
    raise RuntimeError("want no call of TRL's reward function, as the games pay")
