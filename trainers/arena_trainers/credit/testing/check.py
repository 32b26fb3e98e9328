"""`check_estimator`: all checks in their order."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from arena_trainers.credit.batch import TurnBatch
from arena_trainers.credit.claims import Claims, claims_of
from arena_trainers.credit.registry import name_of, needed_columns
from arena_trainers.credit.report import Finding, found_claims, undefined
from arena_trainers.credit.testing.batches import random_batches
from arena_trainers.credit.testing.claimed import TRIED, check_bias, check_of, checks_of
from arena_trainers.credit.testing.promise import BrokenClaim, Named
from arena_trainers.credit.testing.properties import CHECKS, Check


class Evidence(NamedTuple):
    """What was found of an estimator that keeps its promises.

    name: of the estimator. claimed: what it promises. found: what held, promised or not;
    of the bias what is claimed, where it cannot be measured. findings: by diagnostic game;
    none where these lack a column that the estimator needs.
    num_batches: random batches that were looked at.
    """

    name: str
    claimed: Claims
    found: Claims
    findings: Mapping[str, Finding]
    num_batches: int


def check_estimator(
    name: Named,
    claims: Claims | None = None,
    *,
    num_batches: int = 40,
    seed: int = 0,
) -> Evidence:
    """Holds an estimator to what all must keep and to what it claims.

    Args:
        name: of the estimator, or the function itself.
        claims: what it promises; None for what it declares.
        num_batches: random batches to look at.
        seed: of these.

    Returns:
        What was found, as far as random batches can show it; `claims` may declare it.

    Raises:
        BrokenClaim: names the estimator and the first promise that it breaks, with numbers.
        ValueError: the name is unknown, or `num_batches` is no integer above 0.
        ImportError: the estimator's plug-in cannot be imported.

    >>> evidence = check_estimator("mars", num_batches=5)
    >>> evidence.found.zero_mean, evidence.findings["toll"].two.kind
    (('game', 'seat'), 'reversed')
    """
    if type(num_batches) is not int or num_batches < 1:
        raise ValueError(f"want num_batches above 0, got {num_batches!r}")
    claims = claims_of(name) if claims is None else claims
    batches = random_batches(num_batches, seed, needed_columns(name))
    for check in CHECKS:
        _hold(check, name, batches, seed)
    claimed = checks_of(claims)
    for check in claimed.values():
        _hold(check, name, batches, seed)
    held = {
        field: value
        for field in TRIED.keys() - claimed.keys()
        for value in reversed(TRIED[field])  # the last that holds stands
        if _holds(check_of(field, value), name, batches)
    }
    found = replace(claims, **held)
    if undefined(name):
        return Evidence(name_of(name), claims, found, {}, num_batches)
    findings = check_bias(name, claims)
    bias = found_claims(findings)
    found = replace(found, two=bias.two, large=bias.large, bootstraps=bias.bootstraps)
    return Evidence(name_of(name), claims, found, findings, num_batches)


def _hold(check: Check, name: Named, batches: Sequence[TurnBatch], seed: int) -> None:
    for index, turns in enumerate(batches):
        try:
            check(name, turns, np.random.default_rng(index))
        except BrokenClaim as error:
            where = f"random_batches({len(batches)}, {seed})[{index}]"
            raise BrokenClaim(f"{error}, of {where}") from error


def _holds(check: Check, name: Named, batches: Sequence[TurnBatch]) -> bool:
    try:
        _hold(check, name, batches, 0)
    except BrokenClaim:
        return False
    return True
