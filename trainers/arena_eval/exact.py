"""Exact returns and results of policies with known action probabilities, by enumeration."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, cast

from arena_envs.game import (
    CHANCE,
    TERMINAL,
    AnyGame,
    AnyState,
    penalized,
    possible_outcomes,
)
from arena_envs.solvers import InfosetKey, information_states
from arena_eval.baselines import MAX_SOLVED_STATES, is_small
from arena_eval.exploit import (
    MAX_INFORMATION_STATES,
    SHORT,
    Scores,
    given_prompts,
    is_tabular,
    reads_no_prompt,
    tabular,
)
from arena_eval.result_rows import (
    SEAT_RESULTS,
    ResultRow,
    SeatResult,
    scored_on,
    seat_result,
)
from arena_wrappers import Policy, PromptOptions, PromptWrapper, ScoringPolicy
from arena_wrappers.policies import without_noise

MAX_UNREAD = 0.01  # of a model's replies; see `ExactEvaluation.outcomes`

SeatOrAll = int | Literal["all"]
Returns = tuple[float, ...]


class Behavior(NamedTuple):
    """What a policy does in an information set.

    Attributes:
        probabilities: of the legal actions; they sum to 1.
        invalid: probability that the reply is invalid and no action is played.
    """

    probabilities: Sequence[float]
    invalid: float


class Ending(NamedTuple):
    """How an episode ended.

    Attributes:
        returns: of each seat.
        forfeited_by: the seat that forfeited; None if none did.
        is_valid: whether all replies were valid.
    """

    returns: Returns
    forfeited_by: int | None
    is_valid: bool


class ExactOutcome(NamedTuple):
    """Expected figures of a seat, or their means over seats.

    Attributes:
        mean_return: expected return.
        shares: probabilities of win, draw and loss.
        invalid_mass: probability that an episode has an invalid reply.
    """

    mean_return: float
    shares: Mapping[SeatResult, float]
    invalid_mass: float


def law_of_endings(
    game: AnyGame, behaviors: Sequence[Mapping[InfosetKey, Behavior]]
) -> dict[Ending, float]:
    """The probability of each ending, where invalid replies forfeit.

    In games of three or more seats an invalid reply plays `Game.default_action`, and returns
    are `penalized`, as in `GameEnv.forfeit`.

    Args:
        game: the rules.
        behaviors: what each seat does, by its information sets.
    """
    num_players = game.num_players
    law: dict[Ending, float] = {}
    # states after the same number of actions, with the number of bad replies of each seat
    layer = {(game.initial_state(), (0,) * num_players): 1.0}
    while layer:
        next_layer: dict[tuple[Hashable, tuple[int, ...]], float] = {}

        def go_on(
            state: AnyState,
            num_bad: tuple[int, ...],
            probability: float,
            following: dict[tuple[Hashable, tuple[int, ...]], float] = next_layer,
        ) -> None:
            if probability > 0:
                place = state, num_bad
                following[place] = following.get(place, 0.0) + probability

        for (state, num_bad), reach in layer.items():
            player = game.current_player(state)
            if player == TERMINAL:
                returns = tuple(game.returns(state))
                if any(num_bad):
                    returns = penalized(game, returns, num_bad)
                ending = Ending(returns, None, not any(num_bad))
                law[ending] = law.get(ending, 0.0) + reach
                continue
            if player == CHANCE:
                for outcome, probability in possible_outcomes(game, state):
                    go_on(game.apply(state, outcome), num_bad, reach * probability)
                continue
            row = behaviors[player][player, game.information_state(state, player)]
            actions = game.legal_actions(state)
            valid = reach * (1 - row.invalid)
            for action, probability in zip(actions, row.probabilities, strict=True):
                if valid * probability > 0:
                    go_on(game.apply(state, action), num_bad, valid * probability)
            if row.invalid > 0 and num_players > 2:
                bad = tuple(n + (seat == player) for seat, n in enumerate(num_bad))
                default = game.apply(state, game.default_action(state))
                go_on(default, bad, reach * row.invalid)
            elif row.invalid > 0:
                returns = tuple(game.forfeit(state, player))
                ending = Ending(returns, player, False)
                law[ending] = law.get(ending, 0.0) + reach * row.invalid
        layer = next_layer
    return law


def expected_outcome(
    game: AnyGame, seat: int, law: Mapping[Ending, float]
) -> ExactOutcome:
    """The expected figures of a seat under a law of endings."""
    mean = sum(p * ending.returns[seat] for ending, p in law.items())
    shares: dict[SeatResult, float] = dict.fromkeys(SEAT_RESULTS, 0.0)
    for ending, p in law.items():
        shares[seat_result(game, seat, ending.returns, ending.forfeited_by)] += p
    invalid_mass = sum(p for ending, p in law.items() if not ending.is_valid)
    return ExactOutcome(mean, shares, invalid_mass)


def mean_outcome(outcomes: Sequence[ExactOutcome]) -> ExactOutcome:
    """The mean over seats."""
    num = len(outcomes)
    shares: dict[SeatResult, float] = {
        result: sum(outcome.shares[result] for outcome in outcomes) / num
        for result in outcomes[0].shares
    }
    return ExactOutcome(
        sum(outcome.mean_return for outcome in outcomes) / num,
        shares,
        sum(outcome.invalid_mass for outcome in outcomes) / num,
    )


def exact_row(row: ResultRow, outcome: ExactOutcome) -> ResultRow:
    """The row of played episodes with exact figures where there are some.

    Its interval is the exact mean. Invalid replies, turns, tokens and measures stay as played.
    """
    mean, shares = outcome.mean_return, outcome.shares
    if row.wins is not None:
        row = replace(
            row, wins=shares["win"], draws=shares["draw"], losses=shares["loss"]
        )
    exact = replace(
        row,
        mean_return=mean,
        low=mean,
        high=mean,
        is_exact=True,
        invalid_mass=outcome.invalid_mass,
    )
    return exact if row.scale is None else scored_on(exact, row.scale)


class ExactEvaluation:
    """Exact outcomes of lineups in one game, where they can be computed.

    Args:
        wrapper: the environment with its prompts.
        seats: of the evaluated policy.
        prompt: options that override those of policies.
    """

    def __init__(
        self,
        wrapper: PromptWrapper,
        seats: Sequence[int],
        prompt: Mapping[str, object],
    ) -> None:
        self._wrapper, self._seats, self._prompt = wrapper, seats, prompt
        self._game = wrapper.env.game
        self._behaviors: dict[
            tuple[int, int | None], Mapping[InfosetKey, Behavior]
        ] = {}
        self._policies: list[Policy] = []  # keeps the ids in `_behaviors` unique

    def note(self, policy: Policy, scores: Scores) -> None:
        """Takes what a policy does from its scores of all seats, so that it is not asked."""
        table, illegal = scores
        for seat in range(self._game.num_players):
            self._behaviors[id(policy), seat] = {
                key: Behavior(row, mass)
                for (key, row), mass in zip(table.items(), illegal, strict=True)
                if key[0] == seat
            }
        self._policies.append(policy)

    def outcomes(
        self, policy: Policy, opponent: Policy | Literal["self"]
    ) -> dict[SeatOrAll, ExactOutcome] | None:
        """The outcome of each seat and of all; None where there is no exact one.

        There is one if the game can be enumerated and both policies report probabilities. A
        model's illegal mass is an upper bound of its invalid replies: other spellings may be
        read. With more than `MAX_UNREAD` in an episode there is none.
        """
        players = [policy] if opponent == "self" else [policy, opponent]
        if self._game.num_players == 1:
            players = [policy]
        if not self.is_enumerable or not all(map(self._is_known, players)):
            return None
        outcomes: dict[SeatOrAll, ExactOutcome] = {}
        law: dict[Ending, float] = {}
        for seat in self._seats:
            lineup = [
                policy if s == seat or opponent == "self" else opponent
                for s in range(self._game.num_players)
            ]
            if not law or opponent != "self":
                behaviors = [self._behavior(p, s) for s, p in enumerate(lineup)]
                law = law_of_endings(self._game, behaviors)
            outcomes[seat] = expected_outcome(self._game, seat, law)
        outcomes["all"] = mean_outcome([*outcomes.values()])
        are_known = all(map(reads_no_prompt, players))
        if outcomes["all"].invalid_mass > MAX_UNREAD and not are_known:
            return None
        return outcomes

    @property
    def is_enumerable(self) -> bool:
        """Whether all endings of the game can be listed."""
        env = self._wrapper.env
        is_limited = env.max_turns is not None and env.max_turns < self._game.max_turns
        return not is_limited and is_small(self._game)

    def _is_known(self, policy: Policy) -> bool:
        """Whether the policy's probabilities are those with which it plays here."""
        if is_tabular(policy):
            return True
        if not hasattr(policy, "action_probs") or self._wrapper.on_invalid != "forfeit":
            return False
        if not getattr(without_noise(policy), "draws_as_scored", True):
            return False
        if reads_no_prompt(policy):
            return True
        if "seats" in self._prompt:
            # options of the evaluation replace the policy's in these seats
            return False
        states = information_states(self._game, MAX_SOLVED_STATES)
        return len(states) <= MAX_INFORMATION_STATES and all(
            self._options(policy, seat).is_of_state
            for seat in range(self._game.num_players)
        )

    def _options(self, policy: Policy, seat: int) -> PromptOptions:
        (options,) = given_prompts([policy], self._prompt)
        return options or self._wrapper.options_of(seat)

    def _behavior(self, policy: Policy, seat: int) -> Mapping[InfosetKey, Behavior]:
        """What the policy does in the information sets of a seat, asked once."""
        is_seat_alike = reads_no_prompt(policy)
        key = id(policy), None if is_seat_alike else seat
        if key not in self._behaviors:
            options = SHORT if is_seat_alike else self._options(policy, seat)
            scoring = cast(ScoringPolicy, policy)
            seats = None if is_seat_alike else [seat]
            table, illegal = tabular(scoring, self._game, options, seats)
            self._behaviors[key] = {
                infoset: Behavior(row, mass)
                for (infoset, row), mass in zip(table.items(), illegal, strict=True)
            }
            self._policies.append(policy)
        return self._behaviors[key]
