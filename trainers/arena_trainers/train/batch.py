"""A generation batch from its starts to its credit: play, choice of what is trained, advantages.

**Reward models.** A reward model supplies columns: its scores of the turns, compared at equal prompts.

A model of `arena train --trainer reward` scores a prompt x with a reply y. Its loss reads the
differences of two replies to the same prompt alone. So a score f(x, y) is known up to a positive
factor and up to a number c(x) that may differ from prompt to prompt. The columns remove c(x) by a
baseline:

    V(x) = mean of f(x, y') over the turns of other episodes of the batch with the prompt x

| column | content |
|---|---|
| `rewards.NAME` | f(x, y) - V(x) |
| `value` | V(x); only beside `action_value` of the same model |
| `action_value` | f(x, y) |

A prompt that no other episode has read has V(x) = f(x, y), so `rewards.NAME` and
`action_value` - `value` are 0 there. Prompts are equal if their tokens are.

The other episodes were played by the same policy, whatever the turn's own reply was. So the
expected difference given the reply is f(x, y) - E[f(x, ·)], where it is not set to 0, and its mean
over the policy's replies is 0. Differences of later turns therefore add variance to the return-to-go
of a turn, but no bias: they reward neither long episodes nor a visit to some prompt.

An estimator that credits a turn with this difference follows the gradient of the mean score at the
prompts that play reaches, with the distribution of prompts held fixed. This is the policy step of
AgentPRM ("Process Reward Models for LLM Agents: Practical Framework and Directions",
https://arxiv.org/abs/2502.10325), whose reward model is fitted to returns instead of pairs.
The gradient of the return differs from it wherever scores and returns disagree.

**What is trained.** A group is *flat* if in every seat that learns all its trajectories have the same reward. An
estimator with one advantage per trajectory that compares within a group, such as `grpo`, gives
it none. Estimators over returns-to-go do, where rewards come at different turns or pools join
several turns. With `flat_groups="drop"` the
trainer plays the starts of flat groups again, at most `max_replays` times and each time with
other samples. It drops the groups that are still flat. If every group is flat, it drops none.

Both **select data by its returns**, so what is trained is biased:

- An estimator that pools over several groups, or that keeps a moving baseline, no longer sees
  the returns of flat groups. Its baseline then is biased, and so is the gradient.
- An estimator with one advantage per trajectory that pools within a group has the same gradient
  without the flat groups, up to a factor, if `beta` is 0: a loss that averages over tokens
  divides by fewer of them. With a KL term the dropped groups also lose their KL gradient.
- A group that was played again is drawn from groups with spread. Within such groups rare returns
  are more frequent than in the policy's play. Starts whose groups are mostly flat still weigh
  less than their share.
- A critic is fitted to the selected groups only.

With `oversample` above 1 a part of each group's trajectories is trained, and clean wins are
preferred (`clean_wins`). This selects by returns and by replies:

- The gradient is not that of the expected return. Wins with invalid replies count less than
  their share, so clean replies are learned besides.
- Wins and losses keep their proportion up to rounding, so a baseline of the group changes little.
  The rarer of the two weighs more than its share where rounding would leave it out.
- The opponent's trajectory in the same episode may be trained when this seat's is not.

Neither marks turns as selected (`unselected` of `TurnBatch`): such turns get no credit at all.

Dropping flat groups is DAPO's dynamic sampling without new starts ("DAPO: An Open-Source LLM
Reinforcement Learning System at Scale", https://arxiv.org/abs/2503.14476, section 3.2).

**Play beside training** (`asynchronous`; see docs/scaling.md). Batches of the next step are played while
one trains, with the weights that the step began with. Number, seeds, seats and weights of a batch follow
from the number of its step, so no record depends on which process was faster. A checkpoint holds the
weights that play what is in flight, and a resumed run plays it again with them.
"""

import copy
import hashlib
import math
import pickle
import shutil
import signal
import time
import warnings
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent import futures
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from multiprocessing import Pipe, get_context, resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from safetensors.torch import load_file, save_file

