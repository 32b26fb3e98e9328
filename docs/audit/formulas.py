"""Credit that people are about to use and that is on no index, each in a few lines of ours.

    arena credit audit formulas:turn_credit --signature episodes   # in this folder

Each function is called as `arena_credit.audit` says: with the rewards of the turns of each episode
of a group. The docstring names where the formula
stands. The lines are written from these descriptions; no line is copied.
"""

from collections.abc import Sequence

import numpy as np

from arena_credit.batch import Floats

Rewards = Sequence[Floats]  # of the turns of each episode of a group


def spread(scores: Sequence[float], rewards: Rewards) -> list[Floats]:
    """One advantage of an episode, on each of its turns."""
    return [
        np.full(len(own), score) for own, score in zip(rewards, scores, strict=True)
    ]


def z_scores(values: Floats, eps: float = 1e-8, ddof: int = 0) -> Floats:
    """Less the mean, divided by the standard deviation."""
    return np.asarray((values - values.mean()) / (values.std(ddof=ddof) + eps))


def prime_rl_grpo(rewards: Rewards) -> list[Floats]:
    """prime-rl 0.8.0 (commit 559b447), `algo/grpo.py`: the reward less the group's mean."""
    totals = np.array([own.sum() for own in rewards])
    return spread(totals - totals.mean(), rewards)


def prime_rl_max_rl(rewards: Rewards) -> list[Floats]:
    """prime-rl 0.8.0 (commit 559b447), `algo/max_rl.py`: that, divided by the mean."""
    totals = np.array([own.sum() for own in rewards])
    mean = totals.mean()
    return spread((totals - mean) / mean if mean > 0 else totals * 0, rewards)


def prime_rl_rae(rewards: Rewards, decay: float = 0.95) -> list[Floats]:
    """prime-rl 0.8.0 (commit 559b447), `algo/rae.py`: less a running mean, from 0, of earlier traces."""
    scores, baseline = [], 0.0
    for own in rewards:
        scores.append(own.sum() - baseline)
        baseline = decay * baseline + (1 - decay) * own.sum()
    return spread(scores, rewards)


def prime_rl_rae_by_end(rewards: Rewards, decay: float = 0.95) -> list[Floats]:
    """The same with groups of one, which `train_sink.py` scores as they end: the shortest first."""
    order = np.argsort([len(own) for own in rewards], kind="stable")
    ordered = prime_rl_rae([rewards[i] for i in order], decay)
    return [ordered[k] for k in np.argsort(order)]


def turn_credit(
    rewards: Rewards, final: bool = False, gamma: float = 0.9, beta: float = 1.0
) -> list[Floats]:
    """prime-rl pull request 3282 (commit 0d60244): A + β (c_turn - c_mean).

    The scores of states are what was paid so far. A is the progress, plus the return if it is
    the final reward, less the group's mean. c spreads the progress of a turn, the difference
    to the score before, over it and the turns before it, by gamma^d in proportion.
    """
    progress = [
        np.append(0.0, own[1:]) for own in rewards
    ]  # the first score is a start
    totals = np.array([p.sum() for p in progress])
    totals += [own.sum() if final else 0.0 for own in rewards]
    advantages = []
    for own, level in zip(progress, totals - totals.mean(), strict=True):
        credit = np.zeros(len(own))
        for t, value in enumerate(own):
            weights = gamma ** np.arange(t, -1, -1)
            credit[: t + 1] += value * weights / weights.sum()
        advantages.append(level + beta * (credit - credit.mean()))
    return advantages


def turn_credit_final(rewards: Rewards) -> list[Floats]:
    """`turn_credit` where the return is the final reward, too."""
    return turn_credit(rewards, final=True)


def verifiers_1554(rewards: Rewards, gamma: float = 1.0) -> list[Floats]:
    """Verifiers pull request 1554 (commit cb2c520): returns-to-go, z-scored over all steps."""
    to_go = [own.copy() for own in rewards]
    for own in to_go:
        for t in range(len(own) - 2, -1, -1):
            own[t] += gamma * own[t + 1]
    flat = z_scores(np.concatenate(to_go))
    return np.split(flat, np.cumsum([len(own) for own in to_go])[:-1])


def at_grpo(rewards: Rewards) -> list[Floats]:
    """PettingLLMs (commit a054fb1), groups of (start, turn, agent), and verl's GRPO in them.

    The z-score of what the turn was paid, among the turns with its number. A turn alone keeps
    its reward. The tree's choice of the best candidate is left out.
    """
    advantages = [own.copy() for own in rewards]
    for t in range(max(len(own) for own in rewards)):
        rows = [i for i, own in enumerate(rewards) if len(own) > t]
        if len(rows) > 1:
            scores = z_scores(np.array([rewards[i][t] for i in rows]), 1e-6, ddof=1)
            for i, score in zip(rows, scores, strict=True):
                advantages[i][t] = score
    return advantages


def mars_released(rewards: Rewards) -> list[Floats]:
    """The released code of MARS (thu-nics/MARS), of one seat whose turns have one token each.

    Rewards are centred over all turns and whitened, added up from the turn on, centred by the mean of the
    distinct values, with the 0 of padding, and whitened again.
    """
    flat = np.concatenate(rewards)
    ends = np.cumsum([len(own) for own in rewards])[:-1]
    centred = (flat - flat.mean()) / (flat.std(ddof=1) + 1e-8)
    sums = [np.cumsum(own[::-1])[::-1] for own in np.split(centred, ends)]
    to_go = np.concatenate(sums)
    distinct = np.unique(np.append(np.round(to_go, 6), 0.0))
    return np.split(z_scores(to_go - distinct.mean(), 1e-8, ddof=1), ends)


def verl_7244(rewards: Rewards) -> list[Floats]:
    """Verl issue 7244, the construction that it warns of: z-scores by turn, added up from the turn on."""
    advantages = at_grpo(rewards)
    return [np.cumsum(own[::-1])[::-1] for own in advantages]
