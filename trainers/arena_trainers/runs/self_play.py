"""The trainer of a job, with the callbacks that measure, show and write.

What a training run prints before self-play.

The job of `arena train`: warm start, self-play, evaluation, results.
"""

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch
from rich.console import Console
from transformers import PrinterCallback
from transformers.utils.logging import disable_progress_bar

from arena_trainers.checkpoint import step_of
from arena_trainers.evaluate import legal_rate
from arena_trainers.evaluate.intervals import import_stats
from arena_trainers.lm.models import model_folder
from arena_trainers.lm.policy import LMPolicy
from arena_trainers.runs.folder import (
    METRICS,
    RESULTS,
    START,
    begin_from,
    extend,
    finish_model,
    new_folder,
    partial,
)
from arena_trainers.runs.progress import (
    Look,
    figures_of,
    profile_lines,
    profile_of,
    shown_progress,
    watched_stages,
)
from arena_trainers.runs.results.card import check_push, push_model, write_cards
from arena_trainers.runs.results.close import (
    best_line,
    closing_lines,
    config_text,
    draw_comparisons,
    draw_curves,
    frame_of,
    outcome_tables,
    provenance,
    read_metrics,
    results_of,
    rollouts_lines,
    step_zero,
    write_last_report,
)
from arena_trainers.runs.results.measure import GameMeter, GameOutcome
from arena_trainers.runs.run import StopCallback, Stopper
from arena_trainers.runs.settings import PROJECT, JobConfig, build_configs
from arena_trainers.runs.start import (
    check_chat,
    check_reply_lengths,
    load_tokenizer,
    longest_replies,
    make_start,
)
from arena_trainers.runs.watch import (
    AgainstStart,
    BestModel,
    CollapseWarnings,
    MetricsFile,
    NashConvCallback,
    Patience,
    RolloutsFile,
    SampleReplies,
    escaped,
    score_metric,
)
from arena_trainers.train.batch import check_reward_models
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.games import GamePlan, different_games
from arena_trainers.train.matching import prepare_games
from arena_trainers.train.records import load_functions
from arena_trainers.train.saved import describe
from arena_trainers.train.trainer import TurnGRPOTrainer
from arena_wrappers import Episode, RandomPolicy, Turn, play, write_episodes
from arena_wrappers.records import whole_file


class Watched(NamedTuple):
    """A trainer and what reads its figures.

    Attributes:
        trainer: the trainer.
        nash_conv: measures the first game; None if it is not measured in training.
        best: keeps the best model; None if no score is measured, or it is not wanted.
    """

    trainer: TurnGRPOTrainer
    nash_conv: NashConvCallback | None
    best: BestModel | None


def _trainer(run: "TrainingJob", metrics: MetricsFile) -> TurnGRPOTrainer:
    with adapter_errors(run.job):
        return TurnGRPOTrainer(
            str(run.start),
            run.args,
            processing_class=run.tokenizer,
            games=run.games,
            callbacks=[metrics],
            peft_config=run.job.peft_config,
        )


@contextmanager
def adapter_errors(job: JobConfig) -> Iterator[None]:
    """Says what to do where an adapter names layers that the model lacks.

    Raises:
        ValueError: it does.
    """
    try:
        yield
    except ValueError as error:
        if not str(error).startswith("Target modules"):  # peft's
            raise
        raise ValueError(
            "want lora_target_modules that name linear layers of the model, such as "
            f"q_proj,v_proj, got {job.lora_target_modules!r}"
        ) from error


def watched_trainer(run: "TrainingJob") -> Watched:
    """The trainer of a job whose start is made."""
    if "wandb" in (run.args.report_to or ()):  # transformers passes on no project
        project = getattr(run.args, "project", PROJECT)
        os.environ.setdefault("WANDB_PROJECT", project)
    metrics = MetricsFile(run.folder / METRICS)
    trainer = _trainer(run, metrics)
    trainer.remove_callback(PrinterCallback)
    groups = run.folder / "rollouts", run.job.saved_groups
    trainer.add_callback(RolloutsFile(trainer, *groups))
    shown = run.console, run.job.steps_between_replies
    trainer.add_callback(SampleReplies(trainer, *shown))
    before = metrics_before(run)
    if run.checkpoint is None and run.is_main:
        metrics.append(step_zero([(m.plan.name, m.stages[1]) for m in run.meters]))
    watcher = _nash_conv(run, trainer, before)
    _play_start(run, trainer)
    best = _best(run, trainer, watcher is not None, before)
    if run.job.warn_collapse and run.is_main:
        trainer.add_callback(CollapseWarnings(run.say, before))
    return Watched(trainer, watcher, best)


