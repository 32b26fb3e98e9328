"""What the trainer logs of play and credit, besides TRL's metrics.

| metric | formula | healthy |
|---|---|---|
| `arena/<game>/player_<i>/return` | mean true return of the seat | competitive self-play: sums to the game's |
| `arena/<game>/player_<i>/advantage_std` | std of the seat's turn advantages | above 0 |
| `arena/<game>/player_<i>/zero_advantages` | share of turns with advantage 0 | below 0.9 |
| `arena/legal_rate` | valid replies / replies, learning seats | rises to 1 |
| `arena/invalid/<reason>` | replies invalid for this reason / replies | falls to 0 |
| `arena/episode_turns` | mean turns of an episode, all seats | as the game's |
| `arena/rows` | turns that are trained in the generation batch | - |
| `arena/critic_error` | mean squared error of the critic's values, before it is fitted | falls |
| `arena/reply_tokens` | mean tokens of a learner's reply | does not collapse |

Of turn trees, only the episodes that others branch from count, but for the advantages and
`arena/rows`.

TRL's own `completions/*`, `reward_std` and `frac_reward_zero_std` count dead rows and TRL's
groups, which mean nothing here: read these instead.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from arena_trainers.credit import Credit, TurnBatch
from arena_trainers.games import GamePlan
from arena_wrappers import Episode

Tally = tuple[dict[tuple[int, int], list[float]], Counter[str]]

REASONS = ("format", "illegal", "ambiguous", "overlong")


def tally(
    episodes: Sequence[Episode], games: Sequence[int], plans: Sequence[GamePlan]
) -> Tally:
    """This process's true returns by (game, seat), and its counts."""
    returns: dict[tuple[int, int], list[float]] = defaultdict(list)
    counts: Counter[str] = Counter()
    for episode, game in zip(episodes, games, strict=True):
        if episode.parent is not None:
            continue  # no fair sample: those that were followed may be the best
        for seat, value in enumerate(episode.returns):
            returns[game, seat].append(value)
        counts.update(episodes=1, turns=len(episode.turns))
        for turn in episode.turns:
            if plans[game].learners[turn.seat]:
                counts.update(["replies", turn.invalid or "valid"])
    return dict(returns), counts


def metrics(
    shares: Sequence[Tally],
    names: Sequence[str],
    turns: TurnBatch,
    result: Credit,
) -> dict[str, float]:
    """The metrics of a generation batch, all processes together.

    Args:
        shares: the `tally` of each process.
        names: names of the games, by index.
        turns: the global batch.
        result: its credit.
    """
    returns: dict[tuple[int, int], list[float]] = defaultdict(list)
    counts: Counter[str] = Counter()
    for share, counted in shares:
        counts.update(counted)
        for key, values in share.items():
            returns[key] += values
    found: dict[str, float] = {}
    advantage = _per_turn(turns, result.advantage)
    for (game, seat), values in sorted(returns.items()):
        name = f"arena/{names[game]}/player_{seat}"
        found[f"{name}/return"] = float(np.mean(values))
        own = advantage[(turns.game == game) & (turns.seat == seat)]
        if len(own) > 0:
            found[f"{name}/advantage_std"] = float(own.std())
            found[f"{name}/zero_advantages"] = float((own == 0).mean())
    replies = max(counts["replies"], 1)
    found["arena/legal_rate"] = counts["valid"] / replies
    for reason in REASONS:
        found[f"arena/invalid/{reason}"] = counts[reason] / replies
    found["arena/episode_turns"] = counts["turns"] / counts["episodes"]
    found["arena/rows"] = float(len(turns.reward))
    if turns.num_tokens is not None:
        found["arena/reply_tokens"] = float(turns.num_tokens.mean())
    return found


def _per_turn(turns: TurnBatch, advantage: Any) -> Any:
    """float64[N]: each turn's advantage, or the mean over its tokens."""
    if len(advantage) == len(turns.reward) or turns.num_tokens is None:
        return advantage
    starts = np.cumsum(turns.num_tokens) - turns.num_tokens
    return np.add.reduceat(advantage, starts) / turns.num_tokens
