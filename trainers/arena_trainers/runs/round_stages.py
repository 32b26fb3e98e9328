"""The stages of a round: play, select, train, evaluate."""

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from arena_envs import make
from arena_eval.exploit import nash_convs
from arena_eval.matches import EvaluationPlan
from arena_trainers.checkpoint import newest_checkpoint
from arena_trainers.data import (
    joined,
    load_chat,
    origin_of,
    rows_to_dataset,
    seeded_integer,
    select,
    write_rows,
)
from arena_trainers.lm.models import ADAPTER
from arena_trainers.lm.policy import LMPolicy
from arena_trainers.offline.aggregation import newest_of_kind, write_aggregated
from arena_trainers.runs.folder import partial_name, read_config
from arena_trainers.runs.round_settings import LEARNER, Loop, PlayStage, RoundStages
from arena_trainers.runs.rows import RowRun
from arena_trainers.runs.run import Stage
from arena_trainers.runs.settings import JobConfig
from arena_trainers.runs.stopping import Stopper
from arena_trainers.terminal import Console
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.games import GamePlan
from arena_wrappers import Policy, make_policy, play, read_episodes, write_episodes
from arena_wrappers.records import write_whole

EPISODES, ROWS, MODEL = "episodes.jsonl", "rows.parquet", "model"
SCORES, SELECTION = "scores.json", "selection.json"
FIRST_EVALUATION_SEED = (
    2**41
)  # seeds from here on are of evaluations, those below of play
PARTS_FOLDER = "play"  # folder of the episodes that are not joined
EPISODES_AT_ONCE = 256  # in progress
EPISODES_OF_PART = 512  # of a part of play, without branches


class RoundsRun(Protocol):
    """What the stages of a round read of the run."""

    args: TurnGRPOConfig
    job: JobConfig
    loop: Loop
    plans: list[GamePlan]
    console: Console
    stopper: Stopper

    def say(self, text: str) -> None:
        """Prints a text."""


@dataclass(frozen=True)
class Round:
    """A round: what its stages share.

    Attributes:
        number: from 0.
        folder: its files.
        player: folder of the model that plays.
        base: folder of the model that training starts from.
        adapter: folder of the adapter that goes on training; None for a new one, if any.
        earlier: folders of the rounds before, whose rows this one trains on, too.
        first_seed: of play.
        stages: those of this round, with all their options.
        run: has the settings of all rounds.
    """

    number: int
    folder: Path
    player: Path
    base: Path
    adapter: Path | None
    earlier: Sequence[Path]
    first_seed: int
    stages: RoundStages
    run: RoundsRun

    def seed_of(self, stage: str) -> int:
        """The seed of a stage: an integer of 31 bits."""
        return seeded_integer(self.run.args.seed, stage, self.number) % 2**31


def play_round(loop_round: Round) -> None:
    """Plays; writes `episodes.jsonl`. A line-up plays no seed twice in a loop.

    Finished parts are written to `play/`, so that only the part in progress is played again
    after a kill.
    """
    stage, folder = loop_round.stages.play, loop_round.folder / PARTS_FOLDER
    folder.mkdir(exist_ok=True)
    names = {*stage.policies, *stage.opponents} - {"self"}
    players: dict[str, Policy] = {}
    for name in sorted(names):
        if name == LEARNER:
            players[name] = learner(loop_round.player, loop_round.run.args)
        else:
            players[name] = make_policy(name)
    files: list[Path] = []
    parts = list(_parts(loop_round))
    num_played, num = 0, sum(len(seeds) for _, _, seeds in parts)
    for plan, lineup, seeds in parts:
        files.append(folder / f"{len(files):04d}.jsonl")
        num_played += len(seeds)
        if files[-1].exists():
            continue  # played before the loop was killed
        episodes = play(
            plan.env_fn,
            [players[name] for name in lineup],
            seeds,
            num_samples=stage.samples,
            branch=stage.branching,
            batch_size=EPISODES_AT_ONCE,
            on_error="raise",
        )
        write_episodes(files[-1], episodes)
        if num_played < num:
            loop_round.run.say(
                f"round {loop_round.number}: {num_played:,} of {num:,} seeds are played"
            )
    write_episodes(loop_round.folder / EPISODES, joined(map(read_episodes, files)))


