"""A run of `TurnGRPOTrainer`, which learns by self-play."""

import os
import time
from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import Any

import torch
from transformers import PrinterCallback

from arena_eval.baselines import is_small
from arena_studio.report.run_files import read_run_files
from arena_studio.report.run_report import report_page
from arena_trainers.engines.settings import by_server
from arena_trainers.lm.chat import chat_of
from arena_trainers.lm.policy import LMPolicy
from arena_trainers.processes import raised_everywhere, splits_weights
from arena_trainers.runs.callbacks.against_start import AgainstStart
from arena_trainers.runs.callbacks.best import (
    LEARNER_RETURN,
    MEAN_RETURN,
    BestModel,
    score_metric,
)
from arena_trainers.runs.callbacks.collapse import CollapseWarnings
from arena_trainers.runs.callbacks.luck_out import LuckOut
from arena_trainers.runs.callbacks.metrics_file import MetricsFile
from arena_trainers.runs.callbacks.nash_conv import NASH_CONV
from arena_trainers.runs.callbacks.patience import Patience
from arena_trainers.runs.callbacks.profile import profile_lines, profile_of
from arena_trainers.runs.callbacks.progress import ProgressFormat, figures_of
from arena_trainers.runs.callbacks.replies import SampleReplies
from arena_trainers.runs.callbacks.rollouts import RolloutsFile
from arena_trainers.runs.callbacks.watchdog import Watchdog, watch_stages
from arena_trainers.runs.checks.dry_run import check_patience
from arena_trainers.runs.checks.lengths import (
    check_chat,
    check_context,
    check_reply_lengths,
    context_of,
    longest_replies,
)
from arena_trainers.runs.folder import METRICS, START
from arena_trainers.runs.opening_lines import (
    legal_warning,
    memory_line,
    start_description,
)
from arena_trainers.runs.results.base_model import base_model
from arena_trainers.runs.results.card import TAGS, CardSource, save_cards
from arena_trainers.runs.results.commands import (
    best_line,
    closing_lines,
    last_rollouts,
    rollouts_lines,
)
from arena_trainers.runs.results.files import (
    NUM_GROUPS,
    REPORT,
    results_of,
    write_results,
)
from arena_trainers.runs.results.markdown import code
from arena_trainers.runs.results.measure import GameMeter, GameOutcome
from arena_trainers.runs.results.provenance import provenance
from arena_trainers.runs.results.tables import draw_comparisons, outcome_tables
from arena_trainers.runs.run import Run, Stage
from arena_trainers.runs.settings import PROJECT, build_configs
from arena_trainers.runs.start import (
    adapter_errors,
    imitated,
    load_tokenizer,
    make_start,
)
from arena_trainers.terminal import Console
from arena_trainers.train.columns import load_functions
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.games import GamePlan, different_games
from arena_trainers.train.prepared import prepare_games
from arena_trainers.train.rollout.reward_columns import check_reward_models
from arena_trainers.train.schedule import describe
from arena_trainers.train.trainer import TurnGRPOTrainer
from arena_wrappers import Episode, Policy
from arena_wrappers.policies.agents import agent_of
from arena_wrappers.records import write_whole

EVALUATION = "evaluation after training"  # for the watchdog


