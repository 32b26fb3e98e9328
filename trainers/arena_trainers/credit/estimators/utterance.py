"""Credit by the values of whole utterances: `archer` and `counterfactual`."""

from arena_trainers.credit.batch import Floats
from arena_trainers.credit.needs import needs
from arena_trainers.credit.pools import (
    Credit,
    check_choice,
    check_range,
    moments,
    pools_by,
    with_report,
)
from arena_trainers.credit.trajectories import Trajectories, temporal_differences

ACTION_VALUES = ("td", "column")


@needs("value", "truncated")
def archer(
    turns: Trajectories, *, action_value: str = "td", discount: float = 0.9
) -> Credit:
    """Credits a turn with what its utterance is worth above its state (ArCHer).

        Aₖ = Q(sₖ, aₖ) - V(sₖ)

    by an utterance-level critic. `"column"` reads Q from the column `action_value`. `"td"`
    puts what ArCHer fits Q to in its place, Qₖ = rₖ + γ Vₖ₊₁, with V = 0 after the end and
    `next_value` after a truncation: turn-level GAE with λ = 0. All tokens of the turn share
    the advantage; ArCHer's optional token-level baseline is not here.

    Departs from the released code in what is its critic's matter: two critics whose smaller
    values count, target networks, and utterances sampled anew for turns of a replay buffer.

    Reduces to: `gae` with λ = 0 and the same γ (`"td"`); the own reward less the value at γ
    = 0; `counterfactual` (`"column"`).

    Bias: none where the values are the policy's own and γ = 1. A critic that is wrong about
    sₖ alone costs variance; one that is wrong about Q, or with `"td"` about Vₖ₊₁, biases
    the gradient by as much.

    See "ArCHer: Training Language Model Agents via Hierarchical Multi-Turn RL" by Zhou et
    al. (https://arxiv.org/abs/2402.19446).

    Args:
        turns: the turns that count, with `value` and `truncated`; with `next_value` where a
            trajectory was truncated, and with `action_value` for `"column"`.
        action_value: `"td"` or `"column"`.
        discount: γ, per turn of the same seat; the default is that of the released code.

    Returns:
        float64[N], in the reward's unit; 0 where masked. Turns are not compared: a pool of
        one is nothing special.

    Raises:
        ValueError: an option out of range, or a column that is missing.

    >>> from arena_trainers.credit import TurnBatch, estimate
    >>> one = dict(game=[0, 0], seat=[0, 0], episode=[0, 0], turn=[0, 1], group=[0, 0])
    >>> one |= dict(value=[2, 4], truncated=[False, False])
    >>> turns = TurnBatch(reward=[1, 3], **one)
    >>> estimate("archer", turns, discount=0.5).advantage  # 1 + .5 * 4 - 2, and 3 - 4
    array([ 1., -1.])
    """
    check_choice("action_value", action_value, ACTION_VALUES)
    check_range("discount", discount, 0, 1)
    value, reward = turns.column("value"), turns.column("reward")
    if action_value == "column":
        advantage = turns.column("action_value") - value
    else:
        advantage = temporal_differences(turns, reward, value, discount)
    return _with_pools(turns, value, advantage)


@needs("value", "action_value")
def counterfactual(turns: Trajectories) -> Credit:
    """Credits a turn with its exact value, relative to what else could have been done.

        Aₖ = Q(Iₖ, aₖ) - V(Iₖ),   V(I) = Σₐ π(a | I) Q(I, a)

    with Q(I, a) the expected return-to-go of the seat when it does a and all play on by
    their policies. It is COMA's advantage with exact values in place of a critic's, for
    games with a solver: `arena_envs.solvers.action_values` computes Q from the policies of
    all seats, and in the trainer `critic="exact"` gives both columns. What was paid is not
    read.

    Reduces to: `archer` with `action_value="column"`; with the return-to-go for Q, `gae`
    with γ = λ = 1 where nothing was cut.

    Bias: none if the values are those of the policies that played. So it is in batches of
    any size, and there is no variance from what follows the turn. Values of other policies
    credit for what would be good with these: with those of optimal play, a best action gets
    0 and any other its regret, which is not the gradient of the return.

    See "Counterfactual Multi-Agent Policy Gradients" by Foerster et al.
    (https://arxiv.org/abs/1705.08926).

    Args:
        turns: the turns that count, with `value` (V) and `action_value` (Q).

    Returns:
        float64[N], in the unit of the values; 0 where masked. Turns are not compared: a pool
        of one is nothing special.

    Raises:
        ValueError: a column is missing.

    >>> from arena_trainers.credit import TurnBatch, estimate
    >>> one = dict(game=[0, 0], seat=[0, 0], episode=[0, 1], turn=[0, 0], group=[0, 0])
    >>> turns = TurnBatch(reward=[9, 0], **one, value=[2, 2], action_value=[3, 1])
    >>> estimate("counterfactual", turns).advantage
    array([ 1., -1.])
    """
    value = turns.column("value")
    return _with_pools(turns, value, turns.column("action_value") - value)


def _with_pools(turns: Trajectories, value: Floats, advantage: Floats) -> Credit:
    """The advantages, with the moments of Q for each game and seat as report."""
    pools = pools_by(turns, ("game", "seat"))
    stats = moments(value + advantage, pools.of, len(pools.key))
    return with_report(advantage, pools, stats)
