"""Credit by action values (Q - V) of whole replies: `archer` and `counterfactual`."""

from arena_trainers.credit.estimators.gae import with_value_pools
from arena_trainers.credit.needs import needs
from arena_trainers.credit.pools import (
    Credit,
    check_choice,
)
from arena_trainers.credit.trajectories import Trajectories, temporal_differences

ACTION_VALUES = ("td", "column")


@needs("value", "truncated")
def archer(
    turns: Trajectories, *, action_value: str = "td", discount: float = 0.9
) -> Credit:
    """Credits a turn with Q minus V of an utterance-level critic (ArCHer).

        Aₖ = Q(sₖ, aₖ) - V(sₖ)

    `"column"` reads Q from the column `action_value`. `"td"` takes the target that ArCHer
    fits Q to: Qₖ = rₖ + γ Vₖ₊₁, with V = 0 after the end of the game and `next_value` after
    a truncation. This target makes the advantage GAE over turns with λ = 0. All tokens of a turn share its
    advantage. ArCHer's optional token-level baseline is not implemented.

    Departs from the released code in the critic. The released code takes the smaller value of
    two critics, uses target networks, and samples new utterances for turns of a replay buffer.

    Reduces to: `gae` with λ = 0 and the same γ (`"td"`); the own reward minus the value at
    γ = 0; `counterfactual` (`"column"`).

    Bias:

    - *Unbiased when*: γ = 1 and the values are those of the current policy, in batches of
      any size.
    - *Biased by*: errors of the critic in Q, with `"td"` in Vₖ₊₁; γ < 1 (late rewards count
      less). An error in V(sₖ) adds variance only.
    - *Number*: cosine 1.000, factor 1.000 in `patience`, batches of two, with γ = 1 and
      exact values (`arena credit check`).

    See "ArCHer: Training Language Model Agents via Hierarchical Multi-Turn RL" by Zhou et
    al. (https://arxiv.org/abs/2402.19446).

    Args:
        turns: the turns that count, with `value` and `truncated`; with `next_value` where a
            trajectory was truncated, and with `action_value` for `"column"`.
        action_value: `"td"` or `"column"`.
        discount: γ, per turn of the same seat; the default is that of the released code.

    Returns:
        float64[N], in the reward's unit; 0 where masked. There are no pools of
        turns to compare, so a single turn is credited like any other.

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
    value, reward = turns.column("value"), turns.column("reward")
    if action_value == "column":
        advantage = turns.column("action_value") - value
    else:
        advantage = temporal_differences(turns, reward, value, discount)
    return with_value_pools(turns, value, advantage)


@needs("value", "action_value")
def counterfactual(turns: Trajectories) -> Credit:
    """Credits a turn with the exact value of its action minus that of its state (COMA).

        Aₖ = Q(Iₖ, aₖ) - V(Iₖ),   V(I) = Σₐ π(a | I) Q(I, a)

    I is the seat's information state. Q(I, a) is the seat's expected return-to-go if it
    plays a and all seats then follow their policies. This is COMA's advantage with exact
    values instead of a critic's, for games with a solver.
    `arena_envs.solvers.action_values` computes Q from the policies of all seats. In the
    trainer, `critic="exact"` supplies both columns. A reward model (`RewardColumn`) may supply its
    scores instead, as in AgentPRM (https://arxiv.org/abs/2502.10325). Their gradient
    is that of the mean score at the prompts that play reaches, with the distribution of prompts
    held fixed. The rewards of the batch are not read.

    Reduces to: `archer` with `action_value="column"`; with the return-to-go for Q, `gae`
    with γ = λ = 1 where nothing was cut.

    Bias:

    - *Unbiased when*: the values are those of the policies that played, in batches of any
      size. Nothing that follows the turn adds variance.
    - *Biased by*: values of other policies. With the values of optimal play, a best action has
      advantage 0 and every other action the negative of its regret. Such advantages do not
      give the gradient of the return.
    - *Number*: cosine 1.000, factor 1.000 in `patience`, batches of two, with exact values
      (`arena credit check`).

    See "Counterfactual Multi-Agent Policy Gradients" by Foerster et al.
    (https://arxiv.org/abs/1705.08926).

    Args:
        turns: the turns that count, with `value` (V) and `action_value` (Q).

    Returns:
        float64[N], in the unit of the values; 0 where masked. There are no
        pools of turns to compare, so a single turn is credited like any other.

    Raises:
        ValueError: a column is missing.

    >>> from arena_trainers.credit import TurnBatch, estimate
    >>> one = dict(game=[0, 0], seat=[0, 0], episode=[0, 1], turn=[0, 0], group=[0, 0])
    >>> turns = TurnBatch(reward=[9, 0], **one, value=[2, 2], action_value=[3, 1])
    >>> estimate("counterfactual", turns).advantage
    array([ 1., -1.])
    """
    value = turns.column("value")
    return with_value_pools(turns, value, turns.column("action_value") - value)
