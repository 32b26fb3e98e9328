"""Games and players of each start: games built once, tasks, seats, snapshots, matches."""

import json
import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from accelerate.utils import gather_object

from arena_envs.game import AnyGame
from arena_trainers.curricula import Curriculum, Outcome, Task
from arena_trainers.lm.backends.cached import CachedBackend
from arena_trainers.lm.backends.vllm import VLLMBackend
from arena_trainers.lm.policy import LMPolicy
from arena_trainers.lm.shared_base import share_base
from arena_trainers.losses import check_term, terms_of
from arena_trainers.matchmaking import (
    SELF,
    Match,
    Matchmaker,
    Result,
    Seats,
    Start,
    snapshot_step,
)
from arena_trainers.matchmaking.snapshots import FOLDER, SnapshotStore
from arena_trainers.processes import raised_everywhere
from arena_trainers.rewards import parts_of
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.games import (
    GamePlan,
    check_used,
    curriculum_of,
    is_constant,
    matchmaker_of,
    numbered_names,
    opponents,
)
from arena_trainers.train.metrics import Clock, TimedBackend
from arena_trainers.train.records import Supplier
from arena_trainers.train.settings import (
    check_credit,
    check_exact,
    of_critic,
)
from arena_trainers.trial import trial
from arena_wrappers import Branching, Episode, EpisodePlan, Policy, play_plans
from arena_wrappers.policies import own_prompt, without_noise
from arena_wrappers.records import write_whole


