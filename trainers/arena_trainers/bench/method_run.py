"""A run of the comparison of methods, measured after every round."""

import tempfile
from functools import lru_cache
from pathlib import Path

import numpy as np
from rich.console import Console

from arena_envs import make, make_game
from arena_trainers.bench.methods import (
    FIRST_DEAL,
    METHODS,
    NUM_DEALS,
    SETTINGS,
    Method,
    grpo_options,
    start_options,
)
from arena_trainers.bench.tiny_runs import (
    SCORED_AT_ONCE,
    Point,
    Start,
    be_quiet,
    learn_by_grpo,
    make_saved_start,
)
from arena_trainers.data import (
    joined,
    load_chat,
    origin_of,
    rows_to_dataset,
    select,
    write_rows,
)
from arena_trainers.evaluate.exploit import exploitability
from arena_trainers.lm.policy import LMPolicy
from arena_trainers.offline.job import RowJob
from arena_wrappers import Branching, Episode, play

LEARNER = "learner"  # in records
AT_ONCE = 256  # episodes in progress


def learn(setting: str, name: str, seed: int) -> list[Point]:
    """Trains; the measures at the start and after every round.

    Args:
        setting: a key of `SETTINGS`.
        name: of a variant.
        seed: of the run.
    """
    be_quiet()
    chosen, method = SETTINGS[setting], METHODS[setting][name]
    start = _start(setting, seed)
    points, model = [start.point], start.folder
    with tempfile.TemporaryDirectory() as folder:
        rounds = _Rounds(setting, method, seed, Path(folder))
        for number in range(method.num_rounds):
            model = rounds.learn(number, model)
            points.append(measured(_load(model), setting))
        if method.num_rounds < chosen.num_rounds:
            options = grpo_options(setting, name, seed)
            every = chosen.every // options["episodes_per_step"]
            points += learn_by_grpo(
                options,
                model,
                start.tokenizer,
                every,
                lambda policy: measured(policy, setting),
            )
    return points


def measured(policy: LMPolicy, setting: str) -> Point:
    """The measures of a policy: exact NashConv of its legal replies, or the mean score.

    The score is of self-play on the same `NUM_DEALS` seeds in all runs.

    Args:
        policy: a policy with its prompt options.
        setting: a key of `SETTINGS`.
    """
    env = make(SETTINGS[setting].game)
    if "nash_conv" in SETTINGS[setting].measures:
        return {"nash_conv": exploitability(policy, env.game).nash_conv}
    seeds = range(FIRST_DEAL, FIRST_DEAL + NUM_DEALS)
    episodes = play(env.clone, policy, seeds, on_error="raise", batch_size=AT_ONCE)
    return {"score": float(np.mean([episode.returns[0] for episode in episodes]))}


class _Rounds:
    """Rounds of a run that play, select rows and train on them.

    Args:
        setting: a key of `SETTINGS`.
        method: what is selected, and how it is trained.
        seed: of the run.
        folder: for its files.
    """

    def __init__(self, setting: str, method: Method, seed: int, folder: Path) -> None:
        self._setting, self._method = SETTINGS[setting], method
        self._seed, self._folder = seed, folder
        self._num_played = 0

    def learn(self, number: int, model: Path) -> Path:
        """The folder of the model after a round; the same one if no row is chosen.

        Args:
            number: of the round, from 0.
            model: the folder of the model that plays and is trained.
        """
        options, seed = dict(self._method.select), self._first_seed(number)
        episodes = self._play(number, model)
        found = select(options.pop("selector"), episodes, seed=seed, **options)
        if not found.rows:
            return model
        folder = self._folder / f"round-{number}"
        rows = self._folder / f"{folder.name}.parquet"
        dataset = rows_to_dataset(found.rows, load_chat(str(model)))
        write_rows(dataset, rows, origin_of(found.rows, episodes))
        settings = {
            **self._method.train,
            **{"model": str(model), "data": str(rows), "seed": seed},
            **{"use_cpu": True, "bf16": False, "gradient_checkpointing": False},
            **{"save_strategy": "no", "logging_strategy": "no"},
        }
        job = RowJob(settings, folder, Console(quiet=True), measures=False)
        job.prepare()
        job.run()
        return folder / "model"

    def _play(self, number: int, model: Path) -> list[Episode]:
        """The episodes of a round; those of whole trees, at most as many as are due."""
        chosen, method = self._setting, self._method
        policy, parts = _load(model), []
        due = (number + 1) * chosen.every
        seed = self._first_seed(number)
        branch = None if method.branch is None else Branching(**method.branch)
        most = method.samples if branch is None else _largest_tree(chosen.game, branch)
        while num := (due - self._num_played) // most:
            parts.append(
                play(
                    make(chosen.game).clone,
                    policy,
                    range(seed, seed + num),
                    num_samples=method.samples,
                    branch=branch,
                    batch_size=AT_ONCE,
                    on_error="raise",
                )
            )
            seed += num
            self._num_played += len(parts[-1])
        return joined(parts)

    def _first_seed(self, number: int) -> int:
        """The first seed of a round; no round has more seeds than episodes."""
        chosen = self._setting
        return (self._seed * chosen.num_rounds + number) * chosen.every


def _largest_tree(game: str, branch: Branching) -> int:
    """The most episodes of a turn tree that follows one candidate."""
    turns = make_game(game).max_turns
    return 1 + turns * branch.num_candidates


def _load(model: Path) -> LMPolicy:
    return LMPolicy.from_pretrained(
        model, device="cpu", batch_size=SCORED_AT_ONCE, name=LEARNER
    )


@lru_cache(maxsize=len(SETTINGS))  # the variants of a seed follow each other
def _start(setting: str, seed: int) -> Start:
    return make_saved_start(
        start_options(setting, seed), lambda policy: measured(policy, setting)
    )
