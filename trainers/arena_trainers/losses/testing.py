"""The check of a term of the loss."""

from collections.abc import Callable
from typing import Any

from arena_envs.registry import broken
from arena_trainers.losses.inputs import Choice, LossInputs


def check_term(term: Callable[..., Any], **options: Any) -> None:
    """Checks that a term reads what it declares, and gives a finite loss and gradient per token.

    Raises:
        BrokenPromise: names the first promise that it breaks.
    """
    import torch

    generator = torch.Generator().manual_seed(0)
    logps, old, reference, values, entropy = -torch.rand(5, 2, 3, generator=generator)
    logps, entropy = logps.requires_grad_(), (-entropy).requires_grad_()
    columns: dict[str, Any] = {
        "old": old,
        "reference": reference,
        "teacher": Choice(values.softmax(1), logps.log_softmax(1)),
        "entropy": entropy,
        "values": values,
        "invalid": torch.tensor([True, False]),
    }
    needs, _ = getattr(term, "loss_needs", (frozenset[str](), False))
    mask = torch.tensor([[True] * 3, [True, True, False]])
    inputs = LossInputs(
        mask=mask,
        advantages=torch.tensor([[1.0], [-1.0]]) * mask,
        clip=(0.2, 0.2),
        **{name: columns[name] for name in needs},
    )
    try:
        loss = term(logps, inputs, **options)
    except (AttributeError, TypeError) as error:
        broken(
            "needs",
            f"it reads what it does not declare, or an option is wrong: {error}",
        )
    if tuple(loss.shape) != (2, 3):
        broken("per token", f"want a loss of shape (2, 3), got {tuple(loss.shape)}")
    if not loss.isfinite().all():
        broken("finite", f"got {loss.tolist()}")
    if not loss.requires_grad:
        broken("gradient", "it does not depend on the policy")
