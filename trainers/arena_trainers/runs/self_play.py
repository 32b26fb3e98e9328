"""Self-play: a run of `TurnGRPOTrainer`, with what it prints before and what watches it."""

import os
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import Any

import torch
from transformers import PrinterCallback

from arena_eval import legal_rate
from arena_studio.report.page import read_run_files, report_page
from arena_trainers.lm.chat import chat_of
from arena_trainers.lm.policy import LMPolicy
from arena_trainers.runs.folder import (
    METRICS,
    START,
)
from arena_trainers.runs.progress import (
    ShownFigures,
    Watchdog,
    figures_of,
    profile_lines,
    profile_of,
    watched_stages,
)
from arena_trainers.runs.results.card import (
    TAGS,
    CardSource,
    base_model,
    code,
    save_cards,
)
from arena_trainers.runs.results.close import (
    NUM_GROUPS,
    REPORT,
    best_line,
    closing_lines,
    draw_comparisons,
    last_rollouts,
    outcome_tables,
    provenance,
    results_of,
    rollouts_lines,
    write_results,
)
from arena_trainers.runs.results.measure import GameMeter, GameOutcome
from arena_trainers.runs.run import Run, Stage
from arena_trainers.runs.settings import PROJECT, JobConfig, build_configs
from arena_trainers.runs.start import (
    adapter_errors,
    check_chat,
    check_context,
    check_reply_lengths,
    context_of,
    imitated,
    load_tokenizer,
    longest_replies,
    make_start,
)
from arena_trainers.runs.watch import (
    AgainstStart,
    BestModel,
    CollapseWarnings,
    MetricsFile,
    Patience,
    RolloutsFile,
    SampleReplies,
    escaped,
    score_metric,
)
from arena_trainers.terminal import Console
from arena_trainers.train.checkpoint import describe
from arena_trainers.train.columns import load_functions
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.games import GamePlan, different_games
from arena_trainers.train.prepared import prepare_games
from arena_trainers.train.rollout.reward_columns import check_reward_models
from arena_trainers.train.trainer import TurnGRPOTrainer
from arena_wrappers import Episode, Policy, RandomPolicy, Turn, play
from arena_wrappers.policies.agents import agent_of
from arena_wrappers.records import write_whole

FEW = 0.05  # legal replies / replies; below this GRPO has almost no positive examples


def description(
    policy: LMPolicy, plans: Sequence[GamePlan], args: TurnGRPOConfig
) -> str:
    """The size of the model, the length of the prompts, and the credit."""
    prompts = [
        policy.encode(turn.messages)
        for plan in plans
        for episode in play(plan.env_fn, RandomPolicy(), range(100))
        for turn in episode.turns
    ]
    parameters = sum(p.numel() for p in policy.model.parameters())
    return (
        f"model of {parameters:,} parameters; prompts of at most "
        f"{max(map(len, prompts))} tokens (rules={args.rules}, "
        f"reply_format={args.reply_format}, show_legal_actions="
        f"{args.show_legal_actions}); credit {args.credit!r}"
    )


def memory_line(max_tokens: int, args: TurnGRPOConfig) -> str:
    """The number of tokens that run through the model at once in training."""
    given = args.max_tokens_per_forward is not None
    source = "as given" if given else "from the free memory and the model's size"
    return (
        f"at most {max_tokens:,} tokens run at once in training "
        f"(max_tokens_per_forward, {source})"
    )


def legal_warning(
    game: str, episodes: Sequence[Episode], job: JobConfig, args: TurnGRPOConfig
) -> str | None:
    """A warning, if hardly any reply of the model is a legal action; else None."""
    turns = [turn for episode in episodes for turn in episode.turns]
    if not turns or legal_rate(episodes) >= FEW:
        return None
    bad = next(turn for turn in turns if turn.invalid is not None)
    return (
        f"warning: {legal_rate(episodes):.1%} of {len(turns)} replies in {game} are legal "
        f"actions: GRPO has almost no legal replies to reinforce.\n"
        f"  A reply: {escaped(bad.reply)}\n"
        f"  Refused: {bad.invalid}: {ascii(bad.detail)[1:-1]}\n"
        f"  What helps: {'; '.join(_advice(turns, job, args))}."
    )