class SelfPlayRun(Run):
    """A run that learns by self-play; see `Run`."""

    args: TurnGRPOConfig
    trainer: TurnGRPOTrainer
    watchdog: Watchdog

    def read(self) -> None:
        self.job, self.args = build_configs(self.settings, str(self.folder))
        plans = [GamePlan(spec, self.args) for spec in self.args.games]
        self.find_start(is_made=self.job.warm_start_steps > 0)
        check_patience(self.settings)
        self.tokenizer = load_tokenizer(self.job, self.model, plans, self.args.prompt)
        plans_of_replies = [*plans, *imitated(self.job, self.args, plans)]
        chat = chat_of(self.tokenizer, self.args)
        lengths = longest_replies(chat, plans_of_replies, self.args.reply_format)
        if self.model is None and "max_completion_length" not in self.settings:
            self.args.max_completion_length = max(lengths)
        check_reply_lengths(lengths, plans_of_replies, self.args)
        check_chat(chat, self.args)
        limit = context_of(self.model, self.args)
        self.context_lines = check_context(chat, limit, plans, self.args)
        functions = load_functions(self.job.columns)
        check_reward_models(functions, self.tokenizer, self.args)
        self.games = prepare_games(self.args, columns=functions, plans=plans)
        self.meters = [
            GameMeter(
                game,
                self.args,
                self.job.eval_episodes,
                opponents=self.games.opponents,
                exact_states=self.job.exact_states,
            )
            for game in different_games(plans)
        ]

    def make_start(self) -> None:
        """Makes the model that self-play starts from, if that is no given one.

        Every process trains it; the main one saves it.
        """
        if self.start != self.folder / START:
            return
        console = self.console if self.is_main else Console(quiet=True)
        model = make_start(
            self.job,
            self.args,
            self.model,
            self.tokenizer,
            self.games.plans,
            console,
        )
        if self.is_main:
            options = {"prompt": self.args.prompt, **self.args.sampling_options}
            self.save_start(model, self.tokenizer, options)
        del model
        torch.cuda.empty_cache()  # an engine asks how much memory is free

    def measure_start(self) -> None:
        """Measures the start of self-play; warns if hardly any of its replies is legal.

        All processes play, with the engine of training. Transformers plays in its place where
        weights are split, which they are not before training, and where a server gets its first
        weights for play beside training.
        """
        args = self.args
        waits = by_server(args) and self.trainer.async_player is not None
        if waits or (splits_weights(args) and not args.use_vllm):
            policy, player = self.start_policies()
        else:
            policy, player = self.trainer.policy, self.trainer.matching.learner
        if self.is_main:
            for line in self.context_lines:
                self.say(line)
            self.say(start_description(policy, self.games.plans, args))
            self.announce_exact(policy)
        if not self.job.measure_start:
            return
        if by_server(args) and not waits:
            self.trainer.sender.begin(step=0)
        for meter in self.meters:
            episodes = meter.measure("before self-play", player)
            warning = legal_warning(meter.plan.name, episodes, self.job, args)
            if warning is not None and self.is_main:
                self.say(warning)

    def start_policies(self) -> tuple[LMPolicy, Policy]:
        """The model before training, and the policy that plays all seats: it, or an agent on it."""
        args = self.args
        options = {
            "prompt": args.prompt,
            "device": args.device,
            **args.sampling_options,
        }
        policy = LMPolicy.from_pretrained(self.start, **options)
        if any(paths := args.learner_starts(None)):
            learners = [
                LMPolicy.from_pretrained(path, **options) if path else policy
                for path in paths
            ]
            models = dict(zip(args.learner_names, learners, strict=True))
            return policy, agent_of(args.agent or "by_seat")(models)
        if args.agent:
            return policy, agent_of(args.agent)(policy)
        return policy, policy

    def make_trainer(self) -> None:
        """Makes the trainer."""
        self.args.distributed_state.wait_for_everyone()  # the main one saves the start
        args, job = self.args, self.job
        if "wandb" in (args.report_to or ()):  # transformers passes on no project
            project = getattr(args, "project", PROJECT)
            os.environ.setdefault("WANDB_PROJECT", project)
        self.metrics = MetricsFile(self.folder / METRICS)
        with adapter_errors(job):
            self.trainer = TurnGRPOTrainer(
                str(self.start),
                args,
                processing_class=self.tokenizer,
                games=self.games,
                callbacks=[self.metrics],
                peft_config=job.peft_config,
            )

    def watch_training(self) -> None:
        """Adds what measures, prints and writes in training."""
        args, job, trainer = self.args, self.job, self.trainer
        trainer.remove_callback(PrinterCallback)
        rollouts = self.folder / "rollouts"
        trainer.add_callback(RolloutsFile(trainer, rollouts, job.saved_groups))
        every = job.steps_between_replies
        trainer.add_callback(SampleReplies(trainer, self.console, every))
        before = self.begin_metrics(self.metrics)
        whole = trainer.sharded_weights.whole_weights
        self.nash_conv_callback = self.measure_nash_conv(
            trainer.policy, args.prompt, whole
        )
        if self.nash_conv_callback is not None:
            self.nash_conv_callback.history += [
                (record["step"], record[NASH_CONV])
                for record in before
                if NASH_CONV in record
            ]
        if job.start_episodes > 0:
            self._play_start()
        self.best = self._keep_best(before)
        if job.warn_collapse and self.is_main:
            trainer.add_callback(CollapseWarnings(self.say, before))
        if self.is_main:
            self.say(memory_line(trainer.forward.max_tokens, args))

    def _play_start(self) -> None:
        """Measures the model against that of the start."""
        if self.args.use_vllm and self.args.vllm_mode == "server":
            raise ValueError(
                "start_episodes needs the weights of every step, and a server gets "
                "them only between batches; set start_episodes to 0, or vllm_mode to "
                "'colocate'"
            )
        self.add_first_callback(
            AgainstStart(
                self.trainer,
                self.start_policies()[1],
                every=self.job.evaluate_every,
                num_episodes=self.job.start_episodes,
            )
        )

    def _keep_best(self, before: list[dict[str, Any]]) -> BestModel | None:
        """Keeps the best model, and ends the run when its score no longer improves.

        Raises:
            ValueError: patience without a score.
        """
        job, args = self.job, self.args
        metric = score_metric(
            self.games.plans,
            measures_nash_conv=self.nash_conv_callback is not None,
            plays_start=job.start_episodes > 0,
            has_curriculum=bool(args.curriculum),
        )
        best = None
        by_return = metric in (LEARNER_RETURN, MEAN_RETURN)
        if by_return and (job.save_best or job.patience):
            plan = self.games.plans[0]
            if is_small(plan.game):
                self.add_first_callback(LuckOut(self.trainer, plan))
        if metric is None and job.patience:
            raise ValueError(
                "want patience only where training measures a score, got "
                f"{job.patience}; set evaluate_every, with exact_states for a larger game, or "
                "start_episodes in a run of one game"
            )
        if metric is not None and job.save_best:
            best = BestModel(self.trainer, self.folder, metric)
            self.trainer.add_callback(best)
        if metric is not None and job.patience:
            self.trainer.add_callback(
                Patience(metric, job.patience, args.window, self.say, before)
            )
        return best

    def stages_context(self) -> AbstractContextManager[Watchdog]:
        return watch_stages(self.trainer, self.job.stall_after)

    def train(self) -> None:
        """Trains, and takes the time."""
        self.announce(describe(self.first_step, self.args, self.extended))
        args, began = self.args, time.monotonic()
        num = round((args.generation_batch_size or 0) * args.generations_per_step)
        self.fit(ProgressFormat("self-play", "episodes", num, figures_of), args.window)
        self.profile = profile_of(self.trainer.clock)  # before the last evaluation
        steps = self.trainer.state.global_step - self.first_step
        self.speed = round(steps * num / (time.monotonic() - began), 1)
        self.watchdog.begin(EVALUATION)

    def close(self) -> None:
        """Evaluates the trained model; writes and shows the results."""
        for meter in self.meters:  # a long evaluation that goes on is not late
            meter.on_progress = lambda: self.watchdog.begin(EVALUATION)
        exact = any(meter.game is not None for meter in self.meters)
        policy, scores = self.trainer.matching.learner, None
        if self.nash_conv_callback is not None:
            # the first game may have been measured at the last step
            step = self.trainer.state.global_step
            scores = self.nash_conv_callback.scores.get(step)
        episodes = []
        with self.trainer.sharded_weights.weights_for_play(scores=exact):
            for meter in self.meters:
                episodes.append(meter.measure("after self-play", policy, scores))
                scores = None
            outcomes = [meter.outcome(policy) for meter in self.meters]
            with raised_everywhere():
                if self.is_main:
                    self._finish(episodes, outcomes)
                    self.push()

    def _finish(
        self, episodes: list[list[Episode]], outcomes: list[GameOutcome]
    ) -> None:
        """Writes and shows the results."""
        args, late = self.args, None
        if self.nash_conv_callback is not None:
            late = self.nash_conv_callback.last_quarter_mean()
        self.results = {
            **results_of(outcomes, late),
            "episodes_per_second": self.speed,
            "profile": self.profile,
            "best": self.best and self.best.best and asdict(self.best.best),
            "seconds": round(time.monotonic() - self.began, 1),
            "recipe": self.recipe,
            **provenance(self.job, args, self.games.plans),
            "credit": {
                "estimator": args.credit,
                "args": args.credit_args,
                "critic": args.critic,
                "within_turn": args.within_turn,
            },
        }
        self._write(episodes, outcomes)
        self._show(outcomes)

    def _write(
        self, episodes: list[list[Episode]], outcomes: list[GameOutcome]
    ) -> None:
        plans = [meter.plan for meter in self.meters]
        comparisons = [o.comparison for o in outcomes if o.comparison is not None]
        args, games = self.args, ", ".join(plan.name for plan in plans)
        every = args.ref_model_sync_steps  # when TRL's `SyncRefModelCallback` does it
        write_results(
            self.folder,
            self.results,
            plans,
            episodes,
            self.job.saved_episodes,
            title=f"{games}: model {self.job.model}, credit {args.credit}, seed {args.seed}",
            moves=range(every, args.max_steps, every) if args.sync_ref_model else (),
        )
        if comparisons:
            draw_comparisons(comparisons, self.folder / "policy.png")
        save_cards(
            CardSource(
                folder=self.folder,
                base=base_model(self.job.model, self.model),
                job=self.job,
                args=args,
                plans=plans,
                outcomes=outcomes,
                results=self.results,
                how="by self-play",
                tags=TAGS,
                training=[
                    ("supervised start", f"{self.job.warm_start_steps} steps"),
                    (
                        "self-play",
                        f"{args.max_steps} of {args.episodes_per_step} episodes",
                    ),
                    ("credit", code(f"{args.credit} {args.credit_args or ''}")),
                ],
            )
        )
        if last_rollouts(self.folder) is not None:
            page = report_page(read_run_files(self.folder, NUM_GROUPS))
            write_whole(self.folder / REPORT, page)

    def _show(self, outcomes: list[GameOutcome]) -> None:
        plans = [meter.plan for meter in self.meters]
        for outcome in outcomes:
            for table in outcome_tables(outcome):
                self.console.print(table)
        for line in profile_lines(self.profile):
            self.say(line)
        self.say(f"results are in {self.folder}")
        job = self.job
        lines = [best_line(self.folder, self.best, job.save_best, job.evaluate_every)]
        lines += closing_lines(self.folder, plans, self.args)
        lines += rollouts_lines(self.folder, self.job.saved_groups, self.args)
        self.say("\n".join(lines))

    opening = (
        Stage("start", make_start, START),
        Stage("trainer", make_trainer),
        Stage("measure", measure_start),
        Stage("callbacks", watch_training),
    )
    stages = (
        Stage("train", train),
        Stage("save", Run.save_model),
        Stage("close", close),
    )
