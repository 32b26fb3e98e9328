"""Columns of the turn batch that reward models supply: scores, compared at equal prompts.

A pairwise loss reads differences at the same prompt, so a score f(x, y) of reply y to prompt x is known up to a
positive factor and a number c(x) of each prompt. The columns remove c(x) by the mean of other episodes of the batch:

    V(x) = mean of f(x, y') over the turns of other episodes with the prompt x

`rewards.NAME` is f(x, y) - V(x); `value` is V(x), only beside `action_value`, f(x, y), of the same model. A prompt that
no other episode has read has the difference 0. Prompts are equal if their tokens are.

The other episodes do not depend on the turn's own reply, so the expected difference is f(x, y) - E[f(x, ·)], and its mean
over replies is 0: differences of later turns add variance to a return-to-go, and no bias. An estimator that credits a
turn with it follows the gradient of the mean score at the prompts that play reaches, with their distribution held fixed:
the policy step of AgentPRM (https://arxiv.org/abs/2502.10325), whose model is fitted to returns. The gradient of the
return differs wherever scores and returns disagree.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from arena_credit.batch import Bools, Floats, Ints
from arena_credit.pools import Pools, mean_of_others
from arena_trainers.lm.reward_model import RewardModel, check_same_texts
from arena_trainers.train.columns import RewardColumn, Supplier, reward_columns_of
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.played import RecordsByProcess
from arena_trainers.train.records import TurnRecord, with_supplied
from arena_trainers.train.turn_batches import ranks, rows_of_process
from arena_wrappers import Episode


def check_reward_models(
    columns: Mapping[str, Supplier],
    tokenizer: PreTrainedTokenizerBase,
    args: TurnGRPOConfig,
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


def with_scores(
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
            scores={path: model_scores[i] for path, model_scores in scores.items()},
        )
        for i, (record, (prompt, reply)) in enumerate(zip(records, texts, strict=True))
    ]


def _digest(ids: Sequence[int]) -> bytes:
    """Equal for equal tokens; short, because all processes share it."""
    return hashlib.blake2b(np.array(ids, np.int64).tobytes(), digest_size=16).digest()


def with_reward_columns(
    shares: RecordsByProcess, columns: Mapping[str, RewardColumn]
) -> RecordsByProcess:
    """The records of each process with the columns that reward models supply.

    Every process computes them for all turns, so that they have the same numbers. Equal
    texts have the score of the first, whatever process computed it.
    """
    turns = [turn for share in shares for turn in share]
    prompt, episode = _prompts_and_episodes(shares)
    supplied: dict[str, Floats] = {}
    for name, column in columns.items():
        first: dict[bytes, float] = {}
        scores = [
            first.setdefault(turn.text, (turn.scores or {})[column.path])
            for turn in turns
        ]
        score = np.array(scores, np.float64)
        value = baseline(score, prompt, episode)
        column_values = {"value": value, "action_value": score}
        supplied[name] = column_values.get(name, score - value)
    filled = [
        with_supplied(turn, {name: float(v[i]) for name, v in supplied.items()})
        for i, turn in enumerate(turns)
    ]
    ranges = [rows_of_process(shares, rank) for rank in range(len(shares))]
    return [filled[rows.start : rows.stop] for rows in ranges]


def compared_turns(shares: RecordsByProcess) -> float:
    """The share of turns whose prompt another episode of the batch has."""
    prompt, episode = _prompts_and_episodes(shares)
    return float(_has_others(prompt, episode).mean()) if len(prompt) else 0.0


def _prompts_and_episodes(shares: RecordsByProcess) -> tuple[Ints, Ints]:
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