from arena_credit import Credit, FlatPoolWarning, TurnBatch
from arena_credit.batch import Bools, Floats, Ints
from arena_credit.pools import ZERO, Pools, mean_of_others
from arena_envs.extras import hide_library_warnings
from arena_trainers.engines.settings import by_server, check_unsupported
from arena_trainers.lm.policy import LMPolicy
from arena_trainers.lm.reward_model import RewardModel, check_same_texts
from arena_trainers.matchmaking import SELF, Seats
from arena_trainers.rewards import Part
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.critics import Critic
from arena_trainers.train.games import opponents
from arena_trainers.train.matching import EVAL, TRAIN, Matching, PreparedGames, Tasks
from arena_trainers.train.metrics import (
    Clock,
    Spent,
    TimedBackend,
    flat_groups,
    num_played,
)
from arena_trainers.train.records import (
    Kept,
    Played,
    RewardColumn,
    Shares,
    Supplier,
    TurnRecord,
    functions_of,
    per_episode,
    ranks,
    reward_columns_of,
    rows_of_process,
    turn_batch,
    turn_records,
    whole_row_lengths,
    with_supplied,
)
from arena_trainers.train.settings import estimate_credit, part_weights
from arena_trainers.train.together import check_together
from arena_wrappers import Episode, EpisodePlan, play_plans
from arena_wrappers.play import EnvCaches
from arena_wrappers.policies import without_noise


class Credited(NamedTuple):
    """The turns of all processes as one batch, and their credit."""

    turns: TurnBatch
    credit: Credit


class BatchCredit:
    """The part of `TurnGRPOTrainer` that gives turns their credit.

    All processes make the same calls, and get the same credit.

    Args:
        args: the trainer's settings.
        games: the games, with the columns that the estimator reads.
        critic: supplies the value columns, if there is one.
        models: reward models that supply columns, by path.
        clock: counts the time.
        max_tokens: most tokens that run through a reward model at once.

    Attributes:
        state: the estimator's, from the batch before.
        parts: of the reward, of the option `rewards`; `multipliers` of those with a limit.
        step: the optimizer step, at which `weights` holds.
        metrics: of the critic and of `rewards`, for the latest batch.
    """

    def __init__(
        self,
        args: TurnGRPOConfig,
        games: PreparedGames,
        critic: Critic | None,
        models: Mapping[str, RewardModel],
        clock: Clock,
        max_tokens: int,
    ) -> None:
        self.args, self.games, self.critic = args, games, critic
        self.models, self.clock, self.max_tokens = models, clock, max_tokens
        self.state: Mapping[str, Any] | None = None
        self.metrics: dict[str, float] = {}
        functions = games.functions.values()
        self.parts = [part for part in functions if isinstance(part, Part)]
        self.multipliers = {part.name: 0.0 for part in self.parts if part.sign}
        self.step = 0

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each part of the reward at this step."""
        now = {
            part.name: part.weight_at(self.step, self.multipliers.get(part.name, 0.0))
            for part in self.parts
        }
        return part_weights(self.args, self.games.functions) | now

    def _after(self, records: Sequence[TurnRecord], trains: bool) -> None:
        """Logs weights and means of the rewards, and moves the multipliers."""
        weights = self.weights
        for part in self.parts:
            paid = [r.rewards[part.name] for r in records if part.name in r.rewards]
            mean = math.fsum(paid) / max(len(paid), 1)  # over turns, not their calls
            self.metrics[f"arena/reward/{part.name}"] = mean
            self.metrics[f"arena/reward/{part.name}/weight"] = weights[part.name]
            if trains and records and part.sign:
                moved = part.moved(self.multipliers[part.name], mean)
                self.multipliers[part.name] = moved

    def _check_calls(self, played: Played) -> None:
        """Raises ValueError for what turns of several calls do not support, see `together`."""
        turns = (
            turn
            for episode, who in zip(played.episodes, played.seats, strict=True)
            for turn in episode.turns
            if who[turn.seat] == SELF
        )
        if any(turn.generations for turn in turns):
            games = self.games
            check_together(self.args, games.columns, games.functions, plays_agent=True)

    def records(self, played: Played) -> Shares:
        """The records of all turns that were played, of each process."""
        games, from_rewards = self.games, reward_columns_of(self.games.functions)
        self._check_calls(played)
        with self.clock.part("credit"):
            own = turn_records(
                played.episodes,
                played.games,
                played.seats,
                games.rules,
                games.columns,
                functions_of(games.functions),
                self.args.branching(()),
            )
            if from_rewards:
                own = scored(own, played.episodes, self.models, self.max_tokens)
            shares: Shares = gather_object([own])
            return with_reward_columns(shares, from_rewards) if from_rewards else shares

    def __call__(self, shares: Shares, trains: bool) -> Credited:
        """The credit of a batch; if it is trained, the estimator's state and critic go on."""
        args, games = self.args, self.games
        records = [turn for share in shares for turn in share]
        with self.clock.part("credit"):
            turns = turn_batch(
                shares,
                self.weights,
                games.names,
                games.columns,
                [game.teams for game in games.rules],
            )
            if args.layout == "trajectory":
                turns = replace(turns, row_length=whole_row_lengths(turns))
            if self.critic is not None:
                turns = self.critic.with_values(turns, records)
            with warnings.catch_warnings():
                if all(record.is_invalid for record in records):
                    # equal returns of invalid replies are no fault of the pools
                    warnings.simplefilter("ignore", FlatPoolWarning)
                found = estimate_credit(args, turns, self.state)
            self.metrics = {}
            if self.critic is not None:
                self.metrics = self.critic.after(turns, records, trains)
            self._after(records, trains)
            if trains:
                self.state = found.state
        return Credited(turns, found)


