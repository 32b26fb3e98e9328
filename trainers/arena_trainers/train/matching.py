"""Games and players of each start: games built once, tasks, seats, snapshots, matches."""

import json
import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import gather_object

from arena_trainers.lm.backends.cached import CachedBackend
from arena_trainers.lm.backends.vllm import VLLMBackend
from arena_trainers.lm.policy import LMPolicy
from arena_trainers.matchmaking import (
    SELF,
    EpisodeReturns,
    Match,
    Matchmaker,
    Seats,
    Start,
    against,
    snapshot_step,
)
from arena_trainers.matchmaking.snapshots import FOLDER, SnapshotStore
from arena_trainers.processes import raised_everywhere
from arena_trainers.train.clock import Clock, TimedBackend
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.prepared import PreparedGames
from arena_trainers.train.state_files import read_owned
from arena_wrappers import Episode, EpisodePlan, Policy, play_plans
from arena_wrappers.records import write_whole

MATCHMAKING_FILE = "matchmaking.json"  # of a checkpoint
TRAIN, MATCHES, EVAL = range(3)  # what the choices are drawn for

GroupKey = tuple[int, int]  # index of the game, and seed: the same for a group


class Snapshot(NamedTuple):
    """A snapshot in memory.

    Attributes:
        backend: generates for its model, without the clock.
        player: what plays: the model, or an agent on it.
    """

    backend: Any
    player: Policy


