"""`mars_released`: what the released MARS code computes, defects included."""

import numpy as np

from arena_trainers.credit.batch import Floats, Ints
from arena_trainers.credit.pools import (
    ROUNDED,
    Credit,
    Moments,
    check_choice,
    check_range,
    moments,
    pools_by,
    with_report,
)
from arena_trainers.credit.scales import clipped, unit_scale
from arena_trainers.credit.trajectories import (
    Trajectories,
    returns_to_go,
    sizes_to_go,
)

SEATS = (0, 1)  # "player_0" and "player_1" are written into the released code
REWARD_NORMS = ("mean", "mean_std", "asym_clip", "identity")
ADVANTAGE_NORMS = ("mean", "none")
ASYMMETRIC = (-1.0, 3.0)  # the bounds of "asym_clip"
STD_EPS = 1e-6
EPS = 1e-8  # added to the variance when whitening
TINY = 1e-300  # smallest divisor


def mars_released(
    turns: Trajectories,
    *,
    reward_norm: str = "mean",
    reward_clip: float | None = None,
    whiten_rewards: bool = True,
    advantage_norm: str = "mean",
    whiten_advantages: bool = True,
    advantage_clip: float | None = None,
) -> Credit:
    """Credits turns as the released MARS code does; to compare with, not to train with.

        1. cₖ = rₖ - mean{r of every turn of the same (game, seat)}, or another norm
        2. divide cₖ by the standard deviation over the batch's trained tokens; cₖ sits on
           the last token of its turn, all other tokens hold 0
        3. Aₖ = Σ_{j ≥ k} cⱼ
        4. per seat, over all games: subtract the mean of the DISTINCT values among all
           positions of its rows, padding included
        5. whiten over the batch's trained tokens; all tokens of a turn have its value

    Variances divide by n - 1, and 1e-8 is added. These defects of the released code are
    kept: steps 1 and 4 change seats 0 and 1 only; token counts matter; games mix in steps
    2, 4 and 5; a turn's baseline is the mean turn reward times the number of turns that
    remain.

    Step 4 counts positions as follows. A row is a trajectory's whole conversation. Prompts
    hold the value of the turn after them, so they add no value. Padding on the right holds
    0. The released code pads every row to 32,768 tokens, so 0 is always one of the values.

    Departs from the released code twice. Step 4 treats values as equal if they differ by up
    to 1e-6 of the numbers they were summed from; the released code compares float32
    exactly. Where step 1 does not centre (further seats, `"asym_clip"`, `"identity"`, a
    clip), step 2 does not subtract the token mean; the released code then gives every token
    of a turn a different value.

    Reduces to: `normalise_then_sum` with `pool=("game", "seat"), scale="none"` for seats 0
    and 1, without steps 2, 4 and 5; the return-to-go with `reward_norm="identity"` as well.

    Bias:

    - *Unbiased when*: never, unless steps 1, 2, 4 and 5 are switched off.
    - *Biased by*: length (each further turn costs the mean turn reward); whitening over the
      batch; truncation (the missing return counts as 0).
    - *Number*: cosine -1.000, factor -5.682 in `stop_or_go`, batches of two; cosine -1.000,
      factor -8.615 in `stop_or_go`, one large group (`arena credit check`).

    Large batches keep the length bias, as in `normalise_then_sum`. A constant added to a
    seat's final rewards changes the result, and so do the rewards of other games.

    See https://github.com/thu-nics/MARS and "MARS: Reinforcing Multi-Agent Reasoning of
    LLMs through Self-Play in Strategic Games" by Yuan et al.
    (https://arxiv.org/abs/2510.15414), whose formula is `mars`.

    Args:
        turns: the turns that count, with `num_tokens`.
        reward_norm: norm of step 1. `"mean"` subtracts the mean. `"mean_std"` also divides
            by the standard deviation (ddof 1, eps 1e-6). `"asym_clip"` does both and clips
            to [-1, 3]. `"identity"` changes nothing.
        reward_clip: largest absolute value after step 1; None for no limit.
        whiten_rewards: true to do step 2.
        advantage_norm: `"mean"` does step 4, `"none"` leaves it out.
        whiten_advantages: true to do step 5.
        advantage_clip: largest absolute value of the advantage; None for no limit.

    Returns:
        float64[N], without unit (without whitening: in the reward's unit); 0 where masked.

    Raises:
        ValueError: there is no column `num_tokens`, or an option is unknown.

    >>> from arena_trainers.credit import TurnBatch, estimate
    >>> one = dict(game=[0, 0, 0], seat=[0, 0, 0], group=[0, 0, 0], num_tokens=[1, 1, 1])
    >>> turns = TurnBatch(reward=[1, 2, 6], episode=[0, 0, 1], turn=[0, 1, 0], **one)
    >>> off = dict(whiten_rewards=False, whiten_advantages=False)
    >>> estimate("mars_released", turns, **off).advantage  # {-3, -1, 0, 3}, mean -1/4
    array([-2.75, -0.75,  3.25])
    """
    check_choice("reward_norm", reward_norm, REWARD_NORMS)
    check_choice("advantage_norm", advantage_norm, ADVANTAGE_NORMS)
    _check_clip("reward_clip", reward_clip)
    _check_clip("advantage_clip", advantage_clip)
    _check_flag("whiten_rewards", whiten_rewards)
    _check_flag("whiten_advantages", whiten_advantages)
    num_tokens = turns.column("num_tokens")
    seat, reward = turns.column("seat"), turns.column("reward")
    pools = pools_by(turns, ("game", "seat"))
    stats = moments(reward, pools.of, len(pools.key))
    normal = _normalised(reward, pools.of, stats, reward_norm)
    values = _held(np.where(np.isin(seat, SEATS), normal, reward), reward_clip)
    sizes = np.abs(reward) + np.abs(stats.mean[pools.of])
    if reward_norm in ("mean_std", "asym_clip"):
        sizes *= unit_scale(stats.std, STD_EPS)[pools.of]
    if whiten_rewards:
        spread = _token_spread(values, num_tokens, last_only=True)
        values, sizes = values / spread, sizes / spread
    values, sizes = returns_to_go(turns, values), sizes_to_go(turns, sizes)
    if advantage_norm == "mean":
        for one in SEATS:
            own = seat == one
            values[own] = centre_distinct(values[own], sizes[own])
    if whiten_advantages:
        values = values - (num_tokens * values).sum() / max(int(num_tokens.sum()), 1)
        values = values / _token_spread(values, num_tokens)
    return with_report(_held(values, advantage_clip), pools, stats)