def _advice(turns: Sequence[Turn], job: JobConfig, args: TurnGRPOConfig) -> list[str]:
    """Options that would raise the rate of legal replies, the best first."""
    advice = []
    num_cut = sum(turn.truncated for turn in turns)
    if 2 * num_cut > len(turns):
        advice.append(
            f"a larger --max_completion_length ({num_cut} of {len(turns)} replies were cut "
            f"at {args.max_completion_length} tokens)"
        )
    if job.warm_start_steps == 0:
        advice.append("--warm_start_steps 100 (imitation of random legal play)")
    else:
        advice.append(f"more --warm_start_steps than {job.warm_start_steps}")
    if not args.rules:
        advice.append("--rules true (prompts tell the rules and how to reply)")
    if not args.show_legal_actions:
        advice.append("--show_legal_actions true")
    if args.parsing == "strict":
        advice.append("--parsing tolerant")
    others = {"answer", "boxed", "bracket", "bare"} - {args.reply_format}
    advice.append(f"another --reply_format ({', '.join(sorted(others))})")
    if job.model != "tiny":
        advice.append("a --model that follows instructions")
    return advice


EVALUATION = "evaluation after training"  # for the watchdog


class SelfPlay(Run):
    """A run that learns by self-play; see `Run`."""

    def read(self) -> None:
        self.job, self.args = build_configs(self.settings, str(self.folder))
        plans = [GamePlan(spec, self.args) for spec in self.args.games]
        self.find_start(is_made=self.job.warm_start_steps > 0)
        self.tokenizer = load_tokenizer(self.job, self.model, plans, self.args.prompt)
        told = [*plans, *imitated(self.job, self.args, plans)]
        chat = chat_of(self.tokenizer, self.args)
        lengths = longest_replies(chat, told, self.args.reply_format)
        if self.model is None and "max_completion_length" not in self.settings:
            self.args.max_completion_length = max(lengths)
        check_reply_lengths(lengths, told, self.args)
        check_chat(chat, self.args)
        limit = context_of(self.model, self.args)
        self.context_lines = check_context(chat, limit, plans, self.args)
        functions = load_functions(self.job.columns)
        check_reward_models(functions, self.tokenizer, self.args)
        self.games = prepare_games(self.args, columns=functions, plans=plans)
        num, games = self.job.eval_episodes, different_games(plans)
        given = self.args, num, self.games.opponents, self.job.exact_states
        self.meters = [GameMeter(game, *given) for game in games]

    def make_start(self) -> None:
        """Makes the model that self-play starts from, if that is no given one.

        Every process trains it; the main one saves it.
        """
        if self.start != self.folder / START:
            return
        console = self.console if self.is_main else Console(quiet=True)
        given = self.model, self.tokenizer, self.games.plans, console
        model = make_start(self.job, self.args, *given)
        if self.is_main:
            options = {"prompt": self.args.prompt, **self.args.sampling_options}
            self.save_start(model, self.tokenizer, options)
        del model
        torch.cuda.empty_cache()  # an engine asks how much memory is free

    def measure_start(self) -> None:
        """Measures the start of self-play; warns if hardly any of its replies is legal."""
        self.args.distributed_state.wait_for_everyone()
        if not self.is_main:
            return
        for line in self.context_lines:
            self.say(line)
        policy, played = self.start_policies()
        self.say(description(policy, self.games.plans, self.args))
        self.tell_exact(policy)
        for meter in self.meters:
            episodes = meter.measure("before self-play", played)
            warning = legal_warning(meter.plan.name, episodes, self.job, self.args)
            if warning is not None:
                self.say(warning)

    def start_policies(self) -> tuple[LMPolicy, Policy]:
        """The model before training, and the policy that plays all seats: it, or an agent on it."""
        args = self.args
        how = {"prompt": args.prompt, "device": args.device, **args.sampling_options}
        policy = LMPolicy.from_pretrained(self.start, **how)
        if any(paths := args.learner_starts(None)):
            own = [LMPolicy.from_pretrained(p, **how) if p else policy for p in paths]
            models = dict(zip(args.learner_names, own, strict=True))
            return policy, agent_of(args.agent or "by_seat")(models)
        return policy, agent_of(args.agent)(policy) if args.agent else policy

    def make_trainer(self) -> None:
        """Makes the trainer, with what watches it."""
        args, job = self.args, self.job
        if "wandb" in (args.report_to or ()):  # transformers passes on no project
            project = getattr(args, "project", PROJECT)
            os.environ.setdefault("WANDB_PROJECT", project)
        metrics = MetricsFile(self.folder / METRICS)
        with adapter_errors(job):
            self.trainer = trainer = TurnGRPOTrainer(
                str(self.start),
                args,
                processing_class=self.tokenizer,
                games=self.games,
                callbacks=[metrics],
                peft_config=job.peft_config,
            )
        trainer.remove_callback(PrinterCallback)
        rollouts = self.folder / "rollouts"
        trainer.add_callback(RolloutsFile(trainer, rollouts, job.saved_groups))
        shown = self.console, job.steps_between_replies
        trainer.add_callback(SampleReplies(trainer, *shown))
        before = self.begin_metrics(metrics)
        whole = trainer.sharded_weights.whole_weights
        self.watcher = self.watch_nash_conv(trainer.policy, args.prompt, whole)
        if self.watcher is not None:
            conv = "arena/nash_conv"
            self.watcher.history += [(r["step"], r[conv]) for r in before if conv in r]
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
        policy = self.start_policies()[1] if self.is_main else None
        how = self.job.evaluate_every, self.job.start_episodes
        self.watch_first(AgainstStart(self.trainer, policy, *how))

    def _keep_best(self, before: list[dict[str, Any]]) -> BestModel | None:
        """Keeps the best model, and ends the run when its score no longer improves.

        Raises:
            ValueError: patience without a score.
        """
        job, args = self.job, self.args
        has_conv, plays_start = self.watcher is not None, job.start_episodes > 0
        told = has_conv, plays_start, bool(args.curriculum)
        metric, best = score_metric(self.games.plans, *told), None
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
            how = metric, job.patience, args.window, self.say, before
            self.trainer.add_callback(Patience(*how))
        return best

    def watching(self) -> AbstractContextManager[Watchdog]:
        return watched_stages(self.trainer, self.job.stall_after)

    def train(self) -> None:
        """Trains, and takes the time."""
        self.announce(describe(self.first_step, self.args, self.extended))
        args, began = self.args, time.monotonic()
        num = round((args.generation_batch_size or 0) * args.generations_per_step)
        self.fit(ShownFigures("self-play", "episodes", num, figures_of), args.window)
        self.profile = profile_of(self.trainer.clock)  # before the last evaluation
        steps = self.trainer.state.global_step - self.first_step
        self.speed = round(steps * num / (time.monotonic() - began), 1)
        self.watchdog.begin(EVALUATION)

    def close(self) -> None:
        """Evaluates the trained model; writes and shows the results."""
        for meter in self.meters:  # a long evaluation that goes on is not late
            meter.beat = lambda: self.watchdog.begin(EVALUATION)
        exact = any(meter.game is not None for meter in self.meters)
        with self.trainer.sharded_weights.weights_for_play(scores=exact):
            if self.is_main:
                self._evaluate()
                self.push()

    def _evaluate(self) -> None:
        policy, args = self.trainer.matching.learner, self.args
        tables = self.watcher.tables if self.watcher else {}
        # the first game may have been measured at the last step
        known = tables.get(self.trainer.state.global_step)
        episodes = [
            meter.measure("after self-play", policy, None if number else known)
            for number, meter in enumerate(self.meters)
        ]
        outcomes = [meter.outcome(policy) for meter in self.meters]
        late = self.watcher.last_quarter_mean() if self.watcher else None
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
            *(self.folder, self.results, plans, episodes, self.job.saved_episodes),
            title=f"{games}: model {self.job.model}, credit {args.credit}, seed {args.seed}",
            moves=range(every, args.max_steps, every) if args.sync_ref_model else (),
        )
        if comparisons:
            draw_comparisons(comparisons, self.folder / "policy.png")
        base = base_model(self.job.model, self.model)
        told = self.job, self.args, plans, outcomes, self.results
        num = args.episodes_per_step
        rows = [
            ("supervised start", f"{self.job.warm_start_steps} steps"),
            ("self-play", f"{args.max_steps} of {num} episodes"),
            ("credit", code(f"{args.credit} {args.credit_args or ''}")),
        ]
        save_cards(CardSource(self.folder, base, *told, "by self-play", TAGS, rows))
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
        best = self.best, self.job.save_best, self.job.evaluate_every
        lines = [best_line(self.folder, *best)]
        lines += closing_lines(self.folder, plans, self.args)
        lines += rollouts_lines(self.folder, self.job.saved_groups, self.args)
        self.say("\n".join(lines))

    opening = (
        Stage("start", make_start, START),
        Stage("measure", measure_start),
        Stage("trainer", make_trainer),
    )
    stages = (
        Stage("train", train),
        Stage("save", Run.save_model),
        Stage("close", close),
    )
