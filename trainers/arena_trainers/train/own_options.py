"""Options that self-play adds to TRL's, and their checks, without importing TRL.

`TurnGRPOConfig` has them, and so has `Draft`, which is made before TRL is imported.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from arena_envs.checks import did_you_mean
from arena_trainers.credit import WITHIN_TURN
from arena_trainers.curricula import make_curriculum
from arena_trainers.matchmaking import make_matchmaker
from arena_trainers.matchmaking.protocol import names_matchmaker
from arena_trainers.train.checks import check_critic, split_list
from arena_trainers.train.games import check_opponents, expanded
from arena_trainers.train.records import LAYOUTS, PER_TOKEN_LOSSES, WEIGHTINGS
from arena_wrappers import Branching
from arena_wrappers.prompts import PROMPT_OPTIONS

MAX_REPLY_TOKENS = 256  # if the settings give no limit
BRANCH_OPTIONS = ("num_candidates", "turns", "seats", "follow")


class OwnOptions:
    """The options that self-play adds to TRL's."""

    games: list[Any]
    opponents: Any
    curriculum: Any
    credit_args: dict[str, Any]
    part_weights: dict[str, float]
    critic: str | None
    critic_args: dict[str, Any]
    branch: dict[str, Any] | None
    flat_groups: str
    max_replays: int
    oversample: int
    num_generations: int | None  # of TRL
    on_invalid: str
    layout: str
    weighting: str
    history: str
    loss_type: str  # of TRL

    @property
    def prompt_options(self) -> dict[str, Any]:
        """Arguments of the `PromptWrapper`."""
        names = (*PROMPT_OPTIONS, "on_invalid", "penalty", "max_retries")
        return {name: getattr(self, name) for name in names}

    def check_own(self) -> None:
        if isinstance(self.games, str):
            self.games = split_list(self.games)
        if isinstance(self.opponents, str) and len(split_list(self.opponents)) > 1:
            self.opponents = split_list(self.opponents)
        if not isinstance(self.games, list) or not self.games:
            raise ValueError(
                f"want games as a list of ids or dicts, got {self.games!r}"
            )
        self.games = expanded(self.games)
        check_opponents(self.opponents)
        if names_matchmaker(self.opponents):
            make_matchmaker(self.opponents)  # raises for options that it lacks
        if self.curriculum is not None:
            make_curriculum(self.curriculum)
        for name in ("credit_args", "part_weights", "critic_args"):
            if not isinstance(getattr(self, name), dict):
                raise ValueError(
                    f"want {name} as a mapping, got {getattr(self, name)!r}"
                )
        for name, weight in self.part_weights.items():
            if not isinstance(weight, int | float) or not math.isfinite(weight):
                raise ValueError(f"want a number as weight of {name!r}, got {weight!r}")
        for name, known in (
            ("on_invalid", ("forfeit", "retry", "random")),
            ("layout", LAYOUTS),
            ("weighting", WEIGHTINGS),
            ("within_turn", WITHIN_TURN),
            ("flat_groups", ("keep", "drop")),
        ):
            value = getattr(self, name)
            if value not in known:
                raise ValueError(
                    f"unknown {name} {value!r}; {did_you_mean(str(value), known)}"
                )
        check_critic(self.critic, self.critic_args)
        self._check_rows()
        self.branching(())
        self._check_filter()
        self._check_oversample()

    def branching(self, seats: Sequence[int]) -> Branching | None:
        """Where training episodes branch; None without `branch`.

        Args:
            seats: seats that branch if `branch` names none.
        """
        if self.branch is None:
            return None
        if not isinstance(self.branch, dict):
            raise ValueError(f"want branch as a mapping, got {self.branch!r}")
        for name in self.branch:
            if name not in BRANCH_OPTIONS:
                hint = did_you_mean(str(name), BRANCH_OPTIONS)
                raise ValueError(f"branch has no option {name!r}; {hint}")
        if "num_candidates" not in self.branch:
            raise ValueError(f"want num_candidates in branch, got {self.branch!r}")
        return Branching(**{"seats": seats, **self.branch})

    def _check_filter(self) -> None:
        replays = self.max_replays
        if not isinstance(replays, int) or isinstance(replays, bool) or replays < 0:
            raise ValueError(
                f"want max_replays as an integer of at least 0, got {replays!r}"
            )
        if replays and self.flat_groups == "keep":
            raise ValueError(
                f"max_replays={replays} plays flat groups again, and flat_groups='keep' "
                "keeps them; set flat_groups='drop'"
            )
        if self.flat_groups == "drop" and self.branch is not None:
            raise ValueError(
                "flat_groups='drop' does not support branch: the candidates of a turn tree "
                "share the rewards before them; leave one of the two out"
            )

    def _check_oversample(self) -> None:
        times, size = self.oversample, self.num_generations or 0
        if not isinstance(times, int) or isinstance(times, bool) or times < 1:
            raise ValueError(
                f"want oversample as an integer of at least 1, got {times!r}"
            )
        if times == 1:
            return
        if size % times or size < 2 * times:
            raise ValueError(
                f"want num_generations as a multiple of oversample ({times}) and at least "
                f"twice as large, got {size}; give --num_generations {2 * times} or more"
            )
        if self.on_invalid == "forfeit":
            raise ValueError(
                "oversample prefers wins with few invalid replies, and with "
                "on_invalid='forfeit' no win has any; set on_invalid='retry' or 'random'"
            )
        if self.branch is not None:
            raise ValueError(
                "oversample does not support branch: the candidates of a turn tree share "
                "the turns before them; leave one of the two out"
            )

    def _check_rows(self) -> None:
        if self.layout == "trajectory" and self.history != "transcript":
            raise ValueError(
                "layout='trajectory' needs history='transcript', in which a seat's prompt "
                f"begins with its earlier turns, got {self.history!r}"
            )
        if self.weighting == "turn" and self.loss_type not in PER_TOKEN_LOSSES:
            raise ValueError(
                f"weighting='turn' needs a loss that averages over all tokens, got "
                f"loss_type={self.loss_type!r}; set one of {PER_TOKEN_LOSSES}"
            )


class Draft(OwnOptions):
    """The options as attributes, without the values that TRL derives.

    Args:
        options: all options, given or default, by name.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.__dict__.update(options)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the draft has no option {name!r}")