def _play_start(run: "TrainingJob", trainer: TurnGRPOTrainer) -> None:
    """Measures the model against that of the start, if that is wanted."""
    if run.job.start_episodes == 0:
        return
    if run.args.use_vllm and run.args.vllm_mode == "server":
        raise ValueError(
            "start_episodes needs the weights of every step, and a server gets them only "
            "between batches; set start_episodes to 0, or vllm_mode to 'colocate'"
        )
    policy = start_policy(run) if run.is_main else None
    every = run.job.evaluate_every
    watcher = AgainstStart(trainer, policy, every, run.job.start_episodes)
    # before the file, so that the file has the figures
    trainer.callback_handler.callbacks.insert(0, watcher)


def _best(
    run: "TrainingJob",
    trainer: TurnGRPOTrainer,
    measures_nash_conv: bool,
    before: list[dict[str, Any]],
) -> BestModel | None:
    """Keeps the best model, and ends the run when its score no longer improves.

    Raises:
        ValueError: patience without a score.
    """
    plays_start, patience = run.job.start_episodes > 0, run.job.patience
    metric = score_metric(
        run.games.plans,
        measures_nash_conv,
        plays_start,
        bool(run.args.curriculum),
        run.args.opponents,
    )
    if metric is None:
        if patience:
            raise ValueError(
                f"want patience only where training measures a score, got {patience}; set "
                "evaluate_every, or start_episodes in a run of one game"
            )
        return None
    best = None
    if run.job.save_best:
        best = BestModel(trainer, run.folder, metric)
        trainer.add_callback(best)
    if patience:
        window = run.args.window
        trainer.add_callback(Patience(metric, patience, window, run.say, before))
    return best


def _nash_conv(
    run: "TrainingJob", trainer: TurnGRPOTrainer, before: list[dict[str, Any]]
) -> NashConvCallback | None:
    """Measures the first game in training, if it can be; goes on after `before`."""
    game, every = run.meters[0].game, run.job.evaluate_every
    if game is None or every == 0:
        return None
    whole = trainer.shards.whole_weights
    watcher = NashConvCallback(trainer.policy, game, run.args.prompt, every, whole)
    watcher.history += [
        (r["step"], r["arena/nash_conv"]) for r in before if "arena/nash_conv" in r
    ]
    # before the file, so that the file has the figure
    trainer.callback_handler.callbacks.insert(0, watcher)
    return watcher


def start_policy(run: "TrainingJob") -> LMPolicy:
    """The model that self-play starts from, prompted and sampled as in training."""
    return LMPolicy.from_pretrained(
        run.start,
        device=run.args.device,
        prompt=run.args.prompt,
        **run.args.sampling_options,
    )


def metrics_before(run: "TrainingJob") -> list[dict[str, Any]]:
    """The metrics up to the checkpoint, in the main process; deletes later ones."""
    if run.checkpoint is None or not run.is_main:
        return []
    return kept_metrics(run.folder / METRICS, run.first_step)


def kept_metrics(path: Path, last_step: int) -> list[dict[str, Any]]:
    """The metrics up to a step; deletes later ones from the file."""
    if not path.exists():
        return []
    kept = [r for r in read_metrics(path) if r["step"] <= last_step]
    with whole_file(path) as file:
        file.writelines(json.dumps(record) + "\n" for record in kept)
    return kept


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
    """How many tokens run through the model at once in training."""
    given = args.max_tokens_per_forward is not None
    source = "as given" if given else "from the free memory and the model's size"
    return (
        f"at most {max_tokens:,} tokens run at once in training "
        f"(max_tokens_per_forward, {source})"
    )


def legal_warning(
    game: str, episodes: Sequence[Episode], job: JobConfig, args: TurnGRPOConfig
) -> str | None:
    """A warning, if hardly any reply of the model is a legal action; else None.

    Args:
        game: name of the game.
        episodes: self-play before training.
        job: the job's settings.
        args: the trainer's settings.
    """
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


