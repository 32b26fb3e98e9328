"""Metrics of play, credit and time that the trainer logs besides TRL's.

| metric | formula | healthy range |
|---|---|---|
| `arena/<game>/player_<i>/return` | mean return by the rules | within the game's range |
| `arena/<game>/player_<i>/reward/<part>` | Σ part * weight / trained trajectories, of a supplied part; unweighted if the weight is 0 | moves as you want it to |
| `arena/reward/<part>` | mean over turns of a part of `rewards`, unweighted; `/weight`: its weight at this step | below `at_most` |
| `arena/loss/<term>` | mean of a term of `losses` as it enters the loss, unweighted; `/weight`: its weight at this step | falls |
| `arena/<game>/player_<i>/advantage_mean` | mean of turn advantages | near 0 |
| `arena/<game>/player_<i>/advantage_std` | their standard deviation | above 0 |
| `arena/<game>/player_<i>/zero_advantages` | turns with advantage 0 / turns | below 0.9 |
| `arena/<game>/player_<i>/pool_size` | mean number of values in a pool | at least 4 |
| `arena/<game>/player_<i>/flat_pools` | pools with no advantage but 0 / pools | below 0.5 |
| `arena/surprise_z` | mean surprise of the tokens / its standard error (`arena_credit.surprise_z`), with `control_variates` | -3 to 3; beyond 5 it warns |
| `arena/<game>/against/<opponent>/return` | mean return of the seats that learn | rises |
| `arena/<game>/gradient_share` | Σ abs(wₜ Aₜ), game / all games | the game's share of the weights |
| `arena/<game>/episode_share` | episodes of the game / episodes | as its weight or the curriculum says |
| `arena/legal_rate` | valid replies / replies, of seats that learn | rises to 1 |
| `arena/invalid/<reason>` | replies invalid for this reason / replies | falls to 0 |
| `arena/episode_turns` | mean turns of an episode, all seats | typical of the game |
| `arena/flat_groups` | groups in which all trajectories of each seat have the same reward / groups, as first played; without turn trees | below 0.9 |
| `arena/dropped_groups` | groups dropped by `flat_groups="drop"` / groups | below 0.5 |
| `arena/trained_trajectories` | trajectories that `oversample` trains / trajectories | 1 / `oversample` |
| `arena/left_out_invalid` | invalid replies / replies, of trajectories that `oversample` leaves out | above that of the others |
| `arena/compared_turns` | turns whose prompt another episode of the batch has / turns, with a reward model in `columns` | above 0.5 |
| `arena/asynchronous/staleness` | optimizer steps between the weights that play and those that are trained | at most 1 |
| `arena/asynchronous/ratio` | mean importance ratio ρ of the n trained tokens, before the weights move | near 1 |
| `arena/asynchronous/effective_sample_size` | (Σ ρ)² / (n Σ ρ²) | above 0.5 |
| `arena/asynchronous/dropped_episodes` | episodes in flight that a resumed run discarded and played again / generation batches | 0 |
| `arena/asynchronous/play_seconds` | seconds that the player took for the batch (`play_cpu_seconds`: of CPU); `wait_seconds`: that training waited for it, and handed out weights and the next batch | below those of training; near 0 |
| `arena/rows` | turns of the generation batch that are trained | at least 1 |
| `arena/rows_run` | distinct rows that run through the model / rows, mean over micro-batches | low in small games |
| `arena/rows_dropped` | rows without gradient, which do not run / rows | below 0.9 |
| `arena/sampling_gap/mean` | mean of abs(log-probability of a token as sampled - as trained) over tokens that are trained, in nats | below 0.001 in float32, 0.1 in half precision or with vLLM |
| `arena/sampling_gap/max` | the largest since the last log | below 0.001 in float32 |
| `arena/memory/bytes_per_token` | bytes of activations that a token of the first loss took, on a GPU, in the first log | close to the plan's |
| `arena/memory/kept_tokens` | tokens of a loss whose activations may be kept on that GPU; chunks beyond run twice | above those of a micro-batch |
| `arena/moved_weights` | trained weights that differ from those at the last log / trained weights, of those with a gradient (65,536 are compared; not under DeepSpeed) | above 0.1 |
| `arena/critic_error` | mean squared error of `critic="features"` before its fit, of the values of `"tokens"`, or of Q and V of `"utterances"` before a fit | falls |
| `arena/illegal_mass` | mean probability of illegal replies, `critic="exact"` | below 0.01 |
| `arena/reply_tokens` | mean tokens of a reply, of turns that are trained | does not fall to 1 |
| `arena/learner/<name>/advantage` | mean of abs(advantage) over tokens of a learner of `roles` | above 0 |
| `arena/learner/<name>/grad_norm` | norm of its gradient, after clipping | above 0 where it is updated |
| `arena/learner/<name>/kl` | its KL divergence from the base model, per token, with `beta` | below 1 |
| `arena/learner/<name>/factor` | mean over its rows of the factor of `update: sequential`, by which advantages are multiplied | near 1 |
| `arena/episodes_per_second` | episodes played / seconds since the last log | steady |
| `arena/tokens_per_second/generation` | tokens generated / seconds of generation | steady |
| `arena/tokens_per_second/training` | tokens of trained rows / seconds of training | steady |
| `arena/time/<part>` | wall seconds of a part / seconds since the last log | see below |

`sampling_gap` is of rounding alone if the policy that plays is the one that is trained, see
`arena_trainers.train.score.mismatch`. With `top_k`, `top_p`, `min_p` or `repetition_penalty` it is the
price of these; with a cut, exp(-mean) is about the probability mass that is kept.

Returns leave out penalties. Where a seat learns in some starts only, its `return` is over
these. `against` is logged of episodes with an opponent, under its name: a policy string, or
`self@STEP` for a snapshot. Several opponents are joined by `+`. In competitive self-play, the seats' returns add up to the
game's sum. `advantage_mean` is near 0 where pools are by seat. `illegal_mass` is the
probability of replies other than canonical texts of legal actions, a mean over information
states.

Advantages and rows count the turns that are trained. In turn trees that follow the best
candidate, these are the unselected turns. Returns and replies count the episodes that
others branch from, not the candidates. With `flat_groups="drop"` or `oversample`, advantages and rows count
what is trained; returns and replies count what was first played, before any selection.

If an estimator credits tokens, a turn's advantage is the mean over its tokens. A pool holds
turns or trajectories, as the estimator says. The pools of a seat are those of its game and
seat, or all pools if pools are not by game and seat.

In `gradient_share`, Aₜ is the advantage that enters the loss, and wₜ is the token's weight in the
loss: the weight of `weighting="turn"`, or else 1, divided by the tokens of the row if
`loss_type` is `"grpo"` or `"sapo"`. The share ignores the size of the gradients of
log-probabilities, clipping, and that `"bnpo"` averages each micro-batch separately.

The parts of `arena/time` add up to 1. They and the speeds are those of the main process. Each moment
belongs to one part, the innermost one:

- `generation`: language models generate tokens; opponents' too
- `environment`: the rest of play: rules, prompts, parsing, bots
- `credit`: records of turns, critic, credit, training rows, metrics of play
- `training`: forward and backward passes, those of the reference model too
- `rest`: optimizer, exact evaluation, logs, files, what TRL does besides

Tokens of trained rows include prompts, and equal rows count each. `environment` and `credit` are
small if the model is large; a large `rest` comes of frequent evaluation or checkpoints.

Under TRL's names, over the trained rows of all processes: `reward` is the mean return of a row's
trajectory with its penalties and weights, `completions/*` are the tokens of a row that the model
sampled, and `num_tokens` counts these and the prompts' since the start.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_credit import Credit, PoolReport, TurnBatch
from arena_credit.batch import Floats
from arena_credit.pools import ZERO
from arena_trainers.matchmaking import SELF
from arena_trainers.train.records import PARTS
from arena_trainers.train.turn_batches import row_numbers
from arena_wrappers import Episode


class Tally(NamedTuple):
    """Counts that one process makes of its episodes.

    Attributes:
        returns: by game, seat, and whether the seat learns.
        against: mean returns of the seats that learn, by game and opponent.
        counts: of episodes, also by game, turns, replies, and replies by their validity.
    """

    returns: dict[tuple[int, int, bool], list[float]]
    against: dict[tuple[int, str], list[float]]
    counts: Counter[str]


TINY = 1e-300  # replaces a total of 0 in a quotient
REASONS = (
    "format",
    "illegal",
    "ambiguous",
    "overlong",
    "reasoning",
    "context_length",
)


def tally(
    episodes: Sequence[Episode], games: Sequence[int], seats: Sequence[Sequence[str]]
) -> Tally:
    """Counts the episodes of this process."""
    returns: dict[tuple[int, int, bool], list[float]] = defaultdict(list)
    against: dict[tuple[int, str], list[float]] = defaultdict(list)
    counts: Counter[str] = Counter()
    outcomes: list[str] = []  # of the replies of seats that learn
    for episode, game, policies in zip(episodes, games, seats, strict=True):
        if episode.parent is not None:
            continue  # candidates may be selected by their return
        for seat, value in enumerate(episode.returns):
            returns[game, seat, policies[seat] == SELF].append(value)
        opponents = "+".join(dict.fromkeys(name for name in policies if name != SELF))
        if opponents:
            pairs = zip(episode.returns, policies, strict=True)
            learner_returns = [value for value, name in pairs if name == SELF]
            against[game, opponents].append(float(np.mean(learner_returns)))
        counts["episodes"] += 1
        counts["turns"] += len(episode.turns)
        counts[f"game {game}"] += 1
        outcomes += [
            turn.invalid or "valid"
            for turn in episode.turns
            if policies[turn.seat] == SELF
        ]
    counts.update(outcomes)
    counts["replies"] = len(outcomes)
    return Tally(dict(returns), dict(against), counts)


def _merged(shares: Sequence[Tally]) -> Tally:
    """The tallies of all processes; of a seat that learns, only the episodes in which it does."""
    whole = Tally(defaultdict(list), defaultdict(list), Counter())
    for share in shares:
        whole.counts.update(share.counts)
        for key, values in share.returns.items():
            whole.returns[key] += values
        for opponent, values in share.against.items():
            whole.against[opponent] += values
    learning = {key[:2] for key in whole.returns if key[2]}
    learner_returns = {
        k: v for k, v in whole.returns.items() if k[2] or k[:2] not in learning
    }
    return whole._replace(returns=learner_returns)


def num_played(episodes: Sequence[Episode]) -> dict[str, int]:
    """Episodes, and their turns; those that are shared with a parent count once."""
    turns = sum(len(e.turns) - (e.branch or 0) for e in episodes)
    return {"episodes": len(episodes), "turns": turns}


def metrics(
    shares: Sequence[Tally],
    names: Sequence[str],
    turns: TurnBatch,
    result: Credit,
    trained: Floats | None = None,
) -> dict[str, float]:
    """The metrics of a generation batch of all processes.

    Args:
        shares: the `tally` of each process.
        names: names of the games, by index.
        turns: the global batch.
        result: its credit.
        trained: the advantages times their weights in the loss, per turn or per token;
            those of `result` by default.
    """
    returns, against, counts = _merged([Tally(*share) for share in shares])
    values_by_name: dict[str, float] = {}
    for (game, seat, _), values in sorted(returns.items()):
        name = f"arena/{names[game]}/player_{seat}"
        values_by_name[f"{name}/return"] = float(np.mean(values))
        values_by_name |= _seat_metrics(name, turns, result, game, seat)
    for (game, opponent), values in sorted(against.items()):
        values_by_name[f"arena/{names[game]}/against/{opponent}/return"] = float(
            np.mean(values)
        )
    trained = result.advantage if trained is None else trained
    shares_of_games = gradient_shares(turns, trained, len(names))
    for game, game_name in enumerate(names):
        values_by_name[f"arena/{game_name}/gradient_share"] = shares_of_games[game]
        episode_share = counts[f"game {game}"] / counts["episodes"]
        values_by_name[f"arena/{game_name}/episode_share"] = episode_share
    replies = max(counts["replies"], 1)
    values_by_name["arena/legal_rate"] = counts["valid"] / replies
    for reason in REASONS:
        values_by_name[f"arena/invalid/{reason}"] = counts[reason] / replies
    values_by_name["arena/episode_turns"] = counts["turns"] / counts["episodes"]
    if turns.parent is None:
        values_by_name["arena/flat_groups"] = float(flat_groups(turns).mean())
    values_by_name["arena/rows"] = float(turns.is_unselected.sum())
    if result.report.surprise_z is not None:
        values_by_name["arena/surprise_z"] = result.report.surprise_z
    if turns.num_tokens is not None:
        values_by_name["arena/reply_tokens"] = float(turns.num_tokens.mean())
    return values_by_name


def _seat_metrics(
    name: str, turns: TurnBatch, result: Credit, game: int, seat: int
) -> dict[str, float]:
    """The metrics of a seat's trained turns; none if there are no turns."""
    seat_turns = (turns.game == game) & (turns.seat == seat) & turns.is_unselected
    if not seat_turns.any():
        return {}
    advantage = advantage_by_turn(turns, result.advantage)[seat_turns]
    pool_size, flat_pools = _pool_metrics(result.report, game, seat)
    trajectories = len(np.unique(turns.episode[seat_turns]))
    supplied = {
        f"{name}/reward/{part}": float(values[seat_turns].sum()) / trajectories
        for part, values in (turns.rewards or {}).items()
        if part not in PARTS
    }
    return supplied | {
        f"{name}/advantage_mean": float(advantage.mean()),
        f"{name}/advantage_std": float(advantage.std()),
        f"{name}/zero_advantages": float((np.abs(advantage) <= ZERO).mean()),
        f"{name}/pool_size": pool_size,
        f"{name}/flat_pools": flat_pools,
    }