def check_reward_models(
    columns: Mapping[str, Supplier], tokenizer: Any, args: TurnGRPOConfig
) -> None:
    """Checks that reward models were trained on such texts as the learner's; loads none.

    Raises:
        ValueError: a reward model has other tokens or prompts, see `check_same_texts`.
    """
    chat: Any = args.chat_template_kwargs  # of TRL, which also takes JSON
    for path in _paths(columns):
        check_same_texts(path, tokenizer, args.prompt, chat)


def load_reward_models(
    columns: Mapping[str, Supplier], device: torch.device
) -> dict[str, RewardModel]:
    """The reward models of columns, by path, each loaded once."""
    models = _paths(columns)
    return {path: RewardModel.from_pretrained(path, device=device) for path in models}


def _paths(columns: Mapping[str, Supplier]) -> list[str]:
    return list(dict.fromkeys(c.path for c in reward_columns_of(columns).values()))


def scored(
    records: Sequence[TurnRecord],
    episodes: Sequence[Episode],
    models: Mapping[str, RewardModel],
    max_tokens: int,
) -> list[TurnRecord]:
    """The records of a process with the scores of their turns.

    Args:
        records: of this process.
        episodes: that they are of.
        models: reward models by path.
        max_tokens: most tokens that run at once, padding included.
    """
    turns = [episodes[record.episode].turns[record.place] for record in records]
    texts = [(turn.prompt_ids or (), turn.token_ids or ()) for turn in turns]
    scores = {path: m.score(texts, max_tokens) for path, m in models.items()}
    return [
        record._replace(
            prompt=_digest(prompt),
            text=_digest((*prompt, *reply)),
            scores={path: own[i] for path, own in scores.items()},
        )
        for i, (record, (prompt, reply)) in enumerate(zip(records, texts, strict=True))
    ]


def _digest(ids: Sequence[int]) -> bytes:
    """Equal for equal tokens; short, because all processes share it."""
    return hashlib.blake2b(np.array(ids, np.int64).tobytes(), digest_size=16).digest()


def with_reward_columns(shares: Shares, columns: Mapping[str, RewardColumn]) -> Shares:
    """The records of each process with the columns that reward models supply.

    Every process computes them for all turns, so that they have the same numbers. Equal
    texts have the score of the first, whatever process computed it.
    """
    turns = [turn for share in shares for turn in share]
    prompt, episode = _prompts_and_episodes(shares)
    supplied: dict[str, Floats] = {}
    for name, column in columns.items():
        first: dict[bytes, float] = {}
        found = [
            first.setdefault(turn.text, (turn.scores or {})[column.path])
            for turn in turns
        ]
        score = np.array(found, np.float64)
        value = baseline(score, prompt, episode)
        kinds = {"value": value, "action_value": score}
        supplied[name] = kinds.get(name, score - value)
    filled = [
        with_supplied(turn, {name: float(v[i]) for name, v in supplied.items()})
        for i, turn in enumerate(turns)
    ]
    places = [rows_of_process(shares, rank) for rank in range(len(shares))]
    return [filled[rows.start : rows.stop] for rows in places]


def compared_turns(shares: Shares) -> float:
    """The share of turns whose prompt another episode of the batch has."""
    prompt, episode = _prompts_and_episodes(shares)
    return float(_has_others(prompt, episode).mean()) if len(prompt) else 0.0


def _prompts_and_episodes(shares: Shares) -> tuple[Ints, Ints]:
    """int64[N] each, numbers of the prompt and of the episode of each turn."""
    turns = [(rank, turn) for rank, share in enumerate(shares) for turn in share]
    prompts = [turn.prompt for _, turn in turns]
    return ranks(prompts), ranks((rank, turn.episode) for rank, turn in turns)


def baseline(score: Floats, prompt: Ints, episode: Ints) -> Floats:
    """The mean score of the turns of other episodes with the same prompt.

    Args:
        score: float64[N].
        prompt: int64[N], number of the prompt, below N.
        episode: int64[N], number of the episode.

    Returns:
        float64[N]; the own score where no other episode has the prompt.

    >>> score = np.array([1.0, 2.0, 6.0, 5.0])
    >>> baseline(score, np.array([0, 0, 0, 1]), np.array([0, 0, 1, 2]))
    array([6. , 6. , 1.5, 5. ])
    """
    others = mean_of_others(_pools(prompt), episode, score)
    return np.where(_has_others(prompt, episode), others, score)