class Matching:
    """Assigns seats to policies, by the games' own `opponents` or by a matchmaker.

    All processes make the same calls, and get the same assignments.

    Args:
        games: the games, with their matchmaker if there is one.
        args: the trainer's settings.
        accelerator: of the trainer.
        learner: the policy that learns.
        clock: counts the time of snapshots that generate.
        agent: makes the policy that plays from the learner, and from each snapshot.

    Attributes:
        store: the snapshots.
    """

    def __init__(
        self,
        games: PreparedGames,
        args: TurnGRPOConfig,
        accelerator: Accelerator,
        learner: LMPolicy,
        clock: Clock,
        agent: Callable[[Policy], Policy] | None = None,
    ) -> None:
        self.games, self.args, self.accelerator = games, args, accelerator
        self.clock, self.agent = clock, agent or (lambda model: model)
        self.learner = self.agent(learner)
        folder, max_live = Path(str(args.output_dir)), 0
        if games.matchmaker is not None:
            max_live = max(games.matchmaker.max_live, 1)
        backend = learner.backend
        self.store = SnapshotStore(
            learner,
            folder / FOLDER,
            max_live,
            writes=accelerator.is_main_process,
            adapters=backend.adapters if isinstance(backend, VLLMBackend) else None,
        )
        self._snapshots: dict[int, Snapshot] = {}

    def assign(
        self, starts: Sequence[Mapping[str, Any]], step: int, batch: int, purpose: int
    ) -> list[Seats]:
        """The policies of each seat of this process's starts; equal starts have equal seats.

        Args:
            starts: rows of the data set, one for each episode.
            step: optimizer steps so far.
            batch: number of the generation batch.
            purpose: `TRAIN` or `EVAL`.
        """
        plans, matchmaker = self.games.plans, self.games.matchmaker
        keys: list[GroupKey] = [(row["game"], int(row["seed"])) for row in starts]
        seats_by_start = {key: tuple(plans[key[0]].seats or ()) for key in keys}
        if matchmaker is not None:
            self._advance(matchmaker, step)
            new_keys = [k for k in gather_object(keys) if plans[k[0]].is_matched]
            new_keys = list(dict.fromkeys(new_keys))
            new_starts = [
                Start(plans[game].name, plans[game].game.num_players, seed)
                for game, seed in new_keys
            ]
            rng = np.random.default_rng([self.args.seed, batch, purpose])
            assignments = matchmaker.assign(new_starts, step, rng) if new_starts else ()
            for key, start, seats in zip(
                new_keys, new_starts, assignments, strict=True
            ):
                seats_by_start[key] = self._checked(seats, start)
        for game, seed in dict.fromkeys(keys):
            if (opponent := plans[game].opponent) is not None:
                start = Start(plans[game].name, plans[game].game.num_players, seed)
                # of the start alone, so that all processes draw the same seat
                rng = np.random.default_rng([self.args.seed, seed, purpose])
                seats_by_start[game, seed] = against(opponent, start, rng)
        return [seats_by_start[key] for key in keys]

    def policies(self, seats: Seats) -> list[Policy]:
        """The policies of an assignment."""
        return [self._policy(spec) for spec in seats]

    def report(
        self,
        episodes: Sequence[Episode],
        games: Sequence[int],
        seats: Sequence[Seats],
        step: int,
    ) -> None:
        """Tells the matchmaker how the episodes of all processes ended."""
        matchmaker, plans = self.games.matchmaker, self.games.plans
        if matchmaker is None:
            return
        results = [
            EpisodeReturns(plans[game].name, policies, tuple(episode.returns))
            for episode, game, policies in zip(episodes, games, seats, strict=True)
            if episode.parent is None and plans[game].is_matched
        ]
        matchmaker.update(
            [EpisodeReturns(*result) for result in gather_object(results)], step
        )

    @property
    def files(self) -> list[Path]:
        """The snapshots that a checkpoint of this moment needs."""
        return [self.store.path(step) for step in sorted(self.store.steps)]

    def save_replies(self, checkpoint: Path) -> None:
        """Writes what snapshots know of their replies; every process calls it.

        What is known changes the last bits of probabilities. With it, a resumed run plays as
        the unbroken one.
        """
        states = {
            step: backend.state_dict()
            for step, snapshot in self._snapshots.items()
            if isinstance(backend := snapshot.backend, CachedBackend)
        }
        if states:
            checkpoint.mkdir(parents=True, exist_ok=True)
            torch.save(states, checkpoint / self._replies)

    def save(self, checkpoint: Path) -> None:
        """Writes the matchmaker's state; only the main process calls it."""
        matchmaker = self.games.matchmaker
        if matchmaker is not None:
            content = {
                **self._owner,
                "run": self.store.run,
                "snapshots": sorted(self.store.steps),
                "state": matchmaker.state_dict(),
            }
            write_whole(checkpoint / MATCHMAKING_FILE, json.dumps(content))

    def load(self, checkpoint: Path) -> None:
        """Goes on from a checkpoint.

        Raises:
            ValueError: it is of another matchmaker, of other games, or of another run than
                the snapshots; or they are of another base model.
        """
        matchmaker = self.games.matchmaker
        if matchmaker is None:
            return
        content = read_owned(checkpoint / MATCHMAKING_FILE, self._owner)
        source = checkpoint.parent / FOLDER
        with raised_everywhere():  # afterwards copies are there
            self.store.resume(content["snapshots"], content["run"], source)
        self._snapshots.clear()
        file = checkpoint / self._replies  # none if the number of processes was another
        replies = torch.load(file, weights_only=True) if file.is_file() else {}
        for step, state in replies.items():
            backend = self._snapshot(step).backend
            if isinstance(backend, CachedBackend):
                backend.load_state_dict(state)
        matchmaker.load_state_dict(content["state"])

    @property
    def _replies(self) -> str:
        """The name of this process's file in a checkpoint."""
        return f"snapshot_replies_{self.accelerator.process_index}.pt"

    @property
    def _owner(self) -> dict[str, Any]:
        """The matchmaker and the games whose results a state is made of."""
        names = [plan.name for plan in self.games.plans]
        return {"opponents": self.args.opponents, "games": names}

    def _advance(self, matchmaker: Matchmaker, step: int) -> None:
        """Takes the snapshot of this step if it is wanted, and plays the new matches."""
        wanted_steps = set(matchmaker.snapshots(step))
        if step not in wanted_steps or step in self.store.steps:
            return
        with raised_everywhere():  # afterwards the file is there
            if not self.store.run:
                self.store.begin(secrets.token_hex(8))
            self.store.take(step)
            # only who writes may read checkpoints: it deletes old ones
            files = Path(str(self.args.output_dir)).glob(
                f"checkpoint-*/{MATCHMAKING_FILE}"
            )
            states = [json.loads(f.read_text()) for f in files if self.store.writes]
            on_disk = {
                taken_step for state in states for taken_step in state["snapshots"]
            }
            self.store.keep(wanted_steps, on_disk)
        self._snapshots = {
            s: p for s, p in self._snapshots.items() if s in wanted_steps
        }
        self._play_matches(matchmaker, step)

    def _play_matches(self, matchmaker: Matchmaker, step: int) -> None:
        matches = matchmaker.matches(step)
        plans = {plan.name: plan for plan in self.games.plans if plan.is_matched}
        rng = np.random.default_rng([self.args.seed, step, MATCHES])
        numbered_results: list[tuple[int, EpisodeReturns]] = []
        match_seeds = _match_seeds(matches, rng)
        for number, (match, seeds) in enumerate(zip(matches, match_seeds, strict=True)):
            process = number % self.accelerator.num_processes
            if process != self.accelerator.process_index:
                continue
            policies = self.policies(match.seats)
            env_fn = plans[match.game].env_fn
            episodes = play_plans(
                [EpisodePlan(env_fn, policies, seed) for seed in seeds],
                on_error="raise",
            )
            numbered_results += [
                (
                    number,
                    EpisodeReturns(match.game, match.seats, tuple(episode.returns)),
                )
                for episode in episodes
            ]
        if matches:
            results = sorted(gather_object(numbered_results), key=lambda pair: pair[0])
            matchmaker.update([EpisodeReturns(*result) for _, result in results], step)

    def _policy(self, spec: str) -> Policy:
        step = snapshot_step(spec)
        if spec == SELF:
            return self.learner
        if step is None:
            return self.games.opponents[spec]
        return self._snapshot(step).player

    def _snapshot(self, step: int) -> "Snapshot":
        if step not in self._snapshots:
            model = self.store.policy(step)
            backend = model.backend
            model.backend = TimedBackend(backend, self.clock)
            self._snapshots[step] = Snapshot(backend, self.agent(model))
        return self._snapshots[step]

    def _checked(self, seats: Any, start: Start) -> Seats:
        """An assignment that a matchmaker gave.

        Raises:
            ValueError: the number of seats is wrong, no seat learns, or a policy is unknown.
        """
        assignment = tuple(seats)
        problem = None
        if len(assignment) != start.num_seats:
            problem = f"want {start.num_seats} seats"
        elif SELF not in assignment:
            problem = f"want a seat that learns, {SELF!r}"
        for spec in assignment:
            is_known = spec == SELF or spec in self.games.opponents
            if not is_known and snapshot_step(spec) not in self.store.steps:
                problem = f"want policies that it declares and snapshots that were taken, {spec!r} is neither"
        if problem is not None:
            raise ValueError(
                f"matchmaker {self.args.opponents!r}: {problem}, got {assignment!r} for "
                f"{start.game}; see arena_trainers.matchmaking.testing.check_matchmaker"
            )
        return assignment


def _match_seeds(matches: Sequence[Match], rng: np.random.Generator) -> list[list[int]]:
    """The seeds of each match: those of the same policies in other seats are the same."""
    seeds_by_match: dict[Any, list[int]] = {}
    match_seeds, counts = [], Counter[Match]()
    for match in matches:
        counts[match] += 1
        key = match.game, tuple(sorted(match.seats)), match.num_episodes, counts[match]
        if key not in seeds_by_match:
            size = match.num_episodes
            seeds_by_match[key] = rng.integers(2**62, size=size).tolist()
        match_seeds.append(seeds_by_match[key])
    return match_seeds
