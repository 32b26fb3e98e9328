"""What a term of the loss reads, and how it declares this."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

NEEDS = ("old", "reference", "teacher", "entropy", "values", "invalid")

OF_TURNS = ("teacher", "values", "invalid")  # a row has to be one turn

TINY = 1e-8


class Choice(NamedTuple):
    """A teacher's probabilities of the legal actions, and the learner's log-probabilities of them.

    float32[B, A] each. Probabilities are 0 beyond the legal actions; the second have a gradient.
    """

    probs: Any
    logps: Any


@dataclass(frozen=True)
class Seen:
    """What a term reads beside `logps`; tensors [B, T] unless told otherwise.

    Attributes:
        mask: bool, the tokens that are trained.
        advantages: of each token.
        clip: two numbers, `epsilon` and `epsilon_high`.
        old: log-probabilities when the batch was played.
        reference: log-probabilities of the reference.
        entropy: of the policy at each token, with gradient.
        values: of the turn, by the critic or a column function.
        invalid: bool[B], whether the reply of the row was invalid.
        teacher: what the term's teacher would do.
    """

    mask: Any
    advantages: Any
    clip: tuple[float, float]
    old: Any = None
    reference: Any = None
    entropy: Any = None
    values: Any = None
    invalid: Any = None
    teacher: Choice | None = None


def needs(*names: str, surrogate: bool = False) -> Callable[[F], F]:
    """Declares which optional fields of `Seen` a term reads, and whether it is a surrogate."""
    for name in names:
        if name not in NEEDS:
            raise ValueError(f"want needs among {', '.join(NEEDS)}, got {name!r}")

    def declare(term: F) -> F:
        term.__dict__["loss_needs"] = (frozenset(names), surrogate)
        return term

    return declare
