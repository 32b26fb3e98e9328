"""Corrections of luck of recorded episodes, by the best values that a game has."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from arena_envs.game import (
    AnyGame,
    AnyState,
    bounds_of,
)
from arena_eval.baselines import is_small
from arena_eval.confidence_sequences import PLANNED, IntervalMethods
from arena_eval.exploit import SHORT, reads_no_prompt
from arena_eval.fitted_values import are_worth_fitting
from arena_eval.imaginary import (
    CompatibleHistory,
    alike_histories,
    sampled_histories,
    unseen_corrections,
)
from arena_eval.luck import (
    LUCK_KINDS,
    MIN_FITTED,
    Adjusted,
    Behavior,
    BehaviorOf,
    SampledAlternatives,
    adjusted_mean,
    adjusted_returns,
    adjusted_to,
    corrections_of,
    draws_of,
)
from arena_eval.result_rows import ResultRow
from arena_eval.values import StateValues, read_values, values
from arena_wrappers import (
    Episode,
    Policy,
    PromptWrapper,
    TurnRequest,
    without_lost,
)
from arena_wrappers.play import bot_of, recorded_steps

Floats = NDArray[np.float64]
EXACT_VALUES, FITTED_VALUES, CHECK_DOWN = "solver", "bots", "check_down"


class LuckCorrections:
    """Corrections of recorded episodes of one policy against one opponent.

    Args:
        wrapper: the environment with its prompts.
        policy: the evaluated one.
        opponent: in the other seats; "self" for the same policy.
        values_name: of `arena_eval.values`; None chooses exact values in small games, those of
            checking down where a game has them, else, from `MIN_FITTED` episodes of a policy
            that is no free bot, fitted ones.
        knows_seats: whether the policy has the seat whose luck is asked for, and the opponent all
            others. Else their probabilities are not used, and the luck of deals alone is taken out.
    """

    def __init__(
        self,
        wrapper: PromptWrapper,
        policy: Policy,
        opponent: Policy | Literal["self"],
        values_name: str | None = None,
        *,
        knows_seats: bool = True,
    ) -> None:
        self._wrapper, self._game = wrapper, wrapper.env.game
        self._knows_seats = knows_seats
        self._policy = policy
        self._opponent = policy if opponent == "self" else opponent
        self._other = None if opponent == "self" else opponent
        self.name = values_name
        self._values: dict[int, StateValues] = {}
        self._sums: dict[int, dict[int, Floats]] = {}  # by seat and seed
        self._behaviors: dict[tuple[int, Any], Behavior | None] = {}

    @property
    def seconds(self) -> float:
        """CPU time that fitting took, of all seats together."""
        return sum(values.seconds for values in self._values.values())

    def by_seed(self, seat: int, episodes: Sequence[Episode]) -> dict[int, Floats]:
        """The corrections of a seat in each episode, by its seed; empty without values.

        Episodes that an earlier call had are not corrected again.
        """
        self.name = self.name or self._chosen_values(len(episodes))
        if self.name is None:
            return {}
        sums = self._sums.setdefault(seat, {})
        new = [episode for episode in episodes if episode.seed not in sums]
        for episode, row in zip(new, self._rows(seat, new), strict=True):
            sums[episode.seed] = row
        return {episode.seed: sums[episode.seed] for episode in episodes}

    def rows(self, seat: int, episodes: Sequence[Episode], num_episodes: int) -> Floats:
        """float[episodes, kinds], the corrections of a seat; zeros without values.

        Seeds may repeat, and nothing is kept for later calls.

        Args:
            seat: whose returns are corrected.
            episodes: of this process.
            num_episodes: of all processes, which decides on values.
        """
        self.name = self.name or self._chosen_values(num_episodes)
        if self.name is None or not episodes:
            return np.zeros((len(episodes), len(LUCK_KINDS)))
        return self._rows(seat, episodes)

    def _rows(self, seat: int, episodes: Sequence[Episode]) -> Floats:
        """float[episodes, kinds]."""

        def behavior_of(player: int, state: Any) -> Behavior | None:
            policy = self._policy if player == seat else self._opponent
            return self._behavior(policy, player, state)

        rows = np.zeros((len(episodes), len(LUCK_KINDS)))
        for row, episode in zip(rows, episodes, strict=True):
            steps = self._steps(episode)
            if seat not in self._values:
                if not draws_of(self._game, steps, seat, behavior_of):
                    continue  # values are not fitted where nothing is drawn
                self._values[seat] = values.make(
                    str(self.name), game=self._game, seat=seat, opponent=self._other
                )
            row[:] = self._corrections(
                seat, episode, steps, behavior_of, self._values[seat]
            )
        return rows

    def _steps(self, episode: Episode) -> list[tuple[Any, Any]]:
        is_decided = self._wrapper.on_invalid == "forfeit"
        return (steps_of if is_decided else played_steps)(self._game, episode)

    def _corrections(
        self,
        seat: int,
        episode: Episode,
        steps: Sequence[tuple[Any, Any]],
        behavior_of: BehaviorOf,
        values_of: StateValues,
    ) -> Floats:
        """float[kinds], of one episode."""
        game = self._game
        rng = random.Random(f"luck {episode.seed} {episode.sample} {seat}")
        alternatives = None
        if values_of.num_alternatives is not None:
            alternatives = SampledAlternatives(rng, values_of.num_alternatives)
        alike: Sequence[CompatibleHistory] = ()
        # after "retry" a seat may forfeit, which no step says
        has_all_turns = self._wrapper.on_invalid in ("forfeit", "random")
        if self._wrapper.env.max_turns is None and has_all_turns:
            alike = alike_histories(
                game, steps, seat, behavior_of
            ) or sampled_histories(game, steps, seat, behavior_of, rng)
        draws = [
            draws_of(game, each, seat, behavior_of, alternatives)
            for each in [history.steps for history in alike] or [steps]
        ]
        sums = corrections_of(draws, values_of)
        return (
            unseen_corrections(alike, sums, episode.returns[seat]) if alike else sums[0]
        )

    def _chosen_values(self, num_episodes: int) -> str | None:
        if is_small(self._game):
            return EXACT_VALUES
        if hasattr(self._game, "check_down"):
            return CHECK_DOWN
        if num_episodes < MIN_FITTED or bot_of(self._policy) is not None:
            return None
        return FITTED_VALUES if are_worth_fitting(self._game, self._other) else None

    def _behavior(
        self, policy: Policy, player: int, state: AnyState
    ) -> Behavior | None:
        """Probabilities of a bot or an array; None of other policies and in language games."""
        if self._game.num_actions is None or not reads_no_prompt(policy):
            return None
        if not self._knows_seats:
            return None
        key = id(policy), (player, self._game.information_state(state, player))
        if key not in self._behaviors:
            scoring: Any = policy
            request = TurnRequest.at(self._game, state, SHORT)
            ((shares, invalid),) = scoring.action_probs([request])
            # elsewhere an invalid reply is asked again or becomes another action
            is_known = invalid == 0 or self._wrapper.on_invalid == "forfeit"
            self._behaviors[key] = (shares, invalid) if is_known else None
        return self._behaviors[key]


def played_steps(game: AnyGame, episode: Episode) -> list[tuple[Any, Any]]:
    """Each state of an episode with the action that followed."""
    steps = recorded_steps(game, episode.actions)
    return [(state, action) for state, action in steps if action is not None]


def steps_of(game: AnyGame, episode: Episode) -> list[tuple[Any, Any]]:
    """Each state of an episode with the action that followed; None for an invalid reply.

    Of episodes where an invalid reply is the decision of a turn (`on_invalid="forfeit"`).
    """
    turns = iter(episode.turns)
    steps = []
    for state, action in recorded_steps(game, episode.actions):
        if game.current_player(state) >= 0:
            turn = next(turns, None)
            if turn is None:  # a limit of turns ended the episode
                break
            steps.append((state, None if turn.invalid is not None else action))
        elif action is not None:
            steps.append((state, action))
    return steps


Pairing = tuple[str, str]  # role of the evaluated policy, name of its opponent


class LuckByLineup:
    """The luck of all lineups of an evaluation.

    Args:
        wrapper: the environment with its prompts.
        values_name: of `arena_eval.values`, "auto", or None to take no luck out.
        methods: of the intervals.
    """

    def __init__(
        self,
        wrapper: PromptWrapper,
        values_name: str | None,
        methods: IntervalMethods = PLANNED,
    ) -> None:
        if values_name not in (None, "auto"):
            read_values(values_name, wrapper.env.game)
        self._wrapper, self._values_name = wrapper, values_name
        self._methods = methods
        self.clear()

    def clear(self) -> None:
        """Forgets all lineups."""
        self._corrections: dict[Pairing, dict[int, Floats]] = {}
        self._luck: dict[Pairing, LuckCorrections] = {}

    def rows(
        self,
        role: str,
        policy: Policy,
        opponent: Policy | Literal["self"],
        episodes: Mapping[int, Sequence[Episode]],
        rows: Sequence[ResultRow],
    ) -> list[ResultRow]:
        """The rows of a lineup with the luck taken out, where that helps.

        Args:
            role: of the policy.
            policy: the evaluated one.
            opponent: in the other seats.
            episodes: by seat of the policy, in order of seeds.
            rows: of each seat, and of all.
        """
        if self._values_name is None:
            return [*rows]
        name = opponent if isinstance(opponent, str) else opponent.name
        if (role, name) not in self._luck:
            values_name = None if self._values_name == "auto" else self._values_name
            self._luck[role, name] = LuckCorrections(
                self._wrapper, policy, opponent, values_name
            )
        luck = self._luck[role, name]
        by_seat = {
            seat: luck.by_seed(seat, without_lost(played))
            for seat, played in episodes.items()
        }
        seeds = [seed for seed in by_seat[min(by_seat)] if _is_in_all(seed, by_seat)]
        self._corrections[role, name] = {
            seed: np.mean([rows[seed] for rows in by_seat.values()], axis=0)
            for seed in seeds
        }
        return [self._row(row, luck, episodes, by_seat) for row in rows]

    def _row(
        self,
        row: ResultRow,
        luck: LuckCorrections,
        episodes: Mapping[int, Sequence[Episode]],
        by_seat: Mapping[int, Mapping[int, Floats]],
    ) -> ResultRow:
        seats = [*by_seat] if row.seat == "all" else [row.seat]
        chosen = {seat: by_seat[seat] for seat in seats}
        returns = {
            seat: {e.seed: e.returns[seat] for e in without_lost(episodes[seat])}
            for seat in seats
        }
        seeds = [seed for seed in chosen[seats[0]] if _is_in_all(seed, chosen)]
        if not seeds:
            return row
        adjusted = adjusted_mean(
            np.array([[returns[s][seed] for s in seats] for seed in seeds]).mean(
                axis=1
            ),
            np.array([[chosen[s][seed] for s in seats] for seed in seeds]).mean(axis=1),
            bounds_of(self._wrapper.env.game),
            str(luck.name),
            luck.seconds,
            self._methods,
        )
        return replace(row, adjusted=adjusted)

    def difference(
        self,
        lineups: Sequence[Pairing],
        means: Mapping[int, float],
        base_means: Mapping[int, float],
        bound: float,
    ) -> Adjusted | None:
        """The paired difference of two lineups with the luck taken out; None if it does not help.

        Args:
            lineups: the first, and the one that is subtracted.
            means: of the first over its seats, by seed.
            base_means: of the other.
            bound: largest possible difference.
        """
        gaps: list[Floats] = []
        corrected: list[Floats] = []
        for lineup, returns in zip(lineups, (means, base_means), strict=True):
            corrections = self._corrections.get(lineup)
            if not corrections:
                return None
            seeds = sorted(means.keys() & base_means.keys())
            if any(seed not in corrections for seed in seeds):
                return None
            values_of_seeds = np.array([returns[seed] for seed in seeds])
            rows = np.array([corrections[seed] for seed in seeds])
            gaps.append(values_of_seeds)
            corrected.append(adjusted_returns(values_of_seeds, rows))
        luck = [self._luck[lineup] for lineup in lineups]
        return adjusted_to(
            gaps[0] - gaps[1],
            corrected[0] - corrected[1],
            (-bound, bound),
            str(luck[0].name),
            sum(correction.seconds for correction in luck),
            self._methods,
        )


def _is_in_all(seed: int, by_seat: Mapping[int, Mapping[int, Floats]]) -> bool:
    return all(seed in rows for rows in by_seat.values())


class LuckByPair:
    """The luck of the pairs of a tournament in one game.

    Args:
        wrapper: the environment with its prompts.
        policies: by name.
        values_name: of `arena_eval.values`, or "auto".
    """

    def __init__(
        self, wrapper: PromptWrapper, policies: Mapping[str, Policy], values_name: str
    ) -> None:
        if values_name != "auto":
            read_values(values_name, wrapper.env.game)
        self._wrapper, self._policies = wrapper, policies
        self._values_name = None if values_name == "auto" else values_name
        self._luck: dict[tuple[str, str], LuckCorrections] = {}

    def corrections(
        self, row: str, column: str, episodes: Mapping[int, Sequence[Episode]]
    ) -> Floats | None:
        """float[seeds, kinds], mean over the seats of the row's policy; None without values.

        Args:
            row: name of the evaluated policy.
            column: of the policy in all other seats.
            episodes: by seat of the row's policy, in the order of the same seeds.
        """
        luck = self.of(row, column)
        parts = []
        for seat, played in episodes.items():
            by_seed = luck.by_seed(seat, played)
            if not by_seed:
                return None
            parts.append([by_seed[episode.seed] for episode in played])
        return np.asarray(np.mean(parts, axis=0))

    def of(self, row: str, column: str) -> LuckCorrections:
        """The corrections of a pair."""
        if (row, column) not in self._luck:
            self._luck[row, column] = LuckCorrections(
                self._wrapper,
                self._policies[row],
                self._policies[column],
                self._values_name,
            )
        return self._luck[row, column]
