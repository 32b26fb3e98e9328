"""Callbacks of a run: NashConv, metrics, rollouts, the best model, patience, collapse, replies.

**The best model** is in `RUN/best/`. In a run of one game against opponents that stay the same, such
as `opponents: random`, its score is the mean return of the seats that learn, in the training
episodes since the last log; higher is better. Else it is the exact NashConv of the first game where
it is measured in training; lower is better. Else, in a run of one game that is cooperative or has one
seat, it is the mean return of all seats in the training episodes since the last log. Else, in a run
of one game with `start_episodes`, it is the score against the start. Other runs keep none: in
self-play of a competitive game the returns of all seats add up to a constant. A resumed run goes on
from `best/best.json`, also if that is of a step beyond its checkpoint.

**The score against the start** is a mean over episodes with seeds of their own, the same at each
measurement, so that the start itself has score 0 on average. In a competitive or mixed game the
learner has one seat, which rotates; an episode counts with its return minus the mean return of the
others. In a cooperative game, or one with a single seat, each of the two plays all seats, and the
difference of their mean returns counts.

**Warnings of collapse**: a figure crossed its limit. The limits are rules of thumb; training goes on.

| figure | warning |
|---|---|
| `entropy` of tokens | below 10 % of the first log's |
| `arena/legal_rate` | more than 0.2 below the highest so far |
| `arena/reply_tokens` | below half, or above twice, the first log's |
| `arena/<game>/against_start` | below 0 by more than two standard errors |
"""

import json
import math
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from accelerate.utils import gather_object
from transformers import TrainerControl, TrainerState

from arena_envs.extras import import_extra
from arena_envs.game import AnyGame
from arena_envs.solvers import Table, nash_conv
from arena_eval import tabular
from arena_eval.rollouts import Rollout, write_rollouts
from arena_studio.report.episodes import title_of
from arena_trainers.data.rollouts import joined, trees_of, turn_credits
from arena_trainers.runs.folder import partial
from arena_trainers.runs.progress import Callback
from arena_trainers.terminal import Console
from arena_trainers.train.games import GamePlan, different_games
from arena_trainers.train.metrics import advantage_by_turn
from arena_wrappers import (
    EpisodePlan,
    Policy,
    PromptOptions,
    ScoringPolicy,
    play,
    play_plans,
)

if TYPE_CHECKING:
    from transformers import TrainerCallback

    from arena_trainers.train.trainer import TurnGRPOTrainer

MAX_SHOWN = 200  # characters


def escaped(text: str) -> str:
    r"""The start of a text in quotes: ASCII alone, without control characters.

    >>> print(escaped("bet" + chr(27) + "[2J"))
    'bet\x1b[2J'
    """
    return ascii(text[:MAX_SHOWN]) + ("..." if text[MAX_SHOWN:] else "")


MAX_EPISODES = 4  # at each log
MAX_TURNS = 40  # of each episode
MAX_TEXT = 2000  # characters of a text in a table
COLUMNS = {
    **dict.fromkeys(("episode", "turn", "seat", "policy", "prompt", "reply"), ""),
    **{"reward": "g", "advantage": "+.4g", "estimator": "", "return": "g"},
}  # of a table of turns, with their formats


def track(
    callbacks: Sequence["TrainerCallback"], step: int, rollouts: Sequence[Rollout]
) -> None:
    """Sends turns to TensorBoard and trackio, where the trainer reports to these.

    TensorBoard gets a table as text, with the tag `turns`. Trackio gets a trace for each
    turn under the same name.

    Args:
        callbacks: of the trainer; transformers' own are known by their class.
        step: the optimizer step.
        rollouts: training episodes with their credit.
    """
    turns = traces_of(rollouts, step)
    for callback in callbacks:
        name = type(callback).__name__
        writer = getattr(callback, "tb_writer", None)
        if name == "TensorBoardCallback" and writer is not None:
            writer.add_text("turns", markdown_table(turns), step)
        elif name == "TrackioCallback":
            trackio = import_extra("trackio", "track")
            traces = [trackio.Trace(**turn) for turn in turns]
            trackio.log({"turns": traces, "train/global_step": step})