class TrainingJob:
    """One run of `arena train` in its folder.

    Args:
        settings: options by name, see `arena_trainers.runs.settings`.
        folder: the run folder.
        console: where progress and results are shown.
        resume: whether to go on from the folder's last checkpoint.
        recipe: name of the recipe, for the results.
        extended: whether a resumed run has another `max_steps` than before.
        stopper: ends training early, at a checkpoint.

    Raises:
        ValueError: an option is unknown, of another type or out of range; the folder is in
            use, or has nothing to resume. Then nothing has been written.
    """

    def __init__(
        self,
        settings: dict[str, Any],
        folder: Path,
        console: Console,
        *,
        resume: bool = False,
        recipe: str | None = None,
        extended: bool = False,
        stopper: Stopper | None = None,
    ) -> None:
        import_stats()  # fails now if scipy is missing, not after hours of training
        self.settings, self.folder, self.console = settings, folder, console
        self.recipe, self.extended = recipe, extended
        self.stopper = stopper or Stopper()
        self.job, self.args = build_configs(settings, str(folder))
        disable_progress_bar()  # of transformers; the run has its own
        plans = [GamePlan(spec, self.args) for spec in self.args.games]
        self.is_tiny = self.job.model == "tiny"
        # absolute, as the adapters that are trained on it name it
        self.model = None if self.is_tiny else model_folder(self.job.model).absolute()
        warm = self.job.warm_start_steps > 0
        self.start = folder / START if self.model is None or warm else self.model
        told = self.start, self.args, self.say
        self.checkpoint = begin_from(folder, *told, resume=resume)
        self.tokenizer = load_tokenizer(self.job, self.model, plans, self.args.prompt)
        lengths = longest_replies(self.tokenizer, plans, self.args.reply_format)
        if self.is_tiny and "max_completion_length" not in settings:
            self.args.max_completion_length = max(lengths)
        check_reply_lengths(lengths, plans, self.args)
        check_chat(self.tokenizer, self.args)
        functions = load_functions(self.job.columns)
        check_reward_models(functions, self.tokenizer, self.args)
        self.games = prepare_games(self.args, columns=functions, plans=plans)
        num, games = self.job.eval_episodes, different_games(plans)
        self.meters = [GameMeter(game, self.args, num) for game in games]

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and prints."""
        return bool(self.args.process_index == 0)

    def prepare(self) -> None:
        """Makes the folder, the model that self-play starts from, and the trainer.

        Raises:
            ValueError: they cannot be made; the folder of a new run is removed again.
        """
        self._began = time.monotonic()
        if self.is_main:
            check_push(self.args)
        if self.is_tiny:
            torch.set_num_threads(1)  # more make a model this small many times slower
        is_new = self.checkpoint is None and self.is_main
        config = config_text(self.settings, self.args)
        with new_folder(self.folder, config) if is_new else nullcontext():
            made_here = self.start == self.folder / START
            if made_here and self.checkpoint is None:
                self._make_start()
            self.args.distributed_state.wait_for_everyone()
            if self.is_main:
                self._measure_start()
            self.trainer, self.watcher, self.best = watched_trainer(self)
            if self.is_main:
                self.say(memory_line(self.trainer.forward.max_tokens, self.args))

    def _make_start(self) -> None:
        """Every process trains the start; the main one saves it."""
        console = self.console if self.is_main else Console(quiet=True)
        model = make_start(
            self.job, self.args, self.model, self.tokenizer, self.games.plans, console
        )
        if self.is_main:
            options = {"prompt": self.args.prompt, **self.args.sampling_options}
            part = self.folder / partial(START)
            LMPolicy(model, self.tokenizer, **options).save_pretrained(part)
            finish_model(part, self.start)
        del model
        torch.cuda.empty_cache()  # an engine asks how much memory is free

    def run(self) -> dict[str, Any]:
        """Trains and evaluates; writes the results to the folder.

        Returns:
            The results; an empty dict in other processes than the main one.
        """
        self._announce()
        with watched_stages(self.trainer, self.job.stall_after) as watchdog:
            seconds, steps = self._train(self.trainer)
            watchdog.begin(last := "evaluation after training")
            for meter in self.meters:  # a long evaluation that goes on is not late
                meter.beat = lambda: watchdog.begin(last)
            # an internal call, as another one pushes the whole run folder to the hub
            self.trainer.save_model(str(self.folder / "model"), _internal_call=True)
            exact = any(meter.game is not None for meter in self.meters)
            with self.trainer.shards.weights_for_play(scores=exact):
                return self._closing(seconds, steps) if self.is_main else {}

    def _closing(self, seconds: float, steps: int) -> dict[str, Any]:
        """Evaluates the trained model, and writes and shows the results."""
        policy, last = self.trainer.policy, "after self-play"
        tables = self.watcher.tables if self.watcher else {}
        # the first game may have been measured at the last step
        known = tables.get(self.trainer.state.global_step)
        episodes = [
            meter.measure(last, policy, None if number else known)
            for number, meter in enumerate(self.meters)
        ]
        outcomes = [
            GameOutcome(m.plan.name, m.stages, m.evaluate(policy), m.compare())
            for m in self.meters
        ]
        late = self.watcher.last_quarter_mean() if self.watcher else None
        results = {
            **results_of(outcomes, late),
            "episodes_per_second": round(steps * self._episodes_per_step / seconds, 1),
            "profile": self.profile,
            "best": self.best and self.best.best and asdict(self.best.best),
            "seconds": round(time.monotonic() - self._began, 1),
            "recipe": self.recipe,
            **provenance(self.job, self.args, self.games.plans),
        }
        self._write(results, episodes, outcomes)
        self._show(outcomes)
        if self.args.push_to_hub:
            self.say(push_model(self.folder, self.trainer))
        return results

    def _announce(self) -> None:
        """Prints from where a resumed run goes on, and writes its new `max_steps`."""
        if self.checkpoint is None or not self.is_main:
            return
        if self.extended:
            extend(self.folder, self.args.max_steps, self.first_step)
        self.console.print(describe(self.first_step, self.args, self.extended))

    @property
    def first_step(self) -> int:
        """The optimizer steps before this process began: those of the checkpoint."""
        return step_of(self.checkpoint) if self.checkpoint else 0

    def _train(self, trainer: TurnGRPOTrainer) -> tuple[float, int]:
        """Runs the trainer; returns the seconds and the optimizer steps that it took."""
        began = time.monotonic()
        look = Look("self-play", "episodes", self._episodes_per_step, figures_of)
        with shown_progress(trainer, self.console, self.is_main, look):
            trainer.add_callback(StopCallback(self.stopper, self.args.window))
            checkpoint = str(self.checkpoint) if self.checkpoint else None
            with self.stopper.waiting():
                trainer.train(resume_from_checkpoint=checkpoint)
        self.profile = profile_of(trainer.clock)  # before the last evaluation
        self.stopper.raise_if_stopped(
            trainer.state.global_step, trainer.state.max_steps
        )
        return time.monotonic() - began, trainer.state.global_step - self.first_step

    def _measure_start(self) -> None:
        """Measures the start of self-play; warns if hardly any of its replies is legal."""
        policy = start_policy(self)
        self.say(description(policy, self.games.plans, self.args))
        for meter in self.meters:
            episodes = meter.measure("before self-play", policy)
            warning = legal_warning(meter.plan.name, episodes, self.job, self.args)
            if warning is not None:
                self.say(warning)

    def _write(
        self,
        results: dict[str, Any],
        episodes: list[list[Episode]],
        outcomes: list[GameOutcome],
    ) -> None:
        share = -(-self.job.saved_episodes // len(episodes))  # of each game
        write_episodes(
            self.folder / "episodes.jsonl",
            [episode for played in episodes for episode in played[:share]],
        )
        with whole_file(self.folder / RESULTS) as file:  # it ends a live report
            file.write(json.dumps(results, indent=2) + "\n")
        plans = [meter.plan for meter in self.meters]
        frame = frame_of(self.job, self.args, plans, outcomes)
        folder = self.folder
        draw_curves(read_metrics(folder / METRICS), folder / "curves.png", frame)
        comparisons = [o.comparison for o in outcomes if o.comparison is not None]
        if comparisons:
            draw_comparisons(comparisons, self.folder / "policy.png")
        write_cards(self, outcomes, results)
        write_last_report(self.folder)

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

    def say(self, text: str) -> None:
        """Prints a text as it is, so that its lines can be copied."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    @property
    def _episodes_per_step(self) -> int:
        args = self.args
        return round((args.generation_batch_size or 0) * args.generations_per_step)
