"""Effects of estimators on the exact policy gradient: games, claims, findings.

The names of this module are imported when they are first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

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
    from arena_trainers.credit.proofs.findings import play_of, undiscounted

__all__ = [
    "CLAIMS",
    "DIAGNOSTICS",
    "REINFORCE",
    "ExactGame",
    "agrees",
    "claims_of",
    "compare",
    "expected_gradient",
    "gradient_estimate",
    "play_of",
    "undiscounted",
]

_MODULES = {
    "claims": ("CLAIMS", "claims_of"),
    "diagnostics": ("DIAGNOSTICS",),
    "exact": ("ExactGame",),
    "expectation": (
        "REINFORCE",
        "agrees",
        "compare",
        "expected_gradient",
        "gradient_estimate",
    ),
    "findings": ("play_of", "undiscounted"),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
