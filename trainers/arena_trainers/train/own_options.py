"""Options that self-play adds to TRL's, and their checks, without importing TRL.

`TurnGRPOConfig` has them, and so has `Draft`, which is made before TRL is imported.

Importing TRL takes seconds, so the fields that `TurnGRPOConfig` inherits are listed in
`options.json`, together with the versions of TRL and transformers that they come from. Update the
list with `python -m arena_trainers.train.config`; a test compares it with the installed TRL.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from arena_envs.checks import did_you_mean
from arena_envs.doors import split
from arena_trainers.curricula import make_curriculum
from arena_trainers.matchmaking import make_matchmaker
from arena_trainers.matchmaking.protocol import names_matchmaker
from arena_trainers.train.checks import check_critic
from arena_trainers.train.games import check_opponents, expanded
from arena_trainers.train.options import Option, check_declared, option, options_of
from arena_trainers.train.records import PER_TOKEN_LOSSES
from arena_wrappers import Branching
from arena_wrappers.prompts import PROMPT_OPTIONS

LIST = Path(__file__).with_name("options.json")
SOURCES = ("trl", "transformers")  # packages of the inherited fields
MAX_REPLY_TOKENS = 256  # if the settings give no limit
BRANCH_OPTIONS = ("num_candidates", "turns", "seats", "follow")


@dataclass
class SelfPlay:
    """The options that self-play adds to TRL's.

    Games and prompts:
        games: Games to train on: ids, or dicts of id, params, max_turns, weight, opponents, knobs.
            Episodes are truncated after `max_turns` turns of all seats together; there is no
            limit by default. `knobs: true`, or a list of names, lists the game once for each
            value of its knobs.
        opponents: Who plays: 'self', a policy against the learner, a list of seats, or a
            matchmaker: past_selves, prioritised, psro, mixture. `"self"` is the model that
            learns; other policies are strings such as `"random"`, `"mcts:100"` or
            `"lm:PATH"`. A list names one for each seat. One policy alone plays all seats but
            one, which is drawn for each start and learns. A matchmaker assigns the seats of
            each start: `"past_selves"`, or `{"past_selves": {"every": 10}}` with its options.
            See `arena_trainers.matchmaking`.
        curriculum: Tasks of starts: weights, stages, horizon or band. It chooses the game of
            each start and a limit of turns: a name, or
            `{"horizon": {"horizons": [4, 8, None]}}` with options. See
            `arena_trainers.curricula`. By default games start by their `weight`.
        num_starts: Number of different starts (seeds); by default enough for max_steps. Each is
            played `num_generations` times. Without `max_steps` it is 1000.
        reply_format: Reply format of the prompts.
        history: Prompts: 'state' or 'transcript'. The current state, or the whole episode.
        rules: Whether prompts contain the rules.
        show_legal_actions: Whether prompts list the legal actions.
        parsing: How replies are read: 'strict' or 'tolerant'.
        on_invalid: Reaction to an invalid reply: 'forfeit', 'retry' or 'random'.
        penalty: Cost of an invalid reply. It is in the `format` part of the reward.
        max_retries: Retries of a seat after an invalid reply.
        part_weights: Weights of the reward parts, such as {format: 0.5}. Default: 1 for `game`
            and `format`; 0 for parts that the trainer's `columns` give, which are then read
            but not paid.

    Sampling:
        rollout_batch_size: Largest number of prompts per call of the model. Default: no limit.
        vllm_importance_sampling_mode: Mode of the correction with use_vllm. Default: 'token_truncate' with `layout="trajectory"`, where a row holds several
            turns, else TRL's 'sequence_mask'.

    Episodes and batch:
        episodes_per_step: Episodes per optimizer step. All processes count. It sets
            `per_device_train_batch_size`, which counts episodes here.
        max_tokens_per_forward: Most tokens in one training pass; by default what memory allows.
            Padding counts. The gradient is the same for any bound. A lower bound takes less
            memory and about 40 % more time.
        flat_groups: Groups without spread: 'keep' or 'drop'. In these groups all trajectories of
            each seat have the same reward. Dropping selects data by its returns; see `arena_trainers.train.play`
            for the bias.
        max_replays: Times that a flat group is played again. Then it is dropped.
        oversample: Trajectories per trained one; clean wins are preferred. Clean are those with
            few invalid replies. This selects data; see `arena_trainers.train.play`.
        branch: Options of `Branching`, to train on turn trees. Turns that were selected by their
            return are not trained on. Batch sizes count the episodes that others branch from.
            By default the seats that learn branch. The estimator must compare only turns of
            the same state.
        layout: Content of a training row: 'turn' or 'trajectory'. In a trajectory, which has all
            turns of a seat, the words of others are masked. It needs `history="transcript"`.

    Credit:
        credit: Estimator of turn-level credit. A name, or 'module:function' of your own. The
            trainer raises when it is made if it lacks a column that the estimator reads; its
            `columns` can supply some of them.
        credit_args: Options of the estimator.
        within_turn: How tokens share their turn's advantage: 'uniform' or 'entropy'. By entropy
            is biased, see `by_token_entropy`. 'values' needs values of tokens, which no
            critic gives.
        critic: Critic: 'features' (a network) or 'exact' (in small games); none by default. It
            gives the columns `value` and `next_value`: by a small network on `Game.features`,
            or by enumeration of the game under the policies that play (`ExactCritic`), which
            also gives `action_value`.
        critic_args: Options of the critic. They are hidden_size, learning_rate and num_steps.

    Optimization:
        weighting: Level at which the loss is averaged: 'token' or 'turn'. By token is as
            `loss_type` does. By turn averages over seats, then trajectories, then turns, then
            tokens (MARS, equation 3); it needs a `loss_type` that averages over tokens. The KL
            term is averaged as `loss_type` does.
    """

    games: list[Any] = option(["kuhn_poker"])
    opponents: Any = option("self")
    curriculum: Any = option(None)
    num_starts: int | None = option(None, least=1)
    reply_format: str = option("answer")
    history: Literal["state", "transcript"] = option("state")
    rules: bool = option(True)
    show_legal_actions: bool = option(True)
    parsing: Literal["strict", "tolerant"] = option("strict")
    on_invalid: Literal["forfeit", "retry", "random"] = option("forfeit")
    penalty: float = option(0.5)
    max_retries: int = option(2)
    part_weights: dict[str, float] = option({})
    rollout_batch_size: int | None = option(None, least=1)
    vllm_importance_sampling_mode: Any = option(None)
    episodes_per_step: int | None = option(None, least=1)
    max_tokens_per_forward: int | None = option(None, least=1)
    flat_groups: Literal["keep", "drop"] = option("keep")
    max_replays: int = option(0, least=0)
    oversample: int = option(1, least=1)
    branch: dict[str, Any] | None = option(None)
    layout: Literal["turn", "trajectory"] = option("turn")
    credit: str = option("mars")
    credit_args: dict[str, Any] = option({})
    within_turn: Literal["uniform", "entropy", "values"] = option("uniform")
    critic: Literal["features", "exact"] | None = option(None)
    critic_args: dict[str, Any] = option({})
    weighting: Literal["token", "turn"] = option("token")

    @property
    def prompt_options(self) -> dict[str, Any]:
        """Arguments of the `PromptWrapper`."""
        names = (*PROMPT_OPTIONS, "on_invalid", "penalty", "max_retries")
        return {name: getattr(self, name) for name in names}

    def check_own(self) -> None:
        check_declared(self, SelfPlay)
        if isinstance(self.games, str):
            self.games = split(self.games)
        if isinstance(self.opponents, str) and len(split(self.opponents)) > 1:
            self.opponents = split(self.opponents)
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
        for name, weight in self.part_weights.items():
            if not isinstance(weight, int | float) or not math.isfinite(weight):
                raise ValueError(f"want a number as weight of {name!r}, got {weight!r}")
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
        for name in self.branch:
            if name not in BRANCH_OPTIONS:
                hint = did_you_mean(str(name), BRANCH_OPTIONS)
                raise ValueError(f"branch has no option {name!r}; {hint}")
        if "num_candidates" not in self.branch:
            raise ValueError(f"want num_candidates in branch, got {self.branch!r}")
        return Branching(**{"seats": seats, **self.branch})

    def _check_filter(self) -> None:
        replays = self.max_replays
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
        of_trl: Any = self
        times, size = self.oversample, of_trl.num_generations or 0
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
        loss_type = getattr(self, "loss_type")  # noqa: B009 # a field of TRL
        if self.weighting == "turn" and loss_type not in PER_TOKEN_LOSSES:
            raise ValueError(
                f"weighting='turn' needs a loss that averages over all tokens, got "
                f"loss_type={loss_type!r}; set one of {PER_TOKEN_LOSSES}"
            )


class Draft(SelfPlay):
    """The options as attributes, without the values that TRL derives.

    Args:
        options: all options, given or default, by name.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.__dict__.update(options)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the draft has no option {name!r}")


@cache
def _list() -> Mapping[str, Any]:
    found: dict[str, Any] = json.loads(LIST.read_text(encoding="utf-8"))
    return found


def listed_options() -> dict[str, Option]:
    """The fields of `TurnGRPOConfig`, those of TRL from the list, without importing TRL."""
    listed = [
        Option(**{**o, "types": tuple(o["types"]), "choices": tuple(o["choices"])})
        for o in _list()["options"]
    ]
    return {one.name: one for one in listed} | options_of(SelfPlay)


def installed_versions() -> dict[str, str | None]:
    """The installed versions of TRL and transformers; None if one is missing."""
    found: dict[str, str | None] = {}
    for package in SOURCES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def is_of_installed_versions() -> bool:
    """Whether the list was made with the installed versions."""
    return dict(_list()["made_with"]) == installed_versions()