def _has_others(prompt: Ints, episode: Ints) -> Bools:
    """bool[N], whether another episode has the prompt of a turn."""
    ones = np.ones(len(prompt))
    return mean_of_others(_pools(prompt), episode, ones) > 0


def _pools(prompt: Ints) -> Pools:
    num = int(prompt.max(initial=-1)) + 1
    return Pools(("prompt",), np.arange(num)[:, None], prompt)


REPLAY = 2**40  # between the samples of an episode that is played again
CLEAN_WINS = 4  # what is drawn for, beside the purposes of `Matching` and `Tasks`


class Player:
    """The part of `TurnGRPOTrainer` that plays generation batches.

    Args:
        args: the trainer's settings.
        games: the games.
        matching: assigns the seats of starts.
        tasks: assigns the games of starts.
        process: index of this process.
        group_sizes: episodes of a start, in evaluation and in training.
        clock: counts the time.
    """

    def __init__(
        self,
        args: TurnGRPOConfig,
        games: PreparedGames,
        matching: Matching,
        tasks: Tasks,
        process: int,
        group_sizes: tuple[int, int],
        clock: Clock,
    ) -> None:
        self.args, self.games, self.matching, self.tasks = args, games, matching, tasks
        self.process, self.group_sizes, self.clock = process, group_sizes, clock
        self._generation = (-1, 0)  # optimizer step, and number within it
        self._envs = EnvCaches()

    def play(
        self, starts: Sequence[Mapping[str, Any]], step: int, trains: bool
    ) -> Played:
        """Plays this process's episodes of the generation batch: one per start, or a tree.

        Args:
            starts: rows of the data set.
            step: optimizer steps so far.
            trains: whether the batch is trained.
        """
        with self.clock.part("environment"):
            number = self.generation_number(step) if trains else 0
            played = self.begin(starts, step, number, trains)
            self.end(played, self.episodes(played, range(len(starts))), step)
        return played

    def begin(
        self, starts: Sequence[Mapping[str, Any]], step: int, number: int, trains: bool
    ) -> Played:
        """A generation batch before it is played, with its tasks and who plays each seat."""
        if trains:
            starts = self.tasks.assign(starts, step, number)
        purpose = TRAIN if trains else EVAL
        assigned = self.matching.assign(starts, step, number, purpose)
        return Played(starts, [], [], assigned, [], number, trains)

    def end(self, played: Played, episodes: list[Episode], step: int) -> None:
        """Gives a batch its episodes, and reports them if it is trained."""
        games = [start["game"] for start in played.starts]
        played.games = per_episode(episodes, games)
        played.seats = per_episode(episodes, played.seats)
        played.episodes = played.first_episodes = episodes
        if played.trains:
            self.matching.report(episodes, played.games, played.seats, step)
            self.tasks.report(episodes, played.games, played.seats, step)

    def play_again(
        self, played: Played, starts: Collection[tuple[int, int]], attempt: int
    ) -> None:
        """Plays the episodes of some groups again, with the same seats and other samples.

        Matchmaker and curriculum get no results of them, because they were selected.

        Args:
            played: the batch; its episodes are replaced.
            starts: game and seed of the groups.
            attempt: number of the repetition, from 1.
        """
        with self.clock.part("environment"):
            chosen = [
                n
                for n, row in enumerate(played.starts)
                if (row["game"], int(row["seed"])) in starts
            ]
            again = self.episodes(played, chosen, attempt)
            played.episodes = list(played.episodes)
            for n, episode in zip(chosen, again, strict=True):
                played.episodes[n] = episode

    def episodes(
        self, played: Played, chosen: Sequence[int], attempt: int = 0
    ) -> list[Episode]:
        """Plays some of the starts of a batch."""
        plans = [self._plan(played, n, attempt) for n in chosen]
        episodes = play_plans(plans, on_error="raise", caches=self._envs)
        self.clock.counts.update(num_played(episodes))
        return episodes

    def _plan(self, played: Played, index: int, attempt: int) -> EpisodePlan:
        """The episode, or tree, of one start of this process."""
        seats: Seats = played.seats[index]
        group = self.group_sizes[played.trains]
        place = self.process * len(played.starts) + index
        sample = played.number * group + place % group + attempt * REPLAY
        learn = [seat for seat, who in enumerate(seats) if who == SELF]
        branch = self.args.branching(learn) if played.trains else None
        policies = self.matching.policies(seats)
        return self.games.episode_plan(played.starts[index], policies, sample, branch)

    def generation_number(self, step: int) -> int:
        """Numbers generation batches, so that a start that comes again is played anew.

        It follows from the optimizer step, so that a resumed run counts on alike.
        """
        within = self._generation[1] + 1 if self._generation[0] == step else 0
        self._generation = (step, within)
        return int(step * math.ceil(self.args.generations_per_step)) + within


