"""What a term of the loss reads, and how it declares this."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from torch import Tensor

LossTerm = TypeVar("LossTerm", bound=Callable[..., Any])
NEEDS = ("old", "reference", "teacher", "entropy", "values", "invalid")

OF_TURNS = ("teacher", "values", "invalid")  # a row has to be one turn

TINY = 1e-8


class Choice(NamedTuple):
    """A teacher's probabilities of the legal actions, and the learner's log-probabilities of them.

    float32[B, A] each. Probabilities are 0 beyond the legal actions; the second have a gradient.
    """

    probs: "Tensor"
    logps: "Tensor"


@dataclass(frozen=True)
class LossInputs:
    """What a term reads beside `logps`; tensors [B, T] where no other shape stands.

    A field that the term does not declare with `needs` is None.

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

    mask: "Tensor"
    advantages: "Tensor"
    clip: tuple[float, float]
    # not Optional: a term reads what it declares with `needs`, and this is given
    old: "Tensor" = None  # type: ignore[assignment]
    reference: "Tensor" = None  # type: ignore[assignment]
    entropy: "Tensor" = None  # type: ignore[assignment]
    values: "Tensor" = None  # type: ignore[assignment]
    invalid: "Tensor" = None  # type: ignore[assignment]
    teacher: Choice = None  # type: ignore[assignment]


def needs(*names: str, surrogate: bool = False) -> Callable[[LossTerm], LossTerm]:
    """Declares which optional fields of `LossInputs` a term reads, and whether it is a surrogate."""
    for name in names:
        if name not in NEEDS:
            raise ValueError(f"want needs among {', '.join(NEEDS)}, got {name!r}")

    def declare(term: LossTerm) -> LossTerm:
        term.__dict__["loss_needs"] = (frozenset(names), surrogate)
        return term

    return declare
