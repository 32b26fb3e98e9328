"""`check_estimator`: all checks in their order."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from arena_trainers.credit.batch import TurnBatch
from arena_trainers.credit.proofs.claims import Claims, claims_of
from arena_trainers.credit.proofs.report import Finding, found_claims, undefined
from arena_trainers.credit.registry import name_of, needed_columns
from arena_trainers.credit.testing.batches import random_batches
from arena_trainers.credit.testing.claimed import TRIED, check_bias, check_of, checks_of
from arena_trainers.credit.testing.comparison import BrokenClaim, Named, check_runs
from arena_trainers.credit.testing.properties import CHECKS, Check

BIAS = (
    "bias_two",
    "bias_infinite",
    "bias_shared_chance",
    "bootstraps",
)  # what the diagnostic games show


class Evidence(NamedTuple):
    """What was found of an estimator that keeps its promises.

    name: of the estimator. claimed: what it promises. found: what held, promised or not;
    of the bias what is claimed, where it cannot be measured. findings: by diagnostic game;
    none where these lack a column that the estimator needs.
    num_batches: batches that were looked at.
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
    batches: Sequence[TurnBatch] | None = None,
    num_batches: int = 40,
    seed: int = 0,
) -> Evidence:
    """Holds an estimator to what all must keep and to what it claims.

    Args:
        name: of the estimator, or the function itself.
        claims: what it promises; None for what it declares.
        batches: to look at instead of random ones, of an estimator that cannot read any
            number: those of `random_batches` with columns of your own, such as labels. A
            check may drop, repeat and reorder their rows, pay them otherwise (`reward` and
            its part `game`), and change all columns of numbers that are not whole.
        num_batches: random batches to look at.
        seed: of these.

    Returns:
        What was found, as far as such batches can show it; `claims` may declare it.

    Raises:
        BrokenClaim: names the estimator and the first promise that it breaks, with numbers;
            or what it raised, and where.
        ValueError: the name is unknown, `num_batches` is no integer above 0, or there are
            no batches.
        ImportError: the estimator's plug-in cannot be imported.

    >>> evidence = check_estimator("mars", num_batches=5)
    >>> evidence.found.zero_mean, evidence.findings["toll"].bias_two.kind
    (('game', 'seat'), 'reversed')
    """
    if type(num_batches) is not int or num_batches < 1:
        raise ValueError(f"want num_batches above 0, got {num_batches!r}")
    claims = claims_of(name) if claims is None else claims
    where = "batches"
    if batches is None:
        batches = random_batches(num_batches, seed, needed_columns(name))
        where = f"random_batches({num_batches}, {seed})"
    elif len(batches) == 0:
        raise ValueError("want batches, got none")
    claimed = checks_of(claims)
    check_runs(name, batches[0], f"{where}[0]")
    for check in (*CHECKS, *claimed.values()):
        _hold(check, name, batches, where)
    held = {
        field: value
        for field in TRIED.keys() - claimed.keys()
        for value in reversed(TRIED[field])  # the last that holds stands
        if _holds(check_of(field, value), name, batches)
    }
    found = replace(claims, **held)
    if undefined(name):
        return Evidence(name_of(name), claims, found, {}, len(batches))
    findings = check_bias(name, claims)
    bias = found_claims(findings)
    kinds = {field: getattr(bias, field) for field in BIAS}
    found = replace(found, **kinds)
    return Evidence(name_of(name), claims, found, findings, len(batches))


def _hold(check: Check, name: Named, batches: Sequence[TurnBatch], where: str) -> None:
    for index, turns in enumerate(batches):
        try:
            check(name, turns, np.random.default_rng(index))
        except BrokenClaim as error:
            raise BrokenClaim(f"{error}, of {where}[{index}]") from error


def _holds(check: Check, name: Named, batches: Sequence[TurnBatch]) -> bool:
    try:
        _hold(check, name, batches, "batches")
    except BrokenClaim:
        return False
    return True
