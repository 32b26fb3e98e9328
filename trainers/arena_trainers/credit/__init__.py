"""Turn-level credit: the advantage of each turn of an episode, as pure numpy functions.

`estimate(name, turns, **options)` computes the advantages of a `TurnBatch`:

| Name | Advantage of a turn | Expected gradient |
|---|---|---|
| `adca` | outcome and judge's labels from the turn on, each z-scored | wrong direction, with the bias of `episode` |
| `advevo_public_baseline` | return less the mean of the team | unbiased in large pools |
| `aepo` | `episode`, larger for tokens of high entropy | bias of `episode`; favours uncertain tokens |
| `agentprm` | mean return-to-go of the action less that of its state | scaled down state by state |
| `archer` | Q less V of a critic of utterances | biased by errors of the critic |
| `at_grpo` | reward, or return-to-go, relative to others at its state | bias of `episode` at each state; γ = 0 ignores later rewards |
| `bi_level_gae` | GAE over turns, then over tokens (RAGEN) | unbiased with γ = λ = 1 |
| `bnpo` | return less the pool's mean, over the density of such pools | weighs rare pools, and rare deals, more |
| `canon` | return less the mean of the other half of its pool | favours the better half |
| `counterfactual` | Q less V, both exact | unbiased |
| `dr_grpo` | return less the pool's mean | unbiased in large pools |
| `episode` | z-score of the return (GRPO) | divided by the spread of each deal |
| `flow_grpo` | z-score of the outcome | bias of `episode`, for the outcome |
| `gae` | sum of temporal differences of a critic | unbiased with γ = λ = 1 |
| `gigpo` | z-score of the return, plus that of the return-to-go at its state | bias of `episode`, weighted by visits of states |
| `grpo_passk` | lead of the best trajectory over the second best | unbiased for the best of n |
| `hapo` | z-score over tokens, smaller for tokens of low entropy | bias of `episode`; favours uncertain tokens |
| `mars` | return-to-go less the mean of its game and seat | unbiased in large batches |
| `mars_loo` | return-to-go less the mean of other episodes | unbiased |
| `mars_released` | what the released MARS code computes | wrong direction |
| `matpo` | z-score of the planner's return, also for its workers | bias of `episode` |
| `mt_grpo` | z-score of the outcome; first turns also that of turn rewards | wrong sign: both parts weigh the same |
| `normalise_then_sum` | sum of normalised turn rewards | wrong direction |
| `poad` | GAE over tokens, discounted between turns only | biased by errors of the critic |
| `rae` | return less a running mean of its game and seat (SPIRAL) | unbiased (`post`: times α) |
| `reinforce_plus_plus_baseline` | `dr_grpo`, divided by the batch's spread | divided by one spread |
| `rloo` | return less the mean of other episodes | unbiased |
| `salt` | mean of `episode` over turns of the same state and action | bias of `episode` |
| `stratified_grpo` | z-score of the return in its stratum, and in its pool | bias of `episode`; ignores differences between strata |
| `turn_ppo` | `gae` with γ = .99, λ = .9 | biased by errors of the critic |

Return means the return of the turn's trajectory. The episodes of a group share the draws of
chance (one seed). Division by the spread of a group, as in `episode`, weighs deals by
1 / std, also deals that a seat cannot tell apart. This can reverse the sign of the
gradient. Subtracting the mean of a group has no such bias.

An estimator is a function. It takes `Trajectories` (the turns that are not masked, in
order) and keyword options, and returns `Credit`. An estimator with memory also takes and
returns `state`. It declares with `needs` which columns it reads, whether it credits tokens,
and which settings it does not support. Its name plays no role. It declares with `claims` what
it promises of the gradient. `testing.check_estimator` tests these claims, and the properties
of every estimator. `exact`, `expectation` and `report` compute the expected gradient in small
games.

Building blocks: `require`, `returns_to_go`, `temporal_differences`, `pools_by`, `moments`,
`mean_of_others`, `unit_scale`, `rescaled`, `clipped`, `with_report`. `uniform_over_tokens`,
`by_token_entropy` and `by_value_differences` pass the advantage of a turn to its tokens;
`within_turn` of `estimate` chooses one of them.

Other distributions add estimators by the entry-point group `arena.credit`, such as
`my_estimator = "my_package.credit:my_estimator"`. They are imported at first use.
"""

from arena_trainers.credit.baselines import (
    best_of_others,
    mean_of_others,
    running_means,
)
from arena_trainers.credit.batch import TurnBatch
from arena_trainers.credit.needs import needs
from arena_trainers.credit.pools import (
    Credit,
    Moments,
    Pool,
    PoolReport,
    Pools,
    moments,
    pools_by,
    with_report,
)
from arena_trainers.credit.proofs.claims import Claims, claims
from arena_trainers.credit.registry import (
    check_options,
    default_options,
    estimate,
    estimator_names,
    needed_columns,
    per_token,
)
from arena_trainers.credit.results import FlatPoolWarning
from arena_trainers.credit.scales import clipped, relative, rescaled, unit_scale
from arena_trainers.credit.tokens import (
    WITHIN_TURN,
    by_token_entropy,
    by_value_differences,
    decayed_sums,
    uniform_over_tokens,
)
from arena_trainers.credit.trajectories import (
    Trajectories,
    discounted_sums,
    require,
    returns_to_go,
    temporal_differences,
    trajectories,
    values_after,
)

__all__ = [
    "WITHIN_TURN",
    "Claims",
    "Credit",
    "FlatPoolWarning",
    "Moments",
    "Pool",
    "PoolReport",
    "Pools",
    "Trajectories",
    "TurnBatch",
    "best_of_others",
    "by_token_entropy",
    "by_value_differences",
    "check_options",
    "claims",
    "clipped",
    "decayed_sums",
    "default_options",
    "discounted_sums",
    "estimate",
    "estimator_names",
    "mean_of_others",
    "moments",
    "needed_columns",
    "needs",
    "per_token",
    "pools_by",
    "relative",
    "require",
    "rescaled",
    "returns_to_go",
    "running_means",
    "temporal_differences",
    "trajectories",
    "uniform_over_tokens",
    "unit_scale",
    "values_after",
    "with_report",
]
