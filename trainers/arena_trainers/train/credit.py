"""Credit of a generation batch: its turns as one batch, values, reward models, advantages.

A reward model supplies columns: its scores of the turns, compared at equal prompts.

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
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from accelerate.utils import gather_object

from arena_trainers.credit import Credit, TurnBatch
from arena_trainers.credit.baselines import mean_of_others
from arena_trainers.credit.batch import Bools, Floats, Ints
from arena_trainers.credit.pools import Pools
from arena_trainers.lm.reward_model import RewardModel, check_same_texts
from arena_trainers.train.columns import estimate_credit, part_weights
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.critics import Critic
from arena_trainers.train.matching import PreparedGames
from arena_trainers.train.metrics import Clock
from arena_trainers.train.records import (
    Played,
    RewardColumn,
    Shares,
    Supplier,
    TurnRecord,
    functions_of,
    reward_columns_of,
    rows_of_process,
    turn_batch,
    turn_records,
    whole_row_lengths,
    with_supplied,
)
from arena_wrappers import Episode


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
        metrics: of the critic, for the latest batch.
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

    def records(self, played: Played) -> Shares:
        """The records of all turns that were played, of each process."""
        games, from_rewards = self.games, reward_columns_of(self.games.functions)
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
                part_weights(args, games.functions),
                games.names,
                games.columns,
                [game.teams for game in games.rules],
            )
            if args.layout == "trajectory":
                turns = replace(turns, row_length=whole_row_lengths(turns))
            if self.critic is not None:
                turns = self.critic.with_values(turns, records)
            found = estimate_credit(args, turns, self.state)
            self.metrics = {}
            if self.critic is not None:
                self.metrics = self.critic.after(turns, records, trains)
            if trains:
                self.state = found.state
        return Credited(turns, found)


def check_reward_models(
    columns: Mapping[str, Supplier], tokenizer: Any, args: TurnGRPOConfig
) -> None:
    """Checks that reward models were trained on such texts as the learner's; loads none.

    Args:
        columns: functions and reward models by column.
        tokenizer: of the model that learns.
        args: the trainer's settings.

    Raises:
        ValueError: a reward model has other tokens or prompts, see `check_same_texts`.
    """
    chat: Any = args.chat_template_kwargs  # of TRL, which also takes JSON
    for path in _paths(columns):
        check_same_texts(path, tokenizer, args.prompt, chat)


def load_reward_models(
    columns: Mapping[str, Supplier], device: torch.device
) -> dict[str, RewardModel]:
    """The reward models of columns, by path, each loaded once.

    Args:
        columns: functions and reward models by column.
        device: where they run.
    """
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

    Args:
        shares: the records of each process, from `scored`.
        columns: reward models by column.
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
    """The share of turns whose prompt another episode of the batch has.

    Args:
        shares: the records of each process, from `scored`.
    """
    prompt, episode = _prompts_and_episodes(shares)
    return float(_has_others(prompt, episode).mean()) if len(prompt) else 0.0


def _prompts_and_episodes(shares: Shares) -> tuple[Ints, Ints]:
    """int64[N] each, numbers of the prompt and of the episode of each turn."""
    turns = [(rank, turn) for rank, share in enumerate(shares) for turn in share]
    prompts = [turn.prompt for _, turn in turns]
    return _numbers(prompts), _numbers([(rank, turn.episode) for rank, turn in turns])


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


def _numbers(keys: Sequence[object]) -> Ints:
    """int64[N]: equal numbers for equal keys, in the order of their first occurrence."""
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)