@dataclass(frozen=True)
class Filter:
    """The part of `TurnGRPOTrainer` that chooses what is trained; equal for all processes.

    Args:
        args: the trainer's settings.
        games: the games.
        player: plays flat groups again.
        credit: makes records of turns.
        process: index of this process.
        clock: counts the time.
    """

    args: TurnGRPOConfig
    games: PreparedGames
    player: Player
    credit: BatchCredit
    process: int
    clock: Clock

    def __call__(self, played: Played) -> Kept:
        """The turns of a batch that are trained."""
        kept = Kept(self.credit.records(played), self.process, {})
        if self.credit.models:
            share = {"arena/compared_turns": compared_turns(kept.shares)}
            kept = kept._replace(metrics=share)
        if played.trains and self.args.flat_groups == "drop":
            kept = self._with_spread(kept, played)
        if played.trains and self.args.oversample > 1:
            kept = self._with_clean_wins(kept, played)
        return kept

    def _with_spread(self, kept: Kept, played: Played) -> Kept:
        """The records without flat groups, which are played again before they are dropped."""
        shares = kept.shares
        is_flat = self._flat_starts(shares)
        at_first = sum(is_flat.values())
        for attempt in range(1, self.args.max_replays + 1):
            flat = {start for start, value in is_flat.items() if value}
            if not flat:
                break
            self.player.play_again(played, flat, attempt)
            shares = self.credit.records(played)
            is_flat = self._flat_starts(shares)
        num_flat, num_groups = sum(is_flat.values()), max(len(is_flat), 1)
        if num_flat == len(is_flat):
            num_flat, is_flat = 0, dict.fromkeys(is_flat, False)  # credit needs a turn
        metrics = {
            **kept.metrics,
            "arena/flat_groups": at_first / num_groups,
            "arena/dropped_groups": num_flat / num_groups,
        }
        shares = [
            [turn for turn in share if not is_flat[turn.game, turn.seed]]
            for share in shares
        ]
        return kept._replace(shares=shares, metrics=metrics)

    def _with_clean_wins(self, kept: Kept, played: Played) -> Kept:
        """The records of the trajectories that are trained."""
        turns = [turn for share in kept.shares for turn in share]
        if not turns:
            return kept
        rng = np.random.default_rng([self.args.seed, played.number, CLEAN_WINS])
        with self.clock.part("credit"):
            batch = self._batch(kept.shares)
            invalid = np.array([turn.is_invalid for turn in turns])
            clean = clean_wins(batch, invalid, self.args.oversample, rng)
        pairs = np.stack([batch.episode, batch.seat], axis=1)
        num_trained, num = (len(np.unique(p, axis=0)) for p in (pairs[clean], pairs))
        left_out = invalid[~clean]
        metrics = {
            **kept.metrics,
            "arena/trained_trajectories": num_trained / num,
            "arena/left_out_invalid": float(left_out.mean()) if left_out.size else 0.0,
        }
        places = iter(clean.tolist())
        shares = [[turn for turn in share if next(places)] for share in kept.shares]
        return kept._replace(shares=shares, metrics=metrics)

    def _flat_starts(self, shares: Shares) -> dict[tuple[int, int], bool]:
        """Whether the group of each start, a game and a seed, is flat."""
        with self.clock.part("credit"):
            starts = {(turn.game, turn.seed) for share in shares for turn in share}
            if not starts:
                return {}
            found = flat_groups(self._batch(shares))
        # groups are numbered in the order of their starts
        return dict(zip(sorted(starts), found.tolist(), strict=True))

    def _batch(self, shares: Shares) -> TurnBatch:
        return turn_batch(shares, self.credit.weights, self.games.names)


