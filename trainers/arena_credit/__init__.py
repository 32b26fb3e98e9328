"""Turn-level credit: the advantage of each turn of an episode, as pure numpy functions.

`estimate(name, turns, **options)` computes the advantages of a `TurnBatch`. `estimator_names()`
lists the estimators, and `docs/credit/estimators.md` what each does.

The docstring of an estimator says how it is biased, and `docs/credit/report.md` has a table of
all. The episodes of a group share the draws
of chance (one seed). Division
by the spread of such a group can turn the sign of the gradient, however large the group is.

An estimator is a function. It takes `Trajectories` (the turns that are not masked, in
order) and keyword options, and returns `Credit`. An estimator with memory also takes and
returns `state`. It declares with `needs` which columns it reads, whether it credits tokens,
and which settings it does not support. Its name plays no role. It declares with `claims` how
its gradient may be biased. `testing.check_estimator` tests these claims, and the properties
of every estimator. `exact`, `expectation` and `report` compute the expected gradient in small
games.

Building blocks: `require`, `returns_to_go`, `temporal_differences`, `pools_by`, `moments`,
`mean_of_others`, `unit_scale`, `rescaled`, `clip_values`, `with_report`. `uniform_over_tokens`,
`by_token_entropy` and `by_value_differences` pass the advantage of a turn to its tokens;
`within_turn` of `estimate` chooses one of them.

`export` computes the credit of recorded episodes and writes it into the fields that other
trainers read. `arena_credit.hooks` puts estimators into those trainers.

`audit` puts the advantage function of any trainer before the exact gradient.

Other distributions add estimators by the entry-point group `arena.credit`, such as
`my_estimator = "my_package.credit:my_estimator"`. They are imported at first use.
"""

from typing import TYPE_CHECKING, Any

from arena_credit.batch import TurnBatch as TurnBatch
from arena_credit.by_name import check_credit_options as check_credit_options
from arena_credit.by_name import default_options as default_options
from arena_credit.by_name import estimate as estimate
from arena_credit.by_name import estimator_names as estimator_names
from arena_credit.by_name import needed_columns as needed_columns
from arena_credit.by_name import per_token as per_token
from arena_credit.claims import Claims as Claims
from arena_credit.claims import claims as claims
from arena_credit.export import export as export
from arena_credit.needs import needs as needs
from arena_credit.pools import Credit as Credit
from arena_credit.pools import FlatPoolWarning as FlatPoolWarning
from arena_credit.pools import Moments as Moments
from arena_credit.pools import Pool as Pool
from arena_credit.pools import PoolReport as PoolReport
from arena_credit.pools import Pools as Pools
from arena_credit.pools import best_of_others as best_of_others
from arena_credit.pools import clip_values as clip_values
from arena_credit.pools import mean_of_others as mean_of_others
from arena_credit.pools import moments as moments
from arena_credit.pools import pools_by as pools_by
from arena_credit.pools import relative as relative
from arena_credit.pools import rescaled as rescaled
from arena_credit.pools import running_means as running_means
from arena_credit.pools import unit_scale as unit_scale
from arena_credit.pools import with_report as with_report
from arena_credit.tokens import WITHIN_TURN as WITHIN_TURN
from arena_credit.tokens import SurpriseWarning as SurpriseWarning
from arena_credit.tokens import by_token_entropy as by_token_entropy
from arena_credit.tokens import by_value_differences as by_value_differences
from arena_credit.tokens import decayed_sums as decayed_sums
from arena_credit.tokens import expected_squares as expected_squares
from arena_credit.tokens import surprise_z as surprise_z
from arena_credit.tokens import surprises as surprises
from arena_credit.tokens import uniform_over_tokens as uniform_over_tokens
from arena_credit.trajectories import Trajectories as Trajectories
from arena_credit.trajectories import discounted_sums as discounted_sums
from arena_credit.trajectories import require as require
from arena_credit.trajectories import returns_to_go as returns_to_go
from arena_credit.trajectories import (
    temporal_differences as temporal_differences,
)
from arena_credit.trajectories import trajectories as trajectories
from arena_credit.trajectories import values_after as values_after

if TYPE_CHECKING:
    from arena_credit.proofs.findings import Audit as Audit
    from arena_credit.proofs.findings import audit as audit


def __getattr__(name: str) -> Any:
    """`audit` and `Audit`: their games need `arena_envs`, and estimators do not."""
    if name in ("Audit", "audit"):
        from arena_credit.proofs import findings

        return getattr(findings, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
