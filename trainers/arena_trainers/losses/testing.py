"""The check of a term of the loss."""

from collections.abc import Callable
from typing import Any

from arena_envs.doors import broken
from arena_trainers.losses.inputs import NEEDS, Choice, Seen


def check_term(term: Callable[..., Any], **options: Any) -> None:
    """Checks that a term reads what it declares, and gives a finite loss and gradient per token.

    Raises:
        BrokenPromise: names the first promise that it breaks.
    """
    import torch

    draws = torch.Generator().manual_seed(0)
    logps, old, reference, values, entropy = -torch.rand(5, 2, 3, generator=draws)
    logps, entropy = logps.requires_grad_(), (-entropy).requires_grad_()
    invalid = torch.tensor([True, False])
    choice = Choice(values.softmax(1), logps.log_softmax(1))
    every = (old, reference, choice, entropy, values, invalid)
    known: dict[str, Any] = dict(zip(NEEDS, every, strict=True))
    reads, _ = getattr(term, "loss_needs", (frozenset[str](), False))
    mask = torch.tensor([[True] * 3, [True, True, False]])
    read = {name: known[name] for name in reads}
    seen = Seen(mask, torch.tensor([[1.0], [-1.0]]) * mask, (0.2, 0.2), **read)
    try:
        found = term(logps, seen, **options)
    except (AttributeError, TypeError) as error:
        broken(
            "needs",
            f"it reads what it does not declare, or an option is wrong: {error}",
        )
    if tuple(found.shape) != (2, 3):
        broken("per token", f"want a loss of shape (2, 3), got {tuple(found.shape)}")
    if not found.isfinite().all():
        broken("finite", f"got {found.tolist()}")
    if not found.requires_grad:
        broken("gradient", "it does not depend on the policy")
