"""Rounds: a run of a recipe with `rounds`, each of play, selection, training and evaluation."""

import inspect
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_type_hints

import yaml
from rich.table import Table

from arena_envs import make
from arena_envs.doors import broken
from arena_eval.baselines import prepared
from arena_eval.exploit import nash_convs
from arena_eval.matches import EvaluationPlan
from arena_studio.report.charts import Chart, Curve, figure_of
from arena_trainers.checkpoint import (
    check_whole,
    files_of,
    newest_checkpoint,
    read_manifest,
    write_manifest,
)
from arena_trainers.data import (
    draw,
    joined,
    load_chat,
    origin_of,
    rows_to_dataset,
    select,
    selectors,
    write_rows,
)
from arena_trainers.data.rows import AnyRow, Dropped
from arena_trainers.data.selection import run_selector
from arena_trainers.lm.adapters import count_weights
from arena_trainers.lm.chat import chat_of
from arena_trainers.lm.models import ADAPTER, model_folder
from arena_trainers.lm.policy import LMPolicy
from arena_trainers.lm.prompt_file import saved_options
from arena_trainers.offline.aggregation import newest_of_kind, write_aggregated
from arena_trainers.offline.protocol import row_trainer
from arena_trainers.runs.folder import (
    CONFIG,
    RESULTS,
    START,
    check_new,
    partial,
    read_config,
    write_config,
)
from arena_trainers.runs.rows import RowRun
from arena_trainers.runs.run import Run, Stage, unfinished
from arena_trainers.runs.settings import (
    LEARNER,
    OF_THE_ADAPTER,
    Loop,
    PlayStage,
    RoundStages,
    build_configs,
    load_recipe,
    read_loop,
    row_config,
    trainer_args,
)
from arena_trainers.runs.start import (
    adapter_errors,
    load_tokenizer,
    longest_replies,
    make_start,
)
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.games import GamePlan, different_games
from arena_trainers.trial import trial
from arena_wrappers import Policy, make_policy, play, read_episodes, write_episodes
from arena_wrappers.records import write_whole

COMPARE_SIBLINGS = ("branch_pairs", "revisions")  # selectors
_KINDS = {"Completion": "completions", "Label": "labels", "Pair": "pairs"}


def checked(
    stages: RoundStages,
    folder: Path,
    shared: Mapping[str, Any],
    *,
    retries: bool = False,
) -> RoundStages:
    """The stages of a round with all their options.

    The selector's option `policies` is by default the names of `rounds.play.policies`, and `judge`
    the model that plays.

    Args:
        stages: as the recipe has them.
        folder: the run folder.
        shared: settings of the trainer where the recipe has none.
        retries: whether a seat is asked again after an invalid reply.

    Raises:
        ValueError: an unknown selector, trainer or option; a selector that needs turn trees
            without them; rows of another kind than the trainer's; a trainer of models that do
            not play.
    """
    train = {**shared, **stages.train}
    select = _selector(stages.play, stages.select, retries)
    found = replace(stages, select=select, train=train)
    _check_train(found, folder)
    return found


def _selector(
    play: PlayStage, select: Mapping[str, Mapping[str, Any]], retries: bool
) -> dict[str, dict[str, Any]]:
    """The selector with its options."""
    ((name, given),) = select.items()
    options = dict(given)
    has_corrections = name == "revisions" and retries  # it also reads those
    if name in COMPARE_SIBLINGS and play.branch is None and not has_corrections:
        advice = ", or on_invalid: retry beside rounds" * (name == "revisions")
        raise ValueError(
            f"selector {name!r} needs turn trees, and rounds.play has no branch; give "
            f"branch: {{num_candidates: 4}}{advice}"
        )
    known = inspect.signature(selectors.find(name)).parameters
    if "policies" in known:
        named = play.policies
        names = [p if p == LEARNER else make_policy(p).name for p in named]
        options.setdefault("policies", names)
    if "judge" in known:
        options.setdefault("judge", LEARNER)
    stand_in = {"judge": "random"} if options.get("judge") == LEARNER else {}
    for _ in run_selector(name, [], 0, {**options, **stand_in}):
        pass  # of no episodes: raises where options do not fit
    return {name: options}


