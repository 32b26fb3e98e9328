"""`ExactCritic`: values of turns by enumeration, under the policies that play."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from accelerate.utils import broadcast_object_list

from arena_credit import TurnBatch
from arena_envs.game import AnyGame
from arena_envs.solvers import (
    InfosetKey,
    InfosetTable,
    action_values,
    information_states,
)
from arena_eval.exploit import tabular
from arena_trainers.lm.policy import LMPolicy
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.critics.exact_check import MAX_CRITIC_STATES, check_exact
from arena_trainers.train.games import GamePlan
from arena_trainers.train.records import TurnRecord
from arena_wrappers import Policy, PromptOptions
from arena_wrappers.policies import own_prompt, without_noise


class InfosetValues(NamedTuple):
    """Expected return of the seat to move: under its policy, and after each action."""

    value: float
    of_action: Mapping[Any, float]


class ExactCritic:
    """Exact values of turns, in games that can be enumerated.

    For each batch the critic asks the policies for their probabilities π in all information
    states. From these it computes Q, the expected return of the whole episode if the seat
    plays the legal action a in the information state I, and its mean V:

        Q(I, a),   V(I) = Σₐ π(a | I) Q(I, a)

    The critic computes them after a batch was played and before the model learns from it.
    So they are the values of the policies that played the batch. Nothing is fitted or saved.
    All processes use the probabilities of the first process.

    π is the policy given that its reply is the canonical text of a legal action.

    - V is a function of the information state, so a baseline made of it is unbiased.
    - Q is computed as if all replies of the episode, past and future, were canonical. If
      other replies have probability ε, the bias of Q is at most of the order of ε times the
      range of returns. `illegal_mass` is the mean ε. It is large for a model that reasons
      before it answers.

    The cost is a forward pass for each action in each information state, per batch: 24 rows
    in Kuhn poker, 2,184 in Leduc poker.

    Args:
        games: the rules, by index of the game.
        seats: for each game, the policy of each seat; each has `action_probs`.
        options: prompt options of policies without their own.
        weight: weight of the reward part `game`.

    Attributes:
        illegal_mass: probability that a reply is something else than the canonical text of
            a legal action; mean over information states, for the latest batch.
    """

    supplies = ("value", "next_value", "action_value")

    def __init__(
        self,
        games: Sequence[AnyGame],
        seats: Sequence[Sequence[Any]],
        options: PromptOptions,
        weight: float = 1.0,
    ) -> None:
        self.games, self.seats, self.options = games, seats, options
        self.weight = weight
        self.illegal_mass = 0.0

    def with_values(self, batch: TurnBatch, records: Sequence[TurnRecord]) -> TurnBatch:
        """The batch with the columns `value`, `action_value` and `next_value`.

        They are expected returns-to-go of the part `game`, times its weight: the expected
        return of the episode minus what the seat was paid before the turn. They leave out
        the penalties for invalid replies that `reward` contains, with one exception: an
        invalid reply ends the episode, so its `action_value` is its `reward`.

        At truncation, `next_value` is `action_value` - `reward`, so that r + V' = Q. It may
        differ from V in the final information state, but both have the same mean given the
        action.

        Args:
            batch: the global batch.
            records: its turns, with states and actions, in the order of its rows. An
                invalid reply is the last of its episode.
        """
        tables = {game: self._table(game) for game in sorted({r.game for r in records})}
        self.illegal_mass = float(
            np.mean([m for _, mass in tables.values() for m in mass])
        )
        worth = {
            game: _state_values(self.games[game], table)
            for game, (table, _) in tables.items()
        }
        value, action_value = np.zeros(len(records)), batch.reward.copy()
        for row, record in enumerate(records):
            here = worth[record.game][record.seat, record.state]
            value[row] = self.weight * (here.value - record.paid)
            if record.action is not None:
                total = here.of_action[record.action]
                action_value[row] = self.weight * (total - record.paid)
        cut = np.array([record.truncated for record in records])
        left = np.where(cut, action_value - batch.reward, np.nan)
        return replace(batch, value=value, action_value=action_value, next_value=left)

    def after(
        self, batch: TurnBatch, records: Sequence[TurnRecord], trains: bool
    ) -> dict[str, float]:
        return {"arena/illegal_mass": self.illegal_mass}

    def state_dict(self) -> None:
        return None

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        raise ValueError("an exact critic learns nothing, got a state")

    def _table(self, game: int) -> tuple[InfosetTable, list[float]]:
        """Action probabilities of the policies in a game, and their illegal masses."""
        table: dict[InfosetKey, Sequence[float]] = {}
        masses: list[float] = []
        policies = self.seats[game]
        for policy in {id(policy): policy for policy in policies}.values():
            own_seats = [
                seat
                for seat, seat_policy in enumerate(policies)
                if seat_policy is policy
            ]
            options = own_prompt(policy) or self.options
            rows, mass = tabular(policy, self.games[game], options, own_seats)
            table |= rows
            masses += mass
        # rounding must not make processes differ
        (shared,) = broadcast_object_list([(table, masses)])
        return shared  # type: ignore[no-any-return] # of accelerate


def _state_values(
    game: AnyGame, table: InfosetTable
) -> dict[InfosetKey, InfosetValues]:
    states = information_states(game, MAX_CRITIC_STATES)
    return {
        key: InfosetValues(
            float(np.dot(table[key], values)),
            dict(zip(game.legal_actions(states[key]), values, strict=True)),
        )
        for key, values in action_values(game, table, MAX_CRITIC_STATES).items()
    }


def check_exact_opponents(
    args: TurnGRPOConfig, plans: Sequence[GamePlan], opponents: Mapping[str, Policy]
) -> None:
    """Raises if `critic="exact"` would give values of other policies than those that play.

    Args:
        args: settings; checked only if `critic="exact"`.
        plans: the games.
        opponents: policies of the seats that do not learn, by policy string.

    Raises:
        ValueError: as `check_exact`; or an opponent without `action_probs`.
    """
    check_exact(args, plans)
    for plan in plans if args.critic == "exact" else ():
        for seat, spec in enumerate(plan.seats or ()):
            if spec != "self":
                _check_scoring(
                    opponents[spec], f"{spec!r} in seat {seat} of {plan.name}"
                )


def _check_scoring(policy: Policy, place: str) -> None:
    """Raises if a policy has no `action_probs`, or if it plays by other probabilities."""
    if not hasattr(policy, "action_probs"):
        raise ValueError(
            f"critic='exact' takes policies with action_probs, got {place}"
        )
    options = own_prompt(policy)
    if options is not None and not options.is_of_state:
        raise ValueError(
            f"critic='exact' takes history 'state' and shuffle 0, got {place} with "
            f"{options.history!r} and {options.shuffle}: its prompts hold more than the state"
        )
    inner = without_noise(policy)
    if isinstance(inner, LMPolicy) and not inner.sampling.draws_from_all:
        raise ValueError(
            "critic='exact' takes language models that sample from all tokens, got "
            f"{place} with {dict(inner.sampling.options)}"
        )
