"""Effects of estimators on the exact policy gradient: games, claims, findings.

The names of this module are imported when they are first used.
"""

from typing import TYPE_CHECKING

from arena_envs.extras import lazy_names

if TYPE_CHECKING:
    from arena_credit.proofs.claims import CLAIMS as CLAIMS
    from arena_credit.proofs.claims import claims_of as claims_of
    from arena_credit.proofs.diagnostics import DIAGNOSTICS as DIAGNOSTICS
    from arena_credit.proofs.exact import ExactGame as ExactGame
    from arena_credit.proofs.findings import REINFORCE as REINFORCE
    from arena_credit.proofs.findings import agrees as agrees
    from arena_credit.proofs.findings import compare as compare
    from arena_credit.proofs.findings import exact_variance as exact_variance
    from arena_credit.proofs.findings import (
        expected_gradient as expected_gradient,
    )
    from arena_credit.proofs.findings import (
        gradient_estimate as gradient_estimate,
    )
    from arena_credit.proofs.findings import play_of as play_of
    from arena_credit.proofs.findings import undiscounted as undiscounted


__getattr__ = lazy_names(__name__, __file__)