def try_selectors(stages: Sequence[RoundStages], plans: Sequence[GamePlan]) -> None:
    """Has selectors of the user choose rows from random play of the run's games.

    Raises:
        ValueError: one raises, or yields something other than rows and `Dropped`.
    """
    for name, options in (pair for one in stages for pair in one.select.items()):
        if selectors.read(name).name in selectors.built_in:
            continue
        if options.get("judge") == LEARNER:
            options = {**options, "judge": "random"}
        episodes = joined([play(p.env_fn, "random", range(4)) for p in plans])
        with trial(f"selector {name!r}", "one that check_selector passes"):
            for row in run_selector(name, episodes, 0, options):
                if not isinstance(row, AnyRow | Dropped):
                    broken("rows", f"want rows and Dropped, got {row!r:.80}")


def _check_train(stages: RoundStages, folder: Path) -> None:
    trainer, selector = stages.train["trainer"], next(iter(stages.select))
    kind = row_trainer(trainer)
    if not kind.plays:
        raise ValueError(
            f"trainer {trainer!r} trains a model that chooses no replies, so that no "
            "further round could be played; give another rounds.train.trainer"
        )
    found = rows_of(selector)
    if found is not None and found != kind.rows:
        raise ValueError(
            f"trainer {trainer!r} learns from {kind.rows}, and selector {selector!r} "
            f"gives {found}; give another trainer or selector"
        )
    row_config({**stages.train, "data": "rows.parquet"})
    trainer_args(kind.config, stages.train, folder, is_tiny=False)


def rows_of(selector: str) -> str | None:
    """The kind of rows that a selector gives by its annotation; None if it does not say.

    >>> rows_of("wins"), rows_of("branch_pairs"), rows_of("rule_labels")
    ('completions', 'pairs', 'labels')
    """
    said = str(get_type_hints(selectors.find(selector)).get("return"))
    found = {kind for name, kind in _KINDS.items() if f".{name}" in said}
    return found.pop() if len(found) == 1 else None


def check_policies(loop: Loop, plans: Sequence[GamePlan]) -> None:
    """Raises ValueError for a policy that is unknown or refuses a game."""
    playing = [stages.play for stages in loop.stages]
    named = {name for play in playing for name in (*play.policies, *play.opponents)}
    named = (named | {*loop.evaluate.opponents}) - {LEARNER, "self"}
    if LEARNER in loop.evaluate.opponents:
        raise ValueError(
            "want self in place of learner in rounds.evaluate.opponents, or another "
            "policy"
        )
    for plan in plans:
        if plan.has_own:
            raise ValueError(
                f"want opponents of {plan.id} in rounds.play, got them in games; move "
                "them"
            )
        for policy in sorted(named):
            prepared(policy, plan.game)


EPISODES, ROWS, MODEL = "episodes.jsonl", "rows.parquet", "model"
SCORES, SELECTION = "scores.json", "selection.json"
EVALUATED = 2**41  # seeds from here on are of evaluations, those below of play
PARTS = "play"  # folder of the episodes that are not joined
AT_ONCE, PART = 256, 512  # episodes in progress, and of a part without its branches


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
    run: "Rounds"

    def drawn(self, stage: str) -> int:
        """The seed of a stage: an integer of 31 bits."""
        return draw(self.run.args.seed, stage, self.number) % 2**31