def clean_wins(
    batch: TurnBatch,
    invalid: Sequence[bool] | Bools,
    oversample: int,
    rng: np.random.Generator,
) -> Bools:
    """bool[N]: whether the trajectory of each of the N turns is trained.

    A trajectory *wins* if its reward is above the mean of its seat in its group. Of `oversample`
    times as many trajectories as are trained,

    - wins with the smallest share of invalid replies are kept, others by chance,
    - losses are kept by chance, each equally often,

    in the proportion in which they were played, but at least one of each that there is.

    This is GRPO-RoC of "rStar2-Agent: Agentic Reasoning Technical Report"
    (https://arxiv.org/abs/2508.20722), section 3.2. Departures: a win is relative to the group, since
    games have other returns than 0 and 1; wins with the smallest share are kept, as in the released
    code, where the paper draws them with probability by their penalty; losses are drawn by chance, as in
    the paper, where the released code sorts them, too.

    Args:
        batch: the turns that were played.
        invalid: bool[N], whether the reply of a turn was invalid.
        oversample: trajectories played for each one that is trained.
        rng: the source of all choices.

    >>> one = dict(turn=[0] * 4, episode=[0, 1, 2, 3], game=[0] * 4)
    >>> played = TurnBatch([1, 1, 0, 1], seat=[0] * 4, group=[0] * 4, **one)
    >>> replies = [True, False, False, True]
    >>> clean_wins(played, replies, 2, np.random.default_rng(0))
    array([False,  True,  True, False])
    """
    keys = np.stack([batch.group, batch.seat, batch.episode], axis=1)
    trajectories, of = np.unique(keys, axis=0, return_inverse=True)
    of = of.ravel()
    reward = np.bincount(of, batch.reward)
    rate = np.bincount(of, np.asarray(invalid, float)) / np.bincount(of)
    pools, pool_of = np.unique(trajectories[:, :2], axis=0, return_inverse=True)
    kept = np.zeros(len(trajectories), bool)
    for pool in range(len(pools)):
        members = rng.permutation(np.flatnonzero(pool_of.ravel() == pool))
        won = reward[members] > reward[members].mean() + ZERO
        wins, losses = members[won], members[~won]
        num_wins, num_losses = shares(len(wins), len(losses), oversample)
        cleanest = wins[np.argsort(rate[wins], kind="stable")]
        kept[cleanest[:num_wins]] = True
        kept[losses[:num_losses]] = True
    return kept[of]