def _check_clip(name: str, size: float | None) -> None:
    if size is not None:
        check_range(name, size, 0, float("inf"))


def _check_flag(name: str, flag: bool) -> None:
    if not isinstance(flag, bool):
        raise ValueError(f"want {name} true or false, got {flag!r}")


def _token_spread(values: Floats, num_tokens: Ints, last_only: bool = False) -> float:
    """Steps 2 and 5: root mean square over the batch's trained tokens.

    A turn's value is on all of its tokens, or on the last one while the others hold 0.
    """
    weight = 1 if last_only else num_tokens
    square = (weight * values**2).sum() / max(int(num_tokens.sum()) - 1, 1)
    return float(np.sqrt(square + EPS))


def _normalised(reward: Floats, index: Ints, stats: Moments, norm: str) -> Floats:
    """Step 1: rewards of turns, relative to those of their pool."""
    if norm == "identity":
        return reward
    centred = np.where(stats.std[index] > 0, reward - stats.mean[index], 0.0)
    if norm == "mean":
        return centred
    z = centred * unit_scale(stats.std, STD_EPS)[index]
    return clipped(z, *ASYMMETRIC) if norm == "asym_clip" else z


def _held(values: Floats, size: float | None) -> Floats:
    return values if size is None else clipped(values, -size, size)


def centre_distinct(values: Floats, sizes: Floats | None = None) -> Floats:
    """Subtracts the mean of the distinct values of a seat, 0 (padding) among them.

    Args:
        values: float64[V].
        sizes: float64[V], sums of the absolute rewards behind each value, as `moments`
            takes them. Values that differ by up to 1e-6 of the largest size count as one.

    >>> centre_distinct(np.array([3.0, 3.0, 1.0, 1.0]))  # {0, 1, 3}, mean 4/3
    array([ 1.66666667,  1.66666667, -0.33333333, -0.33333333])
    """
    whole = np.abs(values) if sizes is None else sizes
    apart = max(ROUNDED * whole.max(initial=0.0), TINY)
    ranked = np.sort(np.append(values, 0.0))
    new = np.diff(ranked, prepend=-np.inf) > apart
    start = ranked[new][np.cumsum(new) - 1]
    cell = (ranked - start) // apart  # or many near neighbours would be one value
    new[1:] |= cell[1:] != cell[:-1]
    return np.asarray(values - ranked[new].mean())
