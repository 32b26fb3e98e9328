"""Turn-level credit: what each turn of an episode is worth, by pure functions on numpy.

`estimate(name, turns, **options)` computes the advantages of a `TurnBatch`:

| Name | Advantage of a turn |
|---|---|
| `adca` | judged turns and outcome that follow, z-scored apart |
| `advevo_public_baseline` | its trajectory's return less its team's mean |
| `aepo` | `episode`, more for tokens of high entropy |
| `agentprm` | mean return-to-go of its action, less that of its state |
| `archer` | Q less V of a critic of utterances |
| `at_grpo` | its reward, or return-to-go, relative to others at its state |
| `bi_level_gae` | GAE over turns, then over tokens (RAGEN) |
| `bnpo` | return less the pool's mean, over the density of such pools |
| `canon` | return less the mean of the other half of its pool |
| `counterfactual` | Q less V, exact values |
| `dr_grpo` | its trajectory's return less the pool's mean |
| `episode` | z-score of its trajectory's return (GRPO; also named `grpo`) |
| `flow_grpo` | z-score of its trajectory's outcome |
| `gae` | sum of temporal differences of a critic |
| `gigpo` | z-score of the return, and of its return-to-go at its state |
| `grpo_passk` | the best trajectory's lead over the second |
| `hapo` | z-score over tokens, less for tokens of low entropy |
| `mars` | return-to-go less the mean of its game and seat |
| `mars_loo` | the same, own episode left out |
| `mars_released` | as the released MARS code computes it |
| `matpo` | z-score of the planner's return, also for its workers |
| `mt_grpo` | z-score of the outcome; at first that of turn rewards, too |
| `normalise_then_sum` | sum of normalised turn rewards |
| `poad` | GAE over tokens, discounted between turns only |
| `rae` | return less a running mean of its game and seat (SPIRAL) |
| `reinforce_plus_plus_baseline` | `dr_grpo`, in units of the batch's spread |
| `rloo` | its trajectory's return less the mean of other episodes |
| `salt` | mean of `episode` over all that did the same there |
| `stratified_grpo` | z-score of the return within its stratum, and in its pool |
| `turn_ppo` | `gae` with γ = .99, λ = .9 |

The bias of each one is in its docstring and, for all of them in one table, in
`docs/credit/report.md`. The episodes of a group share the draws of chance (one seed). Division
by the spread of such a group can turn the sign of the gradient, however large the group is.

An estimator is a function of `Trajectories` (the turns that count, in order) and of keyword
options, which returns `Credit`; one that needs memory takes and returns `state`, one that
needs further columns, or credits tokens, says so by `needs`. It is composed of
`require`, `returns_to_go`, `temporal_differences`, `pools_by`, `moments`, `mean_of_others`,
`unit_scale`, `rescaled`, `clipped` and `with_report`. What it credits turns with is passed on
to tokens as the option `within_turn` of `estimate` says, by `uniform_over_tokens`,
`by_token_entropy` or `by_value_differences`. Those of other distributions are found by the
entry-point group `arena.credit`, such as `my_estimator = "my_package.credit:my_estimator"`,
and imported when they are first used.

What each does to the gradient of small games is computed exactly (`exact`, `expectation`,
`report`). What an estimator promises of that and of other turns it declares by `claims`, and
`testing.check_estimator` holds any to it, and to what every estimator must keep.
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