def traces_of(rollouts: Sequence[Rollout], step: int) -> list[dict[str, Any]]:
    """The first turns of the first episodes: prompt and reply as messages, the rest as metadata.

    The advantage is the mean over the tokens where these are credited. A turn that is not
    trained has none.
    """
    traces = []
    for episode, credit in rollouts[:MAX_EPISODES]:
        turns = zip(episode.turns[:MAX_TURNS], credit, strict=False)
        for place, (turn, earned) in enumerate(turns):
            reply = {"role": "assistant", "content": turn.reply}
            advantage = None if earned is None else earned.advantage
            if isinstance(advantage, Sequence):
                advantage = sum(advantage) / max(len(advantage), 1)
            told = {
                "step": step,
                "episode": title_of(episode),
                "turn": place,
                "seat": turn.seat,
                "policy": turn.policy,
                "reward": turn.reward,
                "rewards": dict(turn.rewards),
                "advantage": advantage,
                "estimator": None if earned is None else earned.estimator,
                "return": episode.returns[turn.seat],
                "invalid": turn.invalid,
            }
            messages = [*map(dict, turn.messages), reply]
            traces.append({"messages": messages, "metadata": told})
    return traces


def markdown_table(traces: Sequence[Mapping[str, Any]]) -> str:
    """A table of turns in Markdown, in which texts of players have no effect."""
    lines = [COLUMNS, ["---"] * len(COLUMNS), *map(_row, traces)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _row(trace: Mapping[str, Any]) -> list[str]:
    *asked, reply = (message["content"] for message in trace["messages"])
    texts = {"prompt": "".join(asked[-1:])[-MAX_TEXT:], "reply": reply[:MAX_TEXT]}
    told = trace["metadata"] | texts
    cells = [(told[name], look) for name, look in COLUMNS.items()]
    return [_entities("" if x is None else format(x, look)) for x, look in cells]


def _entities(text: str) -> str:
    """The text with each character that Markdown or HTML reads as an entity."""
    return "".join(
        c if c.isalnum() or c in " +-.,:" else f"&#{ord(c)};" if c != "\n" else "<br>"
        for c in text
    )


class Measuring(Callback):
    """Measures the policy every so many steps, and adds the figures to the log of the step.

    Args:
        every: steps between measurements.
        weights: makes a context in which the main process can use the policy by itself;
            every process enters it.
    """

    def __init__(
        self, every: int, weights: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self.every, self.weights = every, weights
        self._found: tuple[int, dict[str, float]] = (-1, {})

    def stepped(self, state: TrainerState, control: TrainerControl) -> None:
        if state.global_step % self.every == 0:
            with self.weights():
                if state.is_world_process_zero:  # the others only log when it does
                    self._found = state.global_step, self.measure(state)
            control.should_log = True

    def logged(self, state: TrainerState, logs: dict[str, Any]) -> None:
        step, found = self._found
        if step == state.global_step:
            logs.update(found)

    def measure(self, state: TrainerState) -> dict[str, float]:
        """The figures at this step, by their names in the log."""
        raise NotImplementedError


class NashConvCallback(Measuring):
    """Measures the exact NashConv of a policy every so many steps.

    Args:
        policy: the policy that learns.
        game: the rules.
        options: what its prompts contain.
        every: as for `Measuring`.
        weights: as for `Measuring`.

    Attributes:
        history: (step, NashConv) pairs.
        tables: the action probabilities of the last measurement, by its step.
    """

    def __init__(
        self,
        policy: ScoringPolicy,
        game: AnyGame,
        options: PromptOptions,
        every: int,
        weights: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        super().__init__(every, weights)
        self.policy, self.game, self.options = policy, game, options
        # a resumed run adds the measurements before it
        self.history: list[tuple[int, float]] = []
        self.tables: dict[int, Table] = {}
        self._last_step = 0

    def begun(self, state: TrainerState) -> None:
        self._last_step = state.max_steps

    def last_quarter_mean(self) -> float | None:
        """Mean over the measurements in the last quarter of the steps."""
        late = [conv for step, conv in self.history if step > 0.75 * self._last_step]
        return sum(late) / len(late) if late else None

    def measure(self, state: TrainerState) -> dict[str, float]:
        table, _ = tabular(self.policy, self.game, self.options)
        self.history.append((state.global_step, nash_conv(self.game, table)))
        self.tables = {state.global_step: table}
        return {NASH_CONV: self.history[-1][1]}


class MetricsFile(Callback):
    """Appends every log to a file of JSON lines.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def logged(self, state: TrainerState, logs: dict[str, Any]) -> None:
        if not state.is_world_process_zero:
            return
        self.append({"step": state.global_step, **logs})

    def append(self, record: dict[str, Any]) -> None:
        """Adds a record; NaN and infinity become null, because JSON has neither."""
        finite = {
            key: None
            if isinstance(value, float) and not math.isfinite(value)
            else value
            for key, value in record.items()
        }
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(finite) + "\n")


class RolloutsFile(Callback):
    """Writes some training groups with their credit at each logging step.

    All processes call it; the main process writes `step-N.jsonl`, see
    `arena_eval.rollouts`, and sends the first turns to experiment trackers.

    Args:
        trainer: the trainer; its latest generation batch is written.
        folder: where the files go.
        num_groups: groups in each file; 0 for no files.
    """

    def __init__(
        self, trainer: "TurnGRPOTrainer", folder: Path, num_groups: int
    ) -> None:
        self.trainer, self.folder, self.num_groups = trainer, folder, num_groups

    def stepped(self, state: TrainerState, control: TrainerControl) -> None:
        every = max(int(state.logging_steps), 1)
        if self.num_groups == 0 or state.global_step % every:
            return
        rollouts = training_groups(self.trainer, self.num_groups)
        if state.is_world_process_zero:
            self.folder.mkdir(exist_ok=True)
            write_rollouts(self.folder / f"step-{state.global_step}.jsonl", rollouts)
            callbacks = self.trainer.callback_handler.callbacks
            track(callbacks, state.global_step, rollouts)


def training_groups(trainer: "TurnGRPOTrainer", num_groups: int) -> list[Rollout]:
    """The first whole groups of the latest generation batch, with their credit.

    Every process must call it; all get the same result.
    """
    episodes, games = trainer.last_episodes, trainer.last_played.games
    own = turn_credits(
        episodes,
        trainer.last_selected.records,
        trainer.last_selected.rows,
        trainer.last_turns,
        trainer.last_credit,
        estimator=trainer.args.credit,
        weighting=trainer.args.weighting,
        part_weights=trainer.credit.weights,
    )
    roots = [g for g, e in zip(games, episodes, strict=True) if e.parent is None]
    pairs = zip(roots, trees_of(own), strict=True)
    trees = [((game, tree[0].episode.seed), tree) for game, tree in pairs]
    starts = gather_object([start for start, _ in trees])
    chosen = list(dict.fromkeys(starts))[:num_groups]
    found = gather_object([entry for entry in trees if entry[0] in chosen])
    return joined(tree for start in chosen for key, tree in found if key == start)


SCORE = "against_start"  # of metrics: arena/<game>/against_start


class AgainstStart(Measuring):
    """Measures the learner against the start every so many steps.

    Every process has it; the main one plays. The start's model stays in its memory.

    Args:
        trainer: its policy learns.
        start: the policy of the start; None in other processes.
        every: steps between measurements.
        num_episodes: of each measurement and game.
    """

    def __init__(
        self,
        trainer: "TurnGRPOTrainer",
        start: Any,
        every: int,
        num_episodes: int,
    ) -> None:
        super().__init__(every, trainer.sharded_weights.weights_for_play)
        self.trainer, self.start, self.num_episodes = trainer, start, num_episodes

    def measure(self, state: TrainerState) -> dict[str, float]:
        found: dict[str, float] = {}
        for plan in different_games(self.trainer.games.plans):
            own = self.trainer.matching.learner
            mean, error = score_against(plan, own, self.start, self.num_episodes)
            name = f"arena/{plan.name}/{SCORE}"
            found |= {name: mean, f"{name}_error": error}
        return found


def score_against(
    plan: GamePlan, learner: Policy, start: Policy, num_episodes: int
) -> tuple[float, float]:
    """The score of one policy against another in a game, with its standard error."""
    num_seats, seeds = plan.game.num_players, range(num_episodes)
    if num_seats == 1 or plan.game.kind == "cooperative":
        one, other = (
            play(plan.env_fn, who, seeds, on_error="raise") for who in (learner, start)
        )
        values = [
            float(np.mean(a.returns) - np.mean(b.returns))
            for a, b in zip(one, other, strict=True)
        ]
    else:
        plans = []
        for seed in seeds:
            seats = [start] * num_seats
            seats[seed % num_seats] = learner
            plans.append(EpisodePlan(plan.env_fn, seats, seed))
        values = []
        for seed, episode in zip(
            seeds, play_plans(plans, on_error="raise"), strict=True
        ):
            returns = list(episode.returns)
            own = returns.pop(seed % num_seats)
            values.append(own - float(np.mean(returns)))
    error = float(np.std(values, ddof=1)) / num_episodes**0.5
    return float(np.mean(values)), error


FOLDER, FILE = "best", "best.json"
NASH_CONV, RETURN = "arena/nash_conv", "mean return"
LEARNERS = "mean return of the seats that learn"
HELD_OUT = "score against the start"
NO_SCORE = (
    "no best model is kept: training measured no score. It measures the exact NashConv of "
    "a small game if evaluate_every is above 0 (not of an agent or roles), the mean return of one cooperative game or "
    "against opponents that stay the same, and with start_episodes the score of one game against the start"
)


@dataclass(frozen=True)
class BestScore:
    """The best model so far.

    Attributes:
        step: optimizer steps that it has been trained for.
        score: its score.
        metric: `NASH_CONV`, where lower is better, or `RETURN`, `LEARNERS` or `HELD_OUT`.
    """

    step: int
    score: float
    metric: str

    def __str__(self) -> str:
        name = "exact NashConv" if self.metric == NASH_CONV else self.metric
        return f"step {self.step}, {name} {self.score:.4f}"


def read_best(folder: Path) -> BestScore | None:
    """The best model of a run folder, by its `best/best.json`; None if there is none.

    Raises:
        ValueError: the file is not one that a run wrote.
    """
    path = folder / FOLDER / FILE
    if not path.is_file():
        return None
    try:
        return BestScore(**json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError):
        raise ValueError(
            f"want step, score and metric in {str(path)!r}, got something else; move the "
            "folder away, and the run finds a new best model"
        ) from None


def score_metric(
    plans: Sequence[GamePlan],
    measures_nash_conv: bool,
    plays_start: bool = False,
    has_curriculum: bool = False,
) -> str | None:
    """The name of the score; None if nothing fit is measured.

    Args:
        plans: the games.
        measures_nash_conv: whether the first game's NashConv is measured in training.
        plays_start: whether the model plays against that of the start in training.
        has_curriculum: whether games change in training, so that returns of different steps
            cannot be compared.
    """
    game = plans[0].game
    if plans[0].lineups and len(plans) == 1 and not has_curriculum:
        return LEARNERS
    if measures_nash_conv:
        return NASH_CONV
    if len(plans) > 1:
        return None
    is_common = game.num_players == 1 or game.kind == "cooperative"
    if is_common and not has_curriculum:
        return RETURN
    return HELD_OUT if plays_start else None


class BestModel(Callback):
    """Saves the model whenever its score is better than all before.

    All processes call it at each log; the main one measures, and decides.

    Args:
        trainer: saves its model.
        folder: the run folder.
        metric: what `score_metric` says.
    """

    def __init__(self, trainer: "TurnGRPOTrainer", folder: Path, metric: str) -> None:
        self.trainer, self.folder, self.metric = trainer, folder, metric
        if trainer.args.should_save:
            finish_swap(folder)
        self.best = read_best(folder)

    def logged(self, state: TrainerState, logs: dict[str, Any]) -> None:
        if "loss" not in logs:
            return  # the summary at the end
        score, found = score_of(logs, self.metric), None
        before = None if self.best is None else self.best.score
        if score is not None and is_better(self.metric, score, before):
            found = BestScore(state.global_step, score, self.metric)
        better = gather_object([found])[0]
        if better is not None:
            self.best = better
            self._save(better)

    def _save(self, best: BestScore) -> None:
        """Every process takes part, as for a checkpoint; the old model goes last."""
        part = self.folder / partial(FOLDER)
        self.trainer.save_model(str(part), _internal_call=True)
        if self.trainer.args.should_save:
            (part / FILE).write_text(json.dumps(asdict(best)) + "\n", encoding="utf-8")
            finish_swap(self.folder)


def is_better(metric: str, score: float, best: float | None) -> bool:
    """Whether a score is better than the best before, if there is one.

    >>> is_better("mean return", 1.0, None), is_better("arena/nash_conv", 0.2, 0.1)
    (True, False)
    """
    sign = -1 if metric == NASH_CONV else 1
    return best is None or sign * score > sign * best


def score_of(logs: Mapping[str, Any], metric: str) -> float | None:
    """The score in a log, or None if the log has no finite score.

    >>> logs = {"arena/hanabi/player_0/return": 2.0}
    >>> score_of(logs | {"arena/hanabi/against/random/return": 0.0}, "mean return")
    2.0
    >>> score_of(logs | {"arena/hanabi/against/random/return": 1.0}, LEARNERS)
    1.0
    """
    names = [NASH_CONV]
    if metric != NASH_CONV:
        end = f"/{SCORE}" if metric == HELD_OUT else "/return"
        names = [n for n in logs if n.startswith("arena/") and n.endswith(end)]
        names = [n for n in names if ("/against/" in n) == (metric == LEARNERS)]
    values = [logs[name] for name in names if logs.get(name) is not None]
    score = sum(values) / len(values) if values else math.nan
    return score if math.isfinite(score) else None


def finish_swap(folder: Path) -> None:
    """Puts a complete `best.part` in the place of `best`; removes an incomplete one.

    `best.json` is the last file of a model, so a folder that has it is complete. A run that
    was killed at any line of this function finishes it when it resumes.
    """
    best, part, old = (folder / name for name in (FOLDER, partial(FOLDER), "best.old"))
    if (part / FILE).is_file():
        shutil.rmtree(old, ignore_errors=True)
        if best.exists():
            best.rename(old)
        part.rename(best)
    for left in (part, old):
        shutil.rmtree(left, ignore_errors=True)


class Patience(Callback):
    """Counts evaluations since the best score; a log with a score is an evaluation.

    All processes call it; the main one counts. The run ends between generation batches, with
    a checkpoint. A run that was ended so and is resumed counts anew.

    Args:
        metric: of `score_metric`.
        patience: evaluations without a better score after which the run ends.
        window: optimizer steps that share a generation batch.
        say: takes the line that tells why the run ends, in the main process.
        before: the logs before the checkpoint that a run resumes from.
    """

    def __init__(
        self,
        metric: str,
        patience: int,
        window: int,
        say: Callable[[str], object],
        before: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.metric, self.patience, self.window = metric, patience, window
        self.say = say
        self.waited = 0
        self._best: float | None = None
        self._is_over = False
        for logs in before:
            self._count(logs)
        if self.waited >= patience:
            self.waited = 0

    def on_log(
        self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if "loss" not in kwargs["logs"]:
            return  # the summary at the end
        self._count(kwargs["logs"])
        waited = gather_object([self.waited])[0]
        if waited >= self.patience and not self._is_over:
            self._is_over = True
            if state.is_world_process_zero and state.global_step < state.max_steps:
                self.say(
                    f"training ends at step {state.global_step} of {state.max_steps}: "
                    f"{self.metric} has not improved for {waited} evaluations (patience)"
                )
        self.stepped(state, control)  # ends the run at this step already

    def stepped(self, state: TrainerState, control: TrainerControl) -> None:
        """Ends the run once it is over and no generation batch is in use."""
        if self._is_over and state.global_step % self.window == 0:
            control.should_save = control.should_training_stop = True

    def _count(self, logs: Mapping[str, Any]) -> None:
        score = score_of(logs, self.metric) if "loss" in logs else None
        if score is None:
            return
        self.waited += 1
        if is_better(self.metric, score, self._best):
            self._best, self.waited = score, 0


ENTROPY, LEGAL, TOKENS = "entropy", "arena/legal_rate", "arena/reply_tokens"


class CollapseWarnings(Callback):
    """Warns of figures in the logs that crossed their limits; for the main process.

    Args:
        say: takes a warning.
        before: the logs before the checkpoint that a run resumes from.
    """

    def __init__(
        self, say: Callable[[str], object], before: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        self.say = say
        self._first: dict[str, float] = {}
        self._highest_rate = 0.0
        self._crossed: set[str] = set()
        for logs in before:
            self.look(logs)

    def logged(self, state: TrainerState, logs: dict[str, Any]) -> None:
        for text in self.look(logs):
            self.say(f"warning: step {state.global_step}: {text}")

    def look(self, logs: Mapping[str, Any]) -> list[str]:
        """A line for each figure of a log that crosses its limit."""
        if "loss" not in logs:
            return []  # before training, and the summary at the end
        for name in (ENTROPY, TOKENS):
            if logs.get(name) is not None:
                self._first.setdefault(name, logs[name])
        self._highest_rate = max(self._highest_rate, logs.get(LEGAL) or 0.0)
        problems = dict(self._problems(logs))
        new = [text for name, text in problems.items() if name not in self._crossed]
        unseen = {name for name in self._crossed if logs.get(name) is None}
        self._crossed = {*problems, *unseen}
        return new

    def _problems(self, logs: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """The figures beyond their limits, each with its warning."""
        advice = "compare with an earlier checkpoint, lower learning_rate or raise beta"
        entropy, tokens, legal = (logs.get(n) for n in (ENTROPY, TOKENS, LEGAL))
        if entropy is not None and entropy < 0.1 * self._first[ENTROPY]:
            first = self._first[ENTROPY]
            yield (
                ENTROPY,
                f"the entropy of tokens fell from {first:.3g} to {entropy:.3g}, so "
                f"groups hardly differ; {advice}",
            )
        if legal is not None and legal < self._highest_rate - 0.2:
            yield (
                LEGAL,
                f"the rate of legal replies fell from {self._highest_rate:.2f} to "
                f"{legal:.2f}; {advice}",
            )
        first = self._first.get(TOKENS, 0.0)
        if tokens is not None and not first / 2 <= tokens <= 2 * first:
            yield (
                TOKENS,
                f"replies went from {first:.3g} tokens to {tokens:.3g}; read some of them "
                "with arena replay in rollouts/",
            )
        for name in (n for n in logs if n.endswith(f"/{SCORE}")):
            mean, error = logs[name], logs[f"{name}_error"]
            if mean + 2 * error < 0:
                game = name.removeprefix("arena/").removesuffix(f"/{SCORE}")
                yield (
                    name,
                    f"in {game} the model is worse than at the start, by {-mean:.3g} "
                    f"± {2 * error:.2g} per episode; {advice}",
                )


class SampleReplies(Callback):
    """Prints a turn of the latest generation batch every so many steps.

    The turn moves on through the batch, so that games and seats take turns. Only the main
    process prints, and only turns that it played.

    Args:
        trainer: the trainer.
        console: where the turn is printed.
        every: steps between turns; 0 for none.
    """

    def __init__(
        self, trainer: "TurnGRPOTrainer", console: Console, every: int
    ) -> None:
        self.trainer, self.console, self.every = trainer, console, every

    def stepped(self, state: TrainerState, control: TrainerControl) -> None:
        is_due = self.every > 0 and state.global_step % self.every == 0
        if (
            is_due
            and state.is_world_process_zero
            and self.trainer.last_selected.records
        ):
            number = state.global_step // self.every - 1
            text = f"step {state.global_step}, {sample_reply(self.trainer, number)}"
            self.console.print(text, markup=False, highlight=False, soft_wrap=True)


def sample_reply(trainer: "TurnGRPOTrainer", number: int) -> str:
    """The last message of a prompt, the reply, its action and its advantage, escaped.

    Args:
        trainer: has played a generation batch.
        number: of the turn among this process's turns; goes round.
    """
    place = number % len(trainer.last_selected.records)
    record, row = (
        trainer.last_selected.records[place],
        trainer.last_selected.rows[place],
    )
    turn = trainer.last_episodes[record.episode].turns[record.place]
    advantage = advantage_by_turn(trainer.last_turns, trainer.last_credit.advantage)
    plan = trainer.games.plans[record.game]
    prompt = turn.messages[-1]["content"]  # its end differs from turn to turn
    end = ("..." if prompt[:-MAX_SHOWN] else "") + escaped(prompt[-MAX_SHOWN:])
    action = "none"
    if turn.action is not None:
        action = escaped(plan.game.action_text(turn.state, turn.action))
    if turn.invalid is not None:
        action += f" (invalid: {turn.invalid})"
    return (
        f"a reply in {plan.name}, seat {record.seat}:\n"
        f"  prompt ends with: {end}\n"
        f"  reply: {escaped(turn.reply)}\n"
        f"  action: {action}; advantage {advantage[row]:.3f}"
    )