def shares(num_wins: int, num_losses: int, oversample: int) -> tuple[int, int]:
    """The numbers of wins and losses of a seat's trajectories in a group that are trained.

    >>> shares(4, 4, 2), shares(1, 7, 2), shares(7, 1, 2), shares(0, 8, 2)
    ((2, 2), (1, 3), (3, 1), (0, 4))
    """
    num = max((num_wins + num_losses) // oversample, 1)
    wins = round(num * num_wins / (num_wins + num_losses))
    wins = max(wins, min(num_wins, 1))
    wins = min(wins, num - min(num_losses, 1)) if num > 1 else wins
    return wins, num - wins


FOLDER, WEIGHTS = "player", "weights.safetensors"  # of runs and checkpoints
FOR_TRAINER = signal.SIGINT, signal.SIGTERM  # signals after which it ends in order


class Job(NamedTuple):
    """A batch without episodes, to be played with the weights of a step in a folder."""

    played: Played
    version: int
    weights: Path


# episodes, tokens that were generated, seconds by part
Done = tuple[list[Episode], int, dict[str, Spent]]
# settings, games, what makes an agent of the policy, and sizes of groups
Setup = tuple[TurnGRPOConfig, PreparedGames, Any, tuple[int, int]]


def job_player(
    setup: Setup, policy: LMPolicy, accelerator: Any, load: Callable[[Path], None]
) -> Callable[[Job], Done]:
    """Plays jobs with a policy, to which `load` gives the weights of a folder."""
    (args, games, agent, sizes), clock, loaded = setup, Clock(), Path()
    for one in (policy, *games.models):
        one.backend = TimedBackend(one.backend, clock)
    matching = Matching(games, args, accelerator, policy, clock, agent)
    player = Player(args, games, matching, Tasks(games, args), 0, sizes, clock)

    def play(job: Job) -> Done:
        nonlocal loaded
        clock.restart()
        if job.weights != loaded:
            load(job.weights)
            loaded = job.weights
        with clock.part("environment"):
            found = player.episodes(job.played, range(len(job.played.starts)))
        return found, clock.counts["generated"], clock.spent

    return play


def play_jobs(
    line: Connection, setup: Setup, folder: Path, dtype: Any, num_threads: int
) -> None:
    """Plays jobs in a process of its own, with a model of its own, until training ends."""
    torch.set_num_threads(num_threads)
    hide_library_warnings()
    args, games, *rest = setup
    seated = opponents(games.plans, args, games.opponents, games.matchmaker)
    games = replace(games, opponents=seated)
    options = {"dtype": dtype, "name": "self", "prompt": args.prompt}
    options |= {"with_entropy": "tokens.entropy" in games.columns}
    options |= args.sampling_options
    policy = LMPolicy.from_pretrained(folder, device="cpu", **options)
    games.place_opponents(policy, "cpu")
    weights = dict(policy.model.named_parameters())
    precision = "bf16" if args.bf16 else "no"
    accelerator = Accelerator(cpu=True, mixed_precision=precision)
    accelerator.prepare_model(policy.model, evaluation_mode=True)

    def load(folder: Path) -> None:
        for name, tensor in load_file(folder / WEIGHTS).items():
            weights[name].data.copy_(tensor)

    play = job_player((args, games, *rest), policy, accelerator, load)
    with suppress(EOFError, BrokenPipeError):  # the trainer has ended
        while True:
            line.send(play(line.recv()))


class Ahead:
    """The part of `TurnGRPOTrainer` that has batches played beside training.

    Args:
        trainer: with its parts that play.

    Raises:
        ValueError: play would need the device or the model that trains, or what another
            process cannot get.
    """

    def __init__(self, trainer: Any) -> None:
        self.trainer, self.args = trainer, trainer.args
        self.in_flight = self.args.asynchronous["in_flight"]
        self.folder = Path(str(self.args.output_dir)).absolute() / FOLDER
        self.serves = by_server(self.args)
        games, sizes = trainer.games, trainer.player.group_sizes
        is_cpu, own = self.args.device.type == "cpu", trainer.policy.model
        on_base = any(one.model is own for one in games.models)
        refused = [
            ("transformers on a GPU", not (self.serves or is_cpu), "training needs it"),
            ("adapters on the learner's base", self.serves and on_base, "it trains"),
        ]
        check_unsupported("asynchronous", refused)
        if not self.serves:  # the other process loads models itself
            named = games.opponents.items()
            rest = {n: p for n, p in named if without_noise(p) not in games.models}
            games = replace(games, opponents=rest, functions={}, curriculum=None)
        self._setup = self.args, games, trainer.agent, sizes
        try:
            pickle.dumps(None if self.serves else self._setup)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ValueError(
                "asynchronous wants policies and an agent that pickle can send to another "
                f"process, got others ({error}); define them at the top of a module"
            ) from error
        if self.serves:
            trainer.policy.backend.before = self.settle
        self._per_step = int(self.args.generations_per_step)
        self._loader: Any = None
        self._read: deque[list[Any]] = deque()  # batches of the loader
        self._starts: deque[list[Any]] = deque()  # of the batch that is next, and later
        self._number = 0  # of the batch that is next
        self._jobs: deque[tuple[Job, futures.Future[Done]]] = deque()  # in flight
        self._resumed: int | None = None  # version that plays what was in flight
        self._pool: Any = None
        self._play: Callable[[Job], Done]

    @contextmanager
    def running(self) -> Iterator[None]:
        """The player lives in this context."""
        shutil.rmtree(self.folder, ignore_errors=True)  # of a run that was killed
        self._pool = futures.ThreadPoolExecutor(1)
        try:
            with self._player() as self._play:
                yield
                self.settle()
        finally:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None
            self._jobs.clear()
            if not self.serves:
                shutil.rmtree(self.folder, ignore_errors=True)

    @contextmanager
    def _player(self) -> Iterator[Callable[[Job], Done]]:
        trainer, policy = self.trainer, self.trainer.policy
        if self.serves:
            own = copy.copy(policy)
            own.begin_memos()  # another thread reads those of the learner
            yield job_player(self._setup, own, trainer.accelerator, trainer.sender.take)
            return
        model = self.folder / "model"
        policy.save_pretrained(model)
        line, theirs = Pipe()
        given = theirs, self._setup, model, policy.model.dtype, torch.get_num_threads()
        # spawned, as a fork after torch's threads have run may hang
        spawn = get_context("spawn").Process
        process = spawn(target=play_jobs, args=given, daemon=True)
        resource_tracker.ensure_running()  # else `start` does, and admits the signals
        before = signal.pthread_sigmask(signal.SIG_BLOCK, FOR_TRAINER)  # inherited
        process.start()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()  # so that the end of the process is noticed

        def play(job: Job) -> Done:
            try:
                line.send(job)
                done: Done = line.recv()
            except (EOFError, OSError) as error:
                raise RuntimeError(
                    "the process that plays has ended; what it printed is above. Resume the "
                    "run from its last checkpoint"
                ) from error
            return done

        try:
            yield play
        finally:
            process.kill()

    def read(self, loader: Iterator[Any], num_batches: int) -> Iterator[Any]:
        """The loader's batches of a step; those of the step after it are known from here."""
        if loader is not self._loader:  # of another epoch
            self._loader, self._read = loader, deque()
        self._read.extend(islice(loader, 2 * num_batches - len(self._read)))
        times = self.args.steps_per_generation * self.args.num_iterations
        self._starts = deque(islice(self._read, 0, None, times))
        own = min(num_batches, len(self._read))
        return iter([self._read.popleft() for _ in range(own)])

    def play(self, starts: list[Any], step: int, trains: bool) -> Played:
        """As `Player.play`; where the batch is trained, those after it are submitted."""
        player, clock = self.trainer.player, self.trainer.clock
        if not trains:
            played: Played = player.play(starts, step, trains)
            return played
        with clock.part("environment"):
            began, dropped = time.perf_counter(), 0
            self._number = player.generation_number(step)
            if self._resumed is not None:
                self._fill(self._resumed)
                dropped, self._resumed = len(starts) * len(self._jobs), None
            if not self._jobs:
                self._submit(step)
            job, future = self._jobs.popleft()
            episodes, tokens, spent = future.result()
            player.end(job.played, episodes, step)
            self._starts.popleft()
            self._number += 1
            self._fill(step)
            waited = time.perf_counter() - began
        beside = round(1000 * spent["generation"].wall)
        clock.counts.update(num_played(episodes), generated=tokens, beside=beside)
        self._note(
            staleness=step - job.version,
            dropped_episodes=dropped,
            play_seconds=sum(part.wall for part in spent.values()),
            play_cpu_seconds=sum(part.cpu for part in spent.values()),
            wait_seconds=waited,
        )
        return job.played

    def settle(self) -> None:
        """Waits for what is in flight; then a server has the weights of this moment."""
        if self.serves and self._pool is not None:
            step = self.trainer.state.global_step
            nothing = Played([], [], [], [], [], 0, False)
            job = Job(nothing, step, self._weights(step))
            self._pool.submit(self._play, job).result()

    def _fill(self, version: int) -> None:
        """Submits the next batches, as far as staleness and queue allow."""
        last = min(version + 1, self.trainer.state.max_steps - 1)
        most = min((last + 1) * self._per_step - self._number, len(self._starts))
        while len(self._jobs) < min(most, self.in_flight - 1):
            self._submit(version)

    def _submit(self, version: int) -> None:
        """Has the first batch that is not in flight played with the weights of a step."""
        place = len(self._jobs)
        number, starts = self._number + place, self._starts[place]
        begin, weights = self.trainer.player.begin, self._weights(version)
        job = Job(
            begin(starts, number // self._per_step, number, True), version, weights
        )
        self._jobs.append((job, self._pool.submit(self._play, job)))

    def _weights(self, version: int) -> Path:
        """The folder of a version, which is written if it is that of this moment."""
        path, model = self.folder / f"step-{version}", self.trainer.policy.model
        if not path.exists():
            needed = {job.weights for job, _ in self._jobs}
            needed.add(self.folder / f"step-{self._resumed}")  # not played yet
            for old in {*self.folder.glob("step-*")} - needed:
                shutil.rmtree(old)
            if self.serves:
                model.save_pretrained(path)
            else:
                named = model.named_parameters()
                path.mkdir(parents=True)
                own = {name: p.detach() for name, p in named if p.requires_grad}
                save_file(own, path / WEIGHTS)
        return path

    def measure(
        self, logprobs: torch.Tensor, counted: torch.Tensor, inputs: Mapping[str, Any]
    ) -> None:
        """Logs the importance ratios of a micro-batch; arguments as `Agreement`'s."""
        gap = logprobs.detach() - inputs["sampling_per_token_logps"]
        ratio = gap[counted].double().exp()
        if len(ratio):
            mean, square = float(ratio.mean()), float((ratio**2).mean())
            self._note(ratio=mean, effective_sample_size=mean**2 / square)

    def _note(self, **found: float) -> None:
        named = {f"arena/asynchronous/{name}": value for name, value in found.items()}
        self.trainer.note(named, "train")  # also where the model is in eval mode

    def save(self, checkpoint: Path) -> None:
        """Keeps the weights that play what is in flight."""
        if self._jobs:
            path = self._jobs[0][0].weights
            shutil.copytree(path, checkpoint / FOLDER / path.name)

    def load(self, checkpoint: Path) -> None:
        """Has what was in flight at a checkpoint played again, when training goes on."""
        for path in (checkpoint / FOLDER).glob("step-*"):
            self._resumed = int(path.name.removeprefix("step-"))
            shutil.copytree(path, self.folder / path.name)
