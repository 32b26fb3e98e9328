"""Effects of estimators on the exact policy gradient: games, findings.

The names of this module are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from arena_credit.proofs.diagnostics import DIAGNOSTICS as DIAGNOSTICS
    from arena_credit.proofs.exact import ExactGame as ExactGame
    from arena_credit.proofs.findings import REINFORCE as REINFORCE
    from arena_credit.proofs.findings import agrees as agrees
    from arena_credit.proofs.findings import compare as compare
    from arena_credit.proofs.findings import exact_variance as exact_variance
    from arena_credit.proofs.findings import expected_gradient as expected_gradient
    from arena_credit.proofs.findings import gradient_estimate as gradient_estimate
    from arena_credit.proofs.findings import play_of as play_of
    from arena_credit.proofs.findings import undiscounted as undiscounted

_MODULES = {
    "diagnostics": ("DIAGNOSTICS",),
    "exact": ("ExactGame",),
    "findings": (
        "REINFORCE",
        "agrees",
        "compare",
        "exact_variance",
        "expected_gradient",
        "gradient_estimate",
        "play_of",
        "undiscounted",
    ),
}


def __getattr__(name: str) -> Any:
    """A name of a module of this folder, which is imported when the name is first used."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
