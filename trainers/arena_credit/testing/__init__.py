"""Tests of an estimator: the rules of all estimators, and its own claims.

    from arena_credit.testing import check_estimator

    def test_my_estimator_keeps_its_claims():
        check_estimator(my_estimator)

Rules and claims are tried on random batches. The bias is computed exactly, on the diagnostic
games. Whether the formula is the paper's is not tested: compare it with numbers worked by hand.
"""

from arena_credit.testing.check import CHECKS as CHECKS
from arena_credit.testing.check import EstimatorFindings as EstimatorFindings
from arena_credit.testing.check import batch_of as batch_of
from arena_credit.testing.check import check_estimator as check_estimator
from arena_credit.testing.check import check_noise as check_noise
from arena_credit.testing.check import checks_of as checks_of
from arena_credit.testing.check import full_batch as full_batch
from arena_credit.testing.check import random_batches as random_batches
from arena_envs.registry import BrokenPromise as BrokenPromise