def play_round(one: Round) -> None:
    """Plays; writes `episodes.jsonl`. A line-up plays no seed twice in a loop.

    Finished parts are written to `play/`, so that only the part in progress is played again
    after a kill.
    """
    stage, folder = one.stages.play, one.folder / PARTS
    folder.mkdir(exist_ok=True)
    names = {*stage.policies, *stage.opponents} - {"self"}
    players: dict[str, Policy] = {
        name: learner(one.player, one.run.args)
        if name == LEARNER
        else make_policy(name)
        for name in sorted(names)
    }
    files: list[Path] = []
    parts = list(_parts(one))
    num_played, num = 0, sum(len(seeds) for _, _, seeds in parts)
    for plan, lineup, seeds in parts:
        files.append(folder / f"{len(files):04d}.jsonl")
        num_played += len(seeds)
        if files[-1].exists():
            continue  # played before the loop was killed
        choices: dict[str, Any] = {"num_samples": stage.samples}
        choices |= {"branch": stage.branching, "batch_size": AT_ONCE}
        seats = [players[name] for name in lineup]
        episodes = play(plan.env_fn, seats, seeds, on_error="raise", **choices)
        write_episodes(files[-1], episodes)
        if num_played < num:
            told = f"round {one.number}: {num_played:,} of {num:,} seeds are played"
            one.run.say(told)
    write_episodes(one.folder / EPISODES, joined(map(read_episodes, files)))


