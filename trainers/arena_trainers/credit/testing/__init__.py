"""Tests of an estimator: the rules of all estimators, and its own claims.

    from arena_trainers.credit.testing import check_estimator

    def test_my_estimator_keeps_its_claims():
        check_estimator(my_estimator)

Rules and claims are tried on random batches. The bias is computed exactly, on the diagnostic
games. Whether the formula is the paper's is not tested: compare it with numbers worked by hand.
"""

from arena_envs.doors import BrokenPromise
from arena_trainers.credit.testing.batches import batch_of, full_batch, random_batches
from arena_trainers.credit.testing.check import (
    CHECKS,
    Evidence,
    check_estimator,
    check_noise,
    checks_of,
)

__all__ = [
    "CHECKS",
    "BrokenPromise",
    "Evidence",
    "batch_of",
    "check_estimator",
    "check_noise",
    "checks_of",
    "full_batch",
    "random_batches",
]
