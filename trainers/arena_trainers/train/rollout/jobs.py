"""What plays jobs for `AsyncPlayer`, in another thread or in a process of its own."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import torch
from accelerate import Accelerator
from safetensors.torch import load_file

from arena_envs.extras import hide_library_warnings
from arena_trainers.lm.policy import LMPolicy
from arena_trainers.train.clock import Clock, Seconds, TimedBackend
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.matching import Matching
from arena_trainers.train.opponent_policies import opponents
from arena_trainers.train.played import PlayedBatch
from arena_trainers.train.prepared import PreparedGames
from arena_trainers.train.rollout.player import RolloutPlayer
from arena_trainers.train.tasks import Tasks
from arena_wrappers import Episode, Policy

WEIGHTS = "weights.safetensors"  # in the folder of a job


class Job(NamedTuple):
    """A batch without episodes, to be played with the weights of a step in a folder."""

    played: PlayedBatch
    version: int
    weights: Path


class FinishedJob(NamedTuple):
    """What was played for a job."""

    episodes: list[Episode]
    num_tokens: int  # that were generated
    spent: dict[str, Seconds]  # by part


class PlayerSetup(NamedTuple):
    """What a player is made of, in another thread or process."""

    args: TurnGRPOConfig
    games: PreparedGames
    agent: Callable[[Policy], Policy] | None  # the policy that plays, given the learner
    group_sizes: tuple[int, int]


def job_player(
    setup: PlayerSetup,
    policy: LMPolicy,
    accelerator: Accelerator,
    load: Callable[[Path], None],
) -> Callable[[Job], FinishedJob]:
    """Plays jobs with a policy, to which `load` gives the weights of a folder."""
    args, games, clock, loaded = setup.args, setup.games, Clock(), Path()
    for model in (policy, *games.models):
        model.backend = TimedBackend(model.backend, clock)
    player = RolloutPlayer(
        args,
        games,
        Matching(games, args, accelerator, policy, clock, setup.agent),
        Tasks(games, args),
        process=accelerator.process_index,
        group_sizes=setup.group_sizes,
        clock=clock,
    )

    def play(job: Job) -> FinishedJob:
        nonlocal loaded
        clock.restart()
        if job.weights != loaded:
            load(job.weights)
            loaded = job.weights
        with clock.part("environment"):
            episodes = player.episodes(job.played, range(len(job.played.starts)))
        return FinishedJob(episodes, clock.counts["generated"], clock.spent)

    return play


def play_jobs(
    line: Connection,
    setup: PlayerSetup,
    folder: Path,
    dtype: torch.dtype,
    num_threads: int,
) -> None:
    """Plays jobs in a process of its own, with a model of its own, until training ends."""
    torch.set_num_threads(num_threads)
    hide_library_warnings()
    args, games = setup.args, setup.games
    policies = opponents(games.plans, args, games.opponents, games.matchmaker)
    games = replace(games, opponents=policies)
    policy = LMPolicy.from_pretrained(
        folder,
        device="cpu",
        dtype=dtype,
        name="self",
        prompt=args.prompt,
        with_entropy="tokens.entropy" in games.columns,
        **args.sampling_options,
    )
    games.place_opponents(policy, "cpu")
    weights = dict(policy.model.named_parameters())
    precision = "bf16" if args.bf16 else "no"
    accelerator = Accelerator(cpu=True, mixed_precision=precision)
    accelerator.prepare_model(policy.model, evaluation_mode=True)

    def load(folder: Path) -> None:
        for name, tensor in load_file(folder / WEIGHTS).items():
            weights[name].data.copy_(tensor)

    play = job_player(setup._replace(games=games), policy, accelerator, load)
    with suppress(EOFError, BrokenPipeError):  # the trainer has ended
        while True:
            line.send(play(line.recv()))
