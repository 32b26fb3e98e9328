"""`check_estimator`: the rules of all estimators, then the claims, then the bias."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from arena_envs.doors import BrokenPromise
from arena_trainers.credit.batch import TurnBatch
from arena_trainers.credit.by_name import name_of, needed_columns
from arena_trainers.credit.proofs.claims import Claims, claims_of
from arena_trainers.credit.proofs.findings import Finding, found_claims, undefined
from arena_trainers.credit.testing.batches import random_batches
from arena_trainers.credit.testing.claimed import TRIED, check_bias, check_of, checks_of
from arena_trainers.credit.testing.comparison import Named, check_runs
from arena_trainers.credit.testing.properties import CHECKS, Check

BIAS = (
    "bias_two",
    "bias_infinite",
    "bias_shared_chance",
    "bootstraps",
)  # measured on the diagnostic games


class Evidence(NamedTuple):
    """What was found of an estimator that keeps all rules and its claims.

    name: of the estimator.
    claimed: its claims.
    found: the strongest claims that held. The bias is `claimed`'s if it was not measured.
    findings: the bias by diagnostic game. Empty if the estimator needs a column that these
        games do not have.
    num_batches: number of batches that were tried.
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
    """Checks the rules of all estimators and the claims of this one.

    Args:
        name: of the estimator, or the function itself.
        claims: to check; None for the claims that it declares.
        batches: to try instead of random ones. Supply them if the estimator refuses random
            columns: take `random_batches`, and add columns of your own, such as labels. A
            check may drop, repeat and reorder rows, change `reward` and its part `game`, and
            change any column with a fractional number.
        num_batches: number of random batches.
        seed: of the random batches.

    Returns:
        What held on these batches. You may declare it with `claims`.

    Raises:
        BrokenPromise: names the estimator and the first rule or claim that it breaks, with
            numbers; or the exception that it raised, with the line.
        ValueError: the name is unknown, `num_batches` is no integer above 0, or `batches` is
            empty.
        ImportError: the estimator's plug-in cannot be imported.

    >>> evidence = check_estimator("mars", num_batches=5)
    >>> evidence.found.zero_mean, evidence.findings["toll"].bias_two.kind
    (('game', 'seat'), 'reversed')
    """
    if type(num_batches) is not int or num_batches < 1:
        raise ValueError(f"want an integer num_batches above 0, got {num_batches!r}")
    claims = claims_of(name) if claims is None else claims
    where = "batches"
    if batches is None:
        batches = random_batches(num_batches, seed, needed_columns(name))
        where = f"random_batches({num_batches}, {seed})"
    elif len(batches) == 0:
        raise ValueError(
            "want at least one batch, got none; leave out `batches` for random ones"
        )
    claimed = checks_of(claims)
    check_runs(name, batches[0], f"{where}[0]")
    for check in (*CHECKS, *claimed.values()):
        _hold(check, name, batches, where)
    held = {
        field: value
        for field in TRIED.keys() - claimed.keys()
        for value in reversed(TRIED[field])  # so the first that holds is kept
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
        except BrokenPromise as error:
            advice = "" if check in CHECKS else " or drop the claim"
            raise BrokenPromise(
                f"{error}, on the batch {where}[{index}]; fix the estimator{advice}"
            ) from error


def _holds(check: Check, name: Named, batches: Sequence[TurnBatch]) -> bool:
    try:
        _hold(check, name, batches, "batches")
    except BrokenPromise:
        return False
    return True