def gradient_shares(turns: TurnBatch, trained: Floats, num_games: int) -> list[float]:
    """Each game's part of Σ abs(wₜ Aₜ) over the trained tokens; 0 if the sum is 0.

    >>> from arena_credit import estimate
    >>> one = dict(turn=[0] * 4, seat=[0] * 4, episode=[0, 1, 2, 3])
    >>> games = dict(game=[0, 0, 1, 1], group=[0, 0, 1, 1], num_tokens=[1, 1, 2, 4])
    >>> turns = TurnBatch(reward=[0, 2, 0, 4], **one, **games)
    >>> advantage = estimate("mars", turns).advantage
    >>> gradient_shares(turns, advantage, 2)  # 1 + 1, and 2 * 2 + 4 * 2
    [0.14285714285714285, 0.8571428571428571]
    """
    counts = np.ones(len(turns.game), np.int64)
    if turns.num_tokens is not None:
        counts = turns.num_tokens
    size = np.abs(trained)
    if len(size) == len(turns.reward):
        size = np.repeat(size, counts)
    total = np.bincount(np.repeat(turns.game, counts), size, num_games)
    shares: list[float] = (total / max(float(total.sum()), TINY)).tolist()
    return shares


def _pool_metrics(report: PoolReport, game: int, seat: int) -> tuple[float, float]:
    """Mean size of the pools that can hold a seat's turns, and the share of flat pools."""
    seat_pools = np.ones(len(report), bool)
    for name, value in (("game", game), ("seat", seat)):
        if name in report.names:
            seat_pools &= report.key[:, report.names.index(name)] == value
    if not seat_pools.any():
        return 0.0, 1.0
    return float(report.size[seat_pools].mean()), float(
        (report.zeros[seat_pools] == 1).mean()
    )


