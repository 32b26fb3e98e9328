"""The critics by name, what they supply and read, and checks of their options.

This module imports neither TRL nor torch.
"""

import math
import os
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from arena_envs.game import check_bool, check_int, check_number
from arena_envs.registry import Registry, check_options
from arena_trainers.options import refuse_unknown


class CriticFacts(NamedTuple):
    """The columns that a critic supplies, its options, and further columns that it reads.

    scores_replies: whether its action values need the probabilities of all canonical replies.
    """

    columns: tuple[str, ...]
    options: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    scores_replies: bool = False

    def reads_of(self, columns: Collection[str]) -> tuple[str, ...]:
        """What the records hold for the critic, if credit reads these columns."""
        scores = self.scores_replies and "action_value" in columns
        return (*self.reads, "reply_probs") if scores else self.reads


_FITTED, _CRITICS = ("hidden_size", "learning_rate"), "arena_trainers.train.critics"
_VALUES = ("value", "next_value")
CRITIC_FACTS = {  # of those of this package, whose module imports torch
    "features": CriticFacts(
        (*_VALUES, "action_value"), (*_FITTED, "num_steps"), ("features",), True
    ),
    "exact": CriticFacts((*_VALUES, "action_value")),
    "tokens": CriticFacts(
        ("tokens.value", *_VALUES, "action_value"),
        (*_FITTED, "loss_weight", "shared", "clip"),
        scores_replies=True,
    ),
    "utterances": CriticFacts(
        (*_VALUES, "action_value"),
        (*_FITTED, "num_steps", "batch_size", "replay", "polyak"),
    ),
}
critics: Registry[Any] = Registry(
    "critic",
    "arena.critics",
    {
        "features": f"{_CRITICS}:FeatureCritic",
        "exact": f"{_CRITICS}:ExactCritic",
        "tokens": f"{_CRITICS}:TokenCritic",
        "utterances": f"{_CRITICS}:UtteranceCritic",
    },
    reserved=(
        "games",
        "discount",
        "seed",
        "seats",
        "options",
        "weight",
        "trainer",
        "scores_replies",
    ),
    kit=f"{_CRITICS}:check_critic",
)


def critic_facts(critic: str | None) -> CriticFacts:
    """What is known of a critic; a plug-in declares `supplies` and `reads`."""
    if critic is None or critic in CRITIC_FACTS:
        return CRITIC_FACTS[critic] if critic else CriticFacts(())
    critic_class = critics.find(critic)
    supplies, reads = (
        getattr(critic_class, "supplies", _VALUES),
        getattr(critic_class, "reads", ()),
    )
    return CriticFacts(tuple(supplies), reads=tuple(reads))


_COUNTS = ("hidden_size", "num_steps", "batch_size", "replay")  # of critics


def _check_critic_option(critic: str, name: str, value: Any) -> None:
    """Raises ValueError for a value that the critic would refuse when it is made."""
    if name == "shared":
        check_bool(name, value)
    elif name in _COUNTS:
        limits = {"hidden_size": 10_000, "num_steps": 1_000_000}
        most = 10_000_000 if critic == "utterances" else limits.get(name, 10_000_000)
        check_int(name, value, 1, most)
    elif (critic, name) == ("features", "learning_rate"):
        check_number(name, value, 0, 1)
        if value in (0, 1):
            raise ValueError(f"want a learning_rate from 0 to 1, got {value!r}")
    elif value is not None or name != "clip":
        check_number(name, value, 0, 1 if name == "polyak" else math.inf)


def check_critic_options(critic: str | None, options: Mapping[str, Any]) -> None:
    """Raises ValueError for an unknown critic, or for options that it does not have."""
    if critic is None:
        if options:
            raise ValueError(
                f"want critic_args only with a critic, got {dict(options)!r}; set "
                "critic='features'"
            )
        return
    critics.read(critic)  # raises if there is no such critic
    if critic not in CRITIC_FACTS:
        name = f"critic {critic!r}"
        check_options(name, critics.find(critic), options, critics.reserved)
        return
    refuse_unknown(f"critic {critic!r}", options, CRITIC_FACTS[critic].options)
    for name, value in options.items():
        _check_critic_option(critic, name, value)


def check_critic_rows(critic: str | None, layout: str, splits_weights: bool) -> None:
    """Raises ValueError for rows or processes in which a critic has not been tested.

    Args:
        critic: its name.
        layout: what a row holds, `"turn"` or `"trajectory"`.
        splits_weights: whether weights are split among processes.
    """
    gives_tokens = "tokens.value" in critic_facts(critic).columns
    if gives_tokens and layout != "turn":
        raise ValueError(
            f"critic {critic!r} does not support layout 'trajectory': its values are of "
            "single turns; leave it out"
        )
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1 or splits_weights
    if (gives_tokens or critic == "utterances") and several:
        raise ValueError(
            f"critic {critic!r} does not support several processes: it has not been "
            "tested with them; leave it out"
        )