def _parts(one: Round) -> Iterator[tuple[GamePlan, list[str], range]]:
    """The parts of play: a game, the policy of each seat, and seeds."""
    stage, first = one.stages.play, one.first_seed
    size = max(PART // stage.samples, 1)
    for plan in one.run.plans:
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
    found = []
    for name in stage.policies:
        for opponent in stage.opponents:
            if opponent == "self":
                found.append([name] * num_players)
                continue
            for seat in range(num_players):
                others = [opponent] * num_players
                found.append([*others[:seat], name, *others[seat + 1 :]])
    return found


def select_round(one: Round) -> None:
    """Chooses rows; writes `selection.json` and `rows.parquet`.

    Raises:
        ValueError: no row is chosen; says why.
    """
    shutil.rmtree(one.folder / PARTS, ignore_errors=True)  # they are joined
    episodes = list(read_episodes(one.folder / EPISODES))
    ((name, options),) = one.stages.select.items()
    if options.get("judge") == LEARNER:
        options = {**options, "judge": learner(one.player, one.run.args)}
    found = select(name, episodes, seed=one.drawn("select"), **options)
    if not found.rows:
        why = ", ".join(f"{reason} ({num})" for reason, num in found.dropped.items())
        why = why or "no turn was played"
        raise ValueError(
            f"selector {name!r} chose no row: {why}; begin a new run with other "
            "options in rounds.select, or with more episodes"
        )
    dataset = rows_to_dataset(found.rows, load_chat(str(one.player)))
    origin = origin_of(found.rows, episodes)
    files = [folder / ROWS for folder in one.earlier]
    before = newest_of_kind(files, dataset.column_names)
    part, num_rows = one.folder / partial(ROWS), len(dataset)
    if before is None:
        write_rows(dataset, part, origin)
    else:
        num_rows = write_aggregated(dataset, origin, before, part)
    told = {"rows": num_rows, "new": len(dataset), "merged": found.num_merged}
    _write_json(one.folder / SELECTION, {**told, "dropped": dict(found.dropped)})
    part.rename(one.folder / ROWS)


def train_round(one: Round) -> None:
    """Trains in `train/`, which resumes from its checkpoints; renames its model at the end.

    Raises:
        ValueError: the trainer cannot use its settings or rows, or trains no adapter.
    """
    folder = one.folder / "train"
    given = {**one.stages.train, "model": str(one.base), "seed": one.drawn("train")}
    given["data"] = str(one.folder / ROWS)
    found = newest_checkpoint(folder)
    is_begun = found.checkpoint is not None
    if not is_begun:
        for clause in found.skipped:
            one.run.say(f"round {one.number}: trains anew, skipped {clause}")
        shutil.rmtree(folder, ignore_errors=True)
    settings = {**read_config(folder), **given} if is_begun else given
    job = RowRun(
        settings,
        folder,
        one.run.console,
        resume=is_begun,
        stopper=one.run.stopper,
        measures=False,
        adapter=one.adapter,
    )
    job.prepare()
    job.run()
    if job.job.lora_r and not (folder / MODEL / ADAPTER).is_file():
        raise ValueError(
            f"want an adapter of trainer {given['trainer']!r}, as lora_r is "
            f"{job.job.lora_r}, got all weights; give another trainer, or leave lora_r "
            "out"
        )
    # peft also saves TRL's copy of the adapter that went on training
    shutil.rmtree(folder / MODEL / "ref", ignore_errors=True)
    (folder / MODEL).rename(one.folder / MODEL)


def evaluate_round(one: Round) -> None:
    """Measures the trained model; writes `scores.json`."""
    write_scores(one.run, one.folder / MODEL, one.folder / SCORES)


def write_scores(run: "Rounds", model: Path, path: Path) -> None:
    """Measures a model; writes returns, exact NashConv where there is one, and the score.

    The score is the negative mean NashConv of the games if all of them have one, else the mean
    return over opponents and games.
    """
    policy, stage = learner(model, run.args), run.loop.evaluate
    first = EVALUATED + draw(run.args.seed, "evaluate") % 2**40
    games: dict[str, Any] = {}
    for plan in run.plans:
        env = make(plan.id, max_turns=plan.max_turns, **plan.params)
        given = stage.opponents, stage.episodes
        options: Any = {"baselines": False, "on_error": "raise"}
        evaluation = EvaluationPlan(policy, env, *given, seed=first, **options).run()
        is_random = policy.sampling.temperature > 0
        is_measured = is_random and env.game.kind == "competitive"
        most = run.job.exact_states
        convs = nash_convs([policy], env, {}, most) if is_measured else {}
        returns = {
            row.opponent
            or "self": row.mean_return  # a game of one seat has no opponents
            for row in evaluation.rows
            if row.seat == "all" or plan.game.num_players == 1
        }
        games[plan.name] = {
            "nash_conv": convs.get(LEARNER),
            "returns": returns,
            "evaluation": evaluation.to_dict(),
        }
    found, sign = [game["nash_conv"] for game in games.values()], -1.0
    if None in found:
        found = [value for game in games.values() for value in game["returns"].values()]
        sign = 1.0
    score = sign * float(sum(found)) / len(found)
    _write_json(path, {"score": score, "games": games})


def _write_json(path: Path, values: Any) -> None:
    write_whole(path, json.dumps(values, indent=1) + "\n")


CURVES = "curves.png"
CONV = "exact NashConv"


def score_of(path: Path) -> float:
    """The score in a file of scores; higher is better."""
    return float(json.loads(path.read_text(encoding="utf-8"))["score"])


def _entry(folder: Path, path: Path) -> dict[str, Any]:
    """The round of a file of scores, without the single seats of its evaluation."""
    found = json.loads(path.read_text(encoding="utf-8"))
    here = path.parent
    entry: dict[str, Any] = {"round": None, "model": "start", "rows": None}
    if here != folder:
        selection = json.loads((here / SELECTION).read_text(encoding="utf-8"))
        number = int(here.name.partition("-")[2])
        entry = {"round": number, "model": f"{here.name}/model"}
        entry["rows"] = selection["rows"]
    games = {
        name: {"nash_conv": game["nash_conv"], "returns": game["returns"]}
        for name, game in found["games"].items()
    }
    return {**entry, "score": found["score"], "games": games}


def _values(entry: Mapping[str, Any]) -> dict[str, float]:
    """The figures of a round by name: NashConv, and returns against each opponent."""
    found = {}
    for name, game in entry["games"].items():
        of_game = f"{name}: " if len(entry["games"]) > 1 else ""
        if game["nash_conv"] is not None:
            found[f"{of_game}{CONV}"] = float(game["nash_conv"])
        for opponent, value in game["returns"].items():
            found[f"{of_game}return against {opponent}"] = float(value)
    return found


def _table(
    title: str, rounds: Sequence[Mapping[str, Any]], best: Mapping[str, Any]
) -> Table:
    table = Table("round", "rows", "score", title=title)
    for name in _values(rounds[0]):
        table.add_column(name, justify="right", overflow="fold")
    for entry in rounds:
        number = "start" if entry["round"] is None else str(entry["round"])
        rows = "" if entry["rows"] is None else f"{entry['rows']:,}"
        mark = " (best)" if entry is best else ""
        figures = [f"{value:z.3f}" for value in _values(entry).values()]
        table.add_row(number, rows, f"{entry['score']:z.3f}{mark}", *figures)
    return table


def _figure(rounds: Sequence[Mapping[str, Any]]) -> Any:
    """A panel for NashConv, if there is one, and one for returns; the start is at 0."""
    lines: dict[str, list[Curve]] = {CONV: [], "mean return": []}
    for name in _values(rounds[0]):
        points = [(number, _values(one)[name]) for number, one in enumerate(rounds)]
        title = CONV if name.endswith(CONV) else "mean return"
        lines[title].append(Curve(name, points))
    charts = [Chart(title, found) for title, found in lines.items() if found]
    return figure_of(charts, "", along="rounds trained")


START_SCORES = "start-scores.json"
ROUND = (
    Stage("play", play_round, EPISODES),
    Stage("select", select_round, ROWS),
    Stage("train", train_round, MODEL),
    Stage("evaluate", evaluate_round, SCORES),
)


class RoundError(RuntimeError):
    """A stage cannot go on; earlier stages and rounds are kept."""


class Rounds(Run):
    """A run of a recipe with `rounds`; see `Run`. It resumes with its first unfinished stage."""

    def read(self) -> None:
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise ValueError(
                "want one process for a recipe with rounds; leave torchrun out"
            )
        self.loop, given = read_loop(self.settings)
        given = {**saved_options(given.get("model", "tiny")), **given}
        self.job, self.args = build_configs(given, str(self.folder))
        is_tiny = self.job.model == "tiny"
        self.plans = different_games([GamePlan(s, self.args) for s in self.args.games])
        check_policies(self.loop, self.plans)
        self.stages_of = self._checked_stages(given)
        try_selectors(self.stages_of, self.plans)
        self.model = None if is_tiny else model_folder(self.job.model)
        told = self.model, self.plans, self.args.prompt
        self.tokenizer = load_tokenizer(self.job, *told)
        if is_tiny and "max_completion_length" not in given:
            lengths = longest_replies(
                chat_of(self.tokenizer, self.args), self.plans, self.args.reply_format
            )
            self.args.max_completion_length = max(lengths)
        if not self.resume:
            check_new(self.folder)
        self.played = [self.folder / START_SCORES]  # files of scores

    def _checked_stages(self, given: dict[str, Any]) -> list[RoundStages]:
        """The stages with all their options; a trainer takes some of the model's."""
        shared = {name: given[name] for name in OF_THE_ADAPTER if name in given}
        if self.job.model == "tiny":
            shared["gradient_checkpointing"] = False
        if given.get("use_cpu"):
            shared["use_cpu"] = True
        retries = self.args.on_invalid == "retry"
        return [
            checked(one, self.folder, shared, retries=retries)
            for one in self.loop.stages
        ]

    def config(self) -> str:
        return yaml.safe_dump(self.settings, sort_keys=False)

    def check_files(self) -> None:
        """Writes the new number of rounds; checks the start."""
        if load_recipe(str(self.folder / CONFIG)) != self.settings:
            write_config(self.folder, self.config())  # it has more rounds
        start, scores = self.folder / START, self.folder / START_SCORES
        files = read_manifest(start).get("files", {})
        if f"../{START_SCORES}" not in files:
            scores.unlink(missing_ok=True)  # killed before it was named
        parts = {Path(name).parts[0] for name in files}
        check_whole(start, parts if scores.exists() else parts - {".."})

    def make_start(self) -> None:
        """Makes the model that the rounds start from."""
        given = self.model, self.tokenizer, self.plans, self.console
        model = make_start(self.job, self.args, *given)
        if self.job.lora_r:
            with adapter_errors(self.job):
                count_weights(model.config, self.job.peft_config)
        options = {"prompt": self.args.prompt, **self.args.sampling_options}
        self.save_start(model, self.tokenizer, options)

    def measure_start(self) -> None:
        """Measures that model; its manifest names the scores, too."""
        start, scores = self.folder / START, self.folder / START_SCORES
        write_scores(self, start, scores)
        write_manifest(start, [*files_of(start), scores])
        self.say("start: evaluate is done")

    def repeat(self) -> None:
        """Runs the rounds; each skips its finished stages.

        Raises:
            RoundError: a stage cannot go on, such as a selector that chose no row.
        """
        patience = self.loop.patience
        for number in range(self.loop.num):
            found = [score_of(path) for path in self.played]
            late, before = found[-patience:], found[:-patience]
            if patience and before and max(late) <= max(before):
                self.say(f"the score has not risen in {patience} rounds")
                break
            self.played.append(self._round(number) / SCORES)

    def close(self) -> None:
        """Writes and shows what the rounds reached."""
        folder, rounds = (
            self.folder,
            [_entry(self.folder, path) for path in self.played],
        )
        best = max(rounds, key=lambda entry: float(entry["score"]))
        games = [plan.name for plan in self.plans]
        self.results = {"games": games, "best": best["model"], "rounds": rounds}
        _write_json(folder / RESULTS, self.results)
        _figure(rounds).savefig(folder / CURVES, format="png", dpi=120)
        self.console.print(_table(", ".join(games), rounds, best))
        self.say(f"results are in {folder}; the best model is {folder / best['model']}")

    def _round(self, number: int) -> Path:
        """Runs the stages of a round that are not finished; returns its folder."""
        earlier = [self._folder(k) for k in range(number)]
        folder, start = self._folder(number), self.folder / START
        folder.mkdir(exist_ok=True)
        last = earlier[-1] / MODEL if earlier else start
        goes_on, is_whole = self.loop.start_from == "last", self.job.lora_r == 0
        seeds = [num_seeds(self._stages(k).play, self.plans) for k in range(number)]
        one = Round(
            number=number,
            folder=folder,
            player=last,
            base=last if goes_on and is_whole else start,
            adapter=None if is_whole or not goes_on or not earlier else last,
            earlier=earlier if self.loop.aggregate else [],
            first_seed=draw(self.args.seed, "play") % 2**40 + sum(seeds),
            stages=self._stages(number),
            run=self,
        )
        with _told(number, "files"):
            here = {path.name for path in folder.iterdir()}  # others run again
            check_whole(folder, here)
        for stage in unfinished(ROUND, folder):
            with _told(number, stage.name):
                stage.do(one)
            found = [folder / str(known.leaves) for known in ROUND]
            write_manifest(folder, [f for path in found for f in files_of(path)])
            self.say(f"round {number}: {stage.name} is done")
        return folder

    def _folder(self, number: int) -> Path:
        return self.folder / f"round-{number:02d}"

    def _stages(self, number: int) -> RoundStages:
        return self.stages_of[number % len(self.stages_of)]

    opening = (Stage("files", check_files), Stage("start", make_start, START))
    stages = (
        Stage("evaluate", measure_start, START_SCORES),
        Stage("rounds", repeat),
        Stage("close", close),
    )


@contextmanager
def _told(number: int, stage: str) -> Iterator[None]:
    """Says in which round and stage something did not fit."""
    try:
        yield
    except ValueError as error:
        raise RoundError(f"round {number}, {stage}: {error}") from error