def _parts(loop_round: Round) -> Iterator[tuple[GamePlan, list[str], range]]:
    """The parts of play: a game, the policy of each seat, and seeds."""
    stage, first = loop_round.stages.play, loop_round.first_seed
    size = max(EPISODES_OF_PART // stage.samples, 1)
    for plan in loop_round.run.plans:
        for number, lineup in enumerate(_lineups(stage, plan.game.num_players)):
            if number == 0 or not stage.same_seeds:
                seeds = range(first, first := first + stage.episodes)
            for start in range(0, len(seeds), size):
                yield plan, lineup, seeds[start : start + size]


def num_seeds(stage: PlayStage, plans: Sequence[GamePlan]) -> int:
    """The number of seeds that a round plays."""
    if stage.same_seeds:
        return stage.episodes * len(plans)
    lineups = [_lineups(stage, plan.game.num_players) for plan in plans]
    return stage.episodes * sum(map(len, lineups))


def learner(folder: Path, args: TurnGRPOConfig) -> LMPolicy:
    """The model in a folder, as a player."""
    return LMPolicy.from_pretrained(folder, device=args.device, name=LEARNER)


def _lineups(stage: PlayStage, num_players: int) -> list[list[str]]:
    """The policy of each seat: every policy with every opponent in every seat."""
    lineups = []
    for name in stage.policies:
        for opponent in stage.opponents:
            if opponent == "self":
                lineups.append([name] * num_players)
                continue
            for seat in range(num_players):
                others = [opponent] * num_players
                lineups.append([*others[:seat], name, *others[seat + 1 :]])
    return lineups


def select_round(loop_round: Round) -> None:
    """Chooses rows; writes `selection.json` and `rows.parquet`.

    Raises:
        ValueError: no row is chosen; says why.
    """
    # its parts are joined
    shutil.rmtree(loop_round.folder / PARTS_FOLDER, ignore_errors=True)
    episodes = list(read_episodes(loop_round.folder / EPISODES))
    ((name, options),) = loop_round.stages.select.items()
    if options.get("judge") == LEARNER:
        options = {**options, "judge": learner(loop_round.player, loop_round.run.args)}
    selection = select(name, episodes, seed=loop_round.seed_of("select"), **options)
    if not selection.rows:
        why = ", ".join(
            f"{reason} ({num})" for reason, num in selection.dropped.items()
        )
        why = why or "no turn was played"
        raise ValueError(
            f"selector {name!r} chose no row: {why}; begin a new run with other "
            "options in rounds.select, or with more episodes"
        )
    dataset = rows_to_dataset(selection.rows, load_chat(str(loop_round.player)))
    origin = origin_of(selection.rows, episodes)
    files = [folder / ROWS for folder in loop_round.earlier]
    before = newest_of_kind(files, dataset.column_names)
    part, num_rows = loop_round.folder / partial_name(ROWS), len(dataset)
    if before is None:
        write_rows(dataset, part, origin)
    else:
        num_rows = write_aggregated(dataset, origin, before, part)
    counts = {"rows": num_rows, "new": len(dataset), "merged": selection.num_merged}
    write_json(
        loop_round.folder / SELECTION, {**counts, "dropped": dict(selection.dropped)}
    )
    part.rename(loop_round.folder / ROWS)


def train_round(loop_round: Round) -> None:
    """Trains in `train/`, which resumes from its checkpoints; renames its model at the end.

    Raises:
        ValueError: the trainer cannot use its settings or rows, or trains no adapter.
    """
    folder = loop_round.folder / "train"
    stage_settings = {
        **loop_round.stages.train,
        "model": str(loop_round.base),
        "seed": loop_round.seed_of("train"),
    }
    stage_settings["data"] = str(loop_round.folder / ROWS)
    newest = newest_checkpoint(folder)
    is_begun = newest.checkpoint is not None
    if not is_begun:
        for clause in newest.skipped:
            loop_round.run.say(
                f"round {loop_round.number}: trains anew, skipped {clause}"
            )
        shutil.rmtree(folder, ignore_errors=True)
    settings = {**read_config(folder), **stage_settings} if is_begun else stage_settings
    job = RowRun(
        settings,
        folder,
        loop_round.run.console,
        resume=is_begun,
        stopper=loop_round.run.stopper,
        measures=False,
        adapter=loop_round.adapter,
    )
    job.prepare()
    job.run()
    if job.job.lora_r and not (folder / MODEL / ADAPTER).is_file():
        raise ValueError(
            f"want an adapter of trainer {stage_settings['trainer']!r}, as lora_r is "
            f"{job.job.lora_r}, got all weights; give another trainer, or leave lora_r "
            "out"
        )
    # peft also saves TRL's copy of the adapter that went on training
    shutil.rmtree(folder / MODEL / "ref", ignore_errors=True)
    (folder / MODEL).rename(loop_round.folder / MODEL)


def evaluate_round(loop_round: Round) -> None:
    """Measures the trained model; writes `scores.json`."""
    write_scores(loop_round.run, loop_round.folder / MODEL, loop_round.folder / SCORES)


def write_scores(run: RoundsRun, model: Path, path: Path) -> None:
    """Measures a model; writes returns, exact NashConv where there is one, and the score.

    The score is the negative mean NashConv of the games if all of them have one, else the mean
    return over opponents and games, with the luck taken out where that helps.
    """
    policy, stage = learner(model, run.args), run.loop.evaluate
    first = FIRST_EVALUATION_SEED + seeded_integer(run.args.seed, "evaluate") % 2**40
    games: dict[str, Any] = {}
    for plan in run.plans:
        env = make(plan.id, max_turns=plan.max_turns, **plan.params)
        evaluation = EvaluationPlan(
            policy,
            env,
            stage.opponents,
            stage.episodes,
            seed=first,
            baselines=False,
            on_error="raise",
        ).run()
        is_random = policy.sampling.temperature > 0
        is_measured = is_random and env.game.kind == "competitive"
        most = run.job.exact_states
        convs = nash_convs([policy], env, {}, most) if is_measured else {}
        returns = {
            row.opponent or "self": (  # a game of one seat has no opponents
                row.adjusted.mean if row.adjusted else row.mean_return
            )
            for row in evaluation.rows
            if row.seat == "all" or plan.game.num_players == 1
        }
        games[plan.name] = {
            "nash_conv": convs.get(LEARNER),
            "returns": returns,
            "evaluation": evaluation.to_dict(),
        }
    figures, sign = [game["nash_conv"] for game in games.values()], -1.0
    if None in figures:
        figures = [
            value for game in games.values() for value in game["returns"].values()
        ]
        sign = 1.0
    score = sign * float(sum(figures)) / len(figures)
    write_json(path, {"score": score, "games": games})


def write_json(path: Path, values: object) -> None:
    """Writes a whole file of JSON."""
    write_whole(path, json.dumps(values, indent=1) + "\n")


ROUND_STAGES = (
    Stage("play", play_round, EPISODES),
    Stage("select", select_round, ROWS),
    Stage("train", train_round, MODEL),
    Stage("evaluate", evaluate_round, SCORES),
)