def advantage_by_turn(turns: TurnBatch, advantage: Floats) -> Floats:
    """float64[N]: each turn's advantage, or the mean over its tokens."""
    if len(advantage) == len(turns.reward) or turns.num_tokens is None:
        return advantage
    starts = np.cumsum(turns.num_tokens) - turns.num_tokens
    means: Floats = np.add.reduceat(advantage, starts) / turns.num_tokens
    return means


def flat_groups(batch: TurnBatch) -> NDArray[np.bool_]:
    """bool[G]: whether each of the G groups of a batch is flat, by ascending `group`.

    >>> one = dict(turn=[0] * 4, episode=[0, 1, 2, 3], game=[0] * 4)
    >>> flat_groups(TurnBatch([1, 1, 1, 0], seat=[0] * 4, group=[0, 0, 1, 1], **one))
    array([ True, False])
    """
    _, group = np.unique(batch.group, return_inverse=True)
    trajectory = row_numbers(np.stack([batch.episode, batch.seat], axis=1))
    rewards = np.bincount(trajectory, batch.reward)
    pairs = np.zeros((len(rewards), 2), np.int64)  # group and seat of each trajectory
    pairs[trajectory] = np.stack([group.ravel(), batch.seat], axis=1)
    seat = row_numbers(pairs)
    low, high = np.full((2, len(rewards)), [[np.inf], [-np.inf]])
    np.minimum.at(low, seat, rewards)
    np.maximum.at(high, seat, rewards)
    has_spread = np.bincount(pairs[:, 0], (high - low > ZERO)[seat])
    flat: NDArray[np.bool_] = has_spread == 0
    return flat
