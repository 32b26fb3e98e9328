"""Effects of estimators on the exact policy gradient: games, claims, findings.

The names of this module are imported when they are first used.
"""

from typing import TYPE_CHECKING

from arena_trainers.extras import lazy_names

if TYPE_CHECKING:
    from arena_trainers.credit.proofs.claims import CLAIMS, claims_of
    from arena_trainers.credit.proofs.diagnostics import DIAGNOSTICS
    from arena_trainers.credit.proofs.exact import ExactGame
    from arena_trainers.credit.proofs.expectation import (
        REINFORCE,
        agrees,
        compare,
        expected_gradient,
        gradient_estimate,
    )
    from arena_trainers.credit.proofs.findings import (
        exact_variance,
        play_of,
        undiscounted,
    )

__all__ = [
    "CLAIMS",
    "DIAGNOSTICS",
    "REINFORCE",
    "ExactGame",
    "agrees",
    "claims_of",
    "compare",
    "exact_variance",
    "expected_gradient",
    "gradient_estimate",
    "play_of",
    "undiscounted",
]

__getattr__ = lazy_names(__name__, __file__)
