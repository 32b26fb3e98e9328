"""Small value networks, and their loss."""

from collections.abc import Sequence

import torch
from torch import nn

from arena_trainers.finite import Diverged


def check_loss(loss: torch.Tensor) -> None:
    """Raises Diverged for a loss that is not finite."""
    if not bool(loss.isfinite()):
        raise Diverged(
            f"the critic has diverged: got the loss {float(loss.detach())}; train with a lower "
            "learning_rate in critic_args"
        )


def value_networks(
    sizes: Sequence[int],
    hidden_size: int,
    seed: int,
    num_outputs: Sequence[int] | None = None,
) -> nn.ModuleList:
    """A network for each number of inputs; global random state stays as it was.

    By default each has one output.
    """
    outputs = [1] * len(sizes) if num_outputs is None else num_outputs
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.ModuleList(
            value_network(size, hidden_size, num)
            for size, num in zip(sizes, outputs, strict=True)
        )


def value_network(num_inputs: int, hidden_size: int, num_outputs: int = 1) -> nn.Module:
    """Two hidden layers, and outputs that begin at 0; in float64."""
    last = nn.Linear(hidden_size, num_outputs)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    layers = (
        nn.Linear(num_inputs, hidden_size),
        nn.Tanh(),
        nn.Linear(hidden_size, hidden_size),
        nn.Tanh(),
        last,
    )
    return nn.Sequential(*layers).double()