def read_owned(path: Path, owner: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a state's file.

    Args:
        path: the file, in a checkpoint.
        owner: the settings that the file must have, by name. Tuples equal lists.

    Raises:
        ValueError: there is no file, or it is one of other settings.
    """
    found: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    for name, wanted in json.loads(json.dumps(owner)).items():
        if found.get(name) != wanted:
            raise ValueError(
                f"want a checkpoint of {name} {wanted!r}, got one of "
                f"{found.get(name)!r} in {str(path.parent)!r}; resume with the "
                "settings of that run"
            )
    return found


@dataclass(frozen=True)
class PreparedGames:
    """The games, checked and built by `prepare_games`.

    Attributes:
        plans: the games.
        opponents: who plays the seats that do not learn, by policy string.
        functions: functions and reward models that supply columns of the turn batch, by
            column.
        columns: the columns of the turn batch that are gathered for the estimator and for
            the critic.
        matchmaker: assigns the seats of the games that have no `opponents` of their own.
        curriculum: chooses the game and the length of each start.
    """

    plans: Sequence[GamePlan]
    opponents: Mapping[str, Policy]
    functions: Mapping[str, Supplier]
    columns: tuple[str, ...]
    matchmaker: Matchmaker | None = None
    curriculum: Curriculum | None = None

    @property
    def rules(self) -> list[AnyGame]:
        """The rules of each game."""
        return [plan.game for plan in self.plans]

    @property
    def names(self) -> list[str]:
        """The name of each game, with its parameters; a repeated name gets a number."""
        return numbered_names(self.plans)

    @property
    def models(self) -> list[LMPolicy]:
        """The language models among the opponents."""
        inner = [without_noise(policy) for policy in self.opponents.values()]
        return [policy for policy in inner if isinstance(policy, LMPolicy)]

    def place_opponents(self, learner: LMPolicy, device: Any) -> None:
        """Moves language models among the opponents to a device, or onto the learner's base."""
        for policy in self.models:
            if not share_base(policy, learner):
                policy.model.to(device)

    def episode_plan(
        self,
        start: Mapping[str, Any],
        policies: Sequence[Policy],
        sample: int,
        branch: Branching | None,
    ) -> EpisodePlan:
        """The episode, or the turn tree, that a row of the data set starts.

        Args:
            start: the row, with `game` and `seed`, and `max_turns` by a curriculum.
            policies: who plays each seat.
            sample: number of the episode among those of the same start.
            branch: where episodes branch, if they do.
        """
        env_fn = self.plans[start["game"]].env_of(start.get("max_turns"))
        seed = int(start["seed"])
        return EpisodePlan(env_fn, policies, seed, sample, branch=branch)


def prepare_games(
    args: TurnGRPOConfig,
    policies: Mapping[str, Policy] | None = None,
    columns: Mapping[str, Supplier] | None = None,
    *,
    plans: Sequence[GamePlan] | None = None,
) -> PreparedGames:
    """Builds the games of a run and loads their opponents; checks both and the credit.

    Args:
        args: the trainer's settings.
        policies: policies by name, for opponents that are objects and not strings.
        columns: functions and reward models that supply columns, by column.
        plans: the games, if they are built already; by default those of `args.games`.

    Raises:
        ValueError: settings that do not fit together, see `GamePlan`, `check_used`,
            `check_credit`, `opponents`, `check_exact_opponents`, `matchmaker_of` and `curriculum_of`.
    """
    if plans is None:
        plans = [GamePlan(spec, args) for spec in args.games]
    check_used(args, plans)
    if not isinstance(columns := columns or {}, Mapping):
        raise ValueError(f"want columns as a mapping from names, got {columns!r:.200}")
    columns = {**columns, **parts_of(args.rewards)}
    found = check_credit(args, [plan.game for plan in plans], columns)
    found = (*found, *of_critic(args.critic).reads)
    matchmaker = matchmaker_of(args, plans)
    seated = opponents(plans, args, policies or {}, matchmaker)
    check_exact_opponents(args, plans, seated)
    curriculum = curriculum_of(args, plans)
    try_terms(args)
    return PreparedGames(tuple(plans), seated, columns, found, matchmaker, curriculum)


def try_terms(args: TurnGRPOConfig) -> None:
    """Computes each term of the loss on numbers of the same kind as in training.

    Raises:
        ValueError: it raises, or breaks a promise of `check_term`.
    """
    for term in terms_of(args.losses, args.layout):
        with trial(f"losses[{term.name!r}]", "a term that check_term passes"):
            check_term(term.function.func, **term.function.keywords)


CURRICULUM_FILE = "curriculum.json"  # of a checkpoint
CHOICES = 3  # what is drawn for, beside the purposes of `Matching`


class Tasks:
    """The tasks of starts, by a curriculum; without one, starts stay as they are.

    All processes make the same calls, and get the same tasks.

    Args:
        games: the games, with their curriculum if there is one.
        args: the trainer's settings.
    """

    def __init__(self, games: PreparedGames, args: TurnGRPOConfig) -> None:
        self.games, self.args, self.curriculum = games, args, games.curriculum

    def assign(
        self, starts: Sequence[Mapping[str, Any]], step: int, batch: int
    ) -> list[Mapping[str, Any]]:
        """This process's starts with the game and `max_turns` of their tasks.

        Args:
            starts: rows of the data set, one for each episode.
            step: optimizer steps so far.
            batch: number of the generation batch.
        """
        curriculum = self.curriculum
        if curriculum is None:
            return list(starts)
        keys = [(row["game"], int(row["seed"])) for row in starts]
        rng = np.random.default_rng([self.args.seed, batch, CHOICES])
        numbers = {name: number for number, name in enumerate(self.games.names)}
        tasks: dict[tuple[int, int], dict[str, Any]] = {}
        for key in dict.fromkeys(gather_object(keys)):
            task = self._checked(curriculum.propose(step, rng))
            game = key[0] if task.game is None else numbers[task.game]
            tasks[key] = {"game": game, "max_turns": task.max_turns}
        return [{**row, **tasks[key]} for row, key in zip(starts, keys, strict=True)]

    def report(
        self,
        episodes: Sequence[Episode],
        games: Sequence[int],
        seats: Sequence[Seats],
        step: int,
    ) -> None:
        """Tells the curriculum how the episodes of all processes ended."""
        if self.curriculum is None:
            return
        own = [
            self._outcome(episode, game, who)
            for episode, game, who in zip(episodes, games, seats, strict=True)
            if episode.parent is None
            and not is_constant(self.games.rules[game].zero_sum, who)
        ]
        self.curriculum.update([Outcome(*found) for found in gather_object(own)], step)

    def save(self, checkpoint: Path) -> None:
        """Writes the curriculum's state; only the main process calls it."""
        if self.curriculum is not None:
            content = {**self._owner, "state": self.curriculum.state_dict()}
            write_whole(checkpoint / CURRICULUM_FILE, json.dumps(content))

    def load(self, checkpoint: Path) -> None:
        """Goes on from a checkpoint.

        Raises:
            ValueError: it is of another curriculum, or of other games.
        """
        if self.curriculum is None:
            return
        found = read_owned(checkpoint / CURRICULUM_FILE, self._owner)
        self.curriculum.load_state_dict(found["state"])

    @property
    def _owner(self) -> dict[str, Any]:
        """The curriculum and the games whose outcomes a state is made of."""
        return {"curriculum": self.args.curriculum, "games": self.games.names}

    def _outcome(self, episode: Episode, game: int, seats: Seats) -> Outcome:
        rules = self.games.rules[game]
        pairs = zip(episode.returns, seats, strict=True)
        mean = float(np.mean([value for value, who in pairs if who == SELF]))
        share = (mean - rules.min_return) / (rules.max_return - rules.min_return)
        return Outcome(self.games.names[game], min(max(share, 0.0), 1.0))

    def _checked(self, task: Task) -> Task:
        """A task that a curriculum gave.

        Raises:
            ValueError: an unknown game, or a limit that is no integer above 0.
        """
        limit = task.max_turns
        is_limit = limit is None or (isinstance(limit, int) and limit > 0)
        if is_limit and task.game in (None, *self.games.names):
            return task
        raise ValueError(
            f"curriculum {self.args.curriculum!r}: want a game of {self.games.names} "
            f"and max_turns above 0, or None, got {task!r}; see "
            "arena_trainers.curricula.testing.check_curriculum"
        )


MATCHMAKING_FILE = "matchmaking.json"  # of a checkpoint
TRAIN, MATCHES, EVAL = range(3)  # what the choices are drawn for

Key = tuple[int, int]  # index of the game, and seed: the same for a group


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
        accelerator: Any,
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
        keys: list[Key] = [(row["game"], int(row["seed"])) for row in starts]
        found = {key: tuple(plans[key[0]].seats or ()) for key in keys}
        if matchmaker is not None:
            self._advance(matchmaker, step)
            matched = [k for k in gather_object(keys) if plans[k[0]].seats is None]
            matched = list(dict.fromkeys(matched))
            asked = [
                Start(plans[game].name, plans[game].game.num_players, seed)
                for game, seed in matched
            ]
            rng = np.random.default_rng([self.args.seed, batch, purpose])
            given = matchmaker.assign(asked, step, rng) if asked else ()
            for key, start, seats in zip(matched, asked, given, strict=True):
                found[key] = self._checked(seats, start)
        return [found[key] for key in keys]

    def policies(self, seats: Seats) -> list[Policy]:
        """The policies of an assignment."""
        return [self._policy(who) for who in seats]

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
        own = [
            Result(plans[game].name, who, tuple(episode.returns))
            for episode, game, who in zip(episodes, games, seats, strict=True)
            if episode.parent is None and plans[game].seats is None
        ]
        matchmaker.update([Result(*result) for result in gather_object(own)], step)

    @property
    def files(self) -> list[Path]:
        """The snapshots that a checkpoint of this moment needs."""
        return [self.store.path(step) for step in sorted(self.store.steps)]

    def save_replies(self, checkpoint: Path) -> None:
        """Writes what snapshots know of their replies; every process calls it.

        What is known changes the last bits of probabilities. With it, a resumed run plays as
        the unbroken one.
        """
        known = {
            step: backend.state_dict()
            for step, snapshot in self._snapshots.items()
            if isinstance(backend := snapshot.backend, CachedBackend)
        }
        if known:
            checkpoint.mkdir(parents=True, exist_ok=True)
            torch.save(known, checkpoint / self._replies)

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
        found = read_owned(checkpoint / MATCHMAKING_FILE, self._owner)
        source = checkpoint.parent / FOLDER
        with raised_everywhere():  # afterwards copies are there
            self.store.resume(found["snapshots"], found["run"], source)
        self._snapshots.clear()
        file = checkpoint / self._replies  # none if the number of processes was another
        replies = torch.load(file, weights_only=True) if file.is_file() else {}
        for step, state in replies.items():
            backend = self._snapshot(step).backend
            if isinstance(backend, CachedBackend):
                backend.load_state_dict(state)
        matchmaker.load_state_dict(found["state"])

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
        wanted = set(matchmaker.snapshots(step))
        if step not in wanted or step in self.store.steps:
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
            on_disk = {taken for state in states for taken in state["snapshots"]}
            self.store.keep(wanted, on_disk)
        self._snapshots = {s: p for s, p in self._snapshots.items() if s in wanted}
        self._play_matches(matchmaker, step)

    def _play_matches(self, matchmaker: Matchmaker, step: int) -> None:
        matches = matchmaker.matches(step)
        plans = {plan.name: plan for plan in self.games.plans if plan.seats is None}
        rng = np.random.default_rng([self.args.seed, step, MATCHES])
        own: list[tuple[int, Result]] = []
        drawn = _match_seeds(matches, rng)
        for number, (match, seeds) in enumerate(zip(matches, drawn, strict=True)):
            process = number % self.accelerator.num_processes
            if process != self.accelerator.process_index:
                continue
            policies = self.policies(match.seats)
            env_fn = plans[match.game].env_fn
            played = play_plans(
                [EpisodePlan(env_fn, policies, seed) for seed in seeds],
                on_error="raise",
            )
            own += [
                (number, Result(match.game, match.seats, tuple(episode.returns)))
                for episode in played
            ]
        if matches:
            results = sorted(gather_object(own), key=lambda pair: pair[0])
            matchmaker.update([Result(*result) for _, result in results], step)

    def _policy(self, who: str) -> Policy:
        step = snapshot_step(who)
        if who == SELF:
            return self.learner
        if step is None:
            return self.games.opponents[who]
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
        found = tuple(seats)
        problem = None
        if len(found) != start.num_seats:
            problem = f"want {start.num_seats} seats"
        elif SELF not in found:
            problem = f"want a seat that learns, {SELF!r}"
        for who in found:
            is_known = who == SELF or who in self.games.opponents
            if not is_known and snapshot_step(who) not in self.store.steps:
                problem = f"want policies that it declares and snapshots that were taken, {who!r} is neither"
        if problem is not None:
            raise ValueError(
                f"matchmaker {self.args.opponents!r}: {problem}, got {found!r} for "
                f"{start.game}; see arena_trainers.matchmaking.testing.check_matchmaker"
            )
        return found


def _match_seeds(matches: Sequence[Match], rng: np.random.Generator) -> list[list[int]]:
    """The seeds of each match: those of the same policies in other seats are the same."""
    drawn: dict[Any, list[int]] = {}
    found, times = [], Counter[Match]()
    for match in matches:
        times[match] += 1
        key = match.game, tuple(sorted(match.seats)), match.num_episodes, times[match]
        if key not in drawn:
            size = match.num_episodes
            drawn[key] = rng.integers(2**62, size=size).tolist()
        found.append(drawn[key])
    return found


def check_exact_opponents(
    args: TurnGRPOConfig, plans: Sequence[GamePlan], opponents: Mapping[str, Policy]
) -> None:
    """Raises if `critic="exact"` would give values of other policies than those that play.

    Args:
        args: settings; checked only if `critic="exact"`.
        plans: the games.
        opponents: policies of the seats that do not learn, by policy string.

    Raises:
        ValueError: as `check_exact`; or an opponent without `action_probs`.
    """
    check_exact(args, plans)
    for plan in plans if args.critic == "exact" else ():
        for seat, spec in enumerate(plan.seats or ()):
            if spec != "self":
                _check_scoring(
                    opponents[spec], f"{spec!r} in seat {seat} of {plan.name}"
                )


def _check_scoring(policy: Policy, who: str) -> None:
    """Raises if a policy has no `action_probs`, or if it plays by other probabilities."""
    if not hasattr(policy, "action_probs"):
        raise ValueError(f"critic='exact' takes policies with action_probs, got {who}")
    options = own_prompt(policy)
    if options is not None and options.history != "state":
        raise ValueError(
            f"critic='exact' takes history 'state', got {who} with "
            f"{options.history!r}: a transcript holds more than the state"
        )
    inner = without_noise(policy)
    if isinstance(inner, LMPolicy) and not inner.sampling.draws_from_all:
        raise ValueError(
            "critic='exact' takes language models that sample from all tokens, got "
            f"{who} with {dict(inner.sampling.options)}"
        )
