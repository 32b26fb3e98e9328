"""Imaginary observations: the histories in which a seat sees and does what it did in an episode.

The evaluated seat's own probabilities are the same in all of them, so where those of chance and of
the opponents are known, their weights are, too. A return and its corrections are averaged over
these histories. What this takes from the return has mean 0: the kind "unseen" of `arena_eval.luck`.

`alike_histories` enumerates them. Where they are too many, `sampled_histories` draws some of
them, with importance weights. The average over these and the episode itself is unbiased for any
number of draws: the episode follows the target distribution, as the current state does in iterated
sampling importance resampling (Andrieu, Lee and Vihola 2018, https://arxiv.org/abs/1312.6432).
"""

import random
from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, cast

import numpy as np

from arena_envs.game import (
    CHANCE,
    TERMINAL,
    AnyGame,
    AnyState,
    possible_actions,
    possible_outcomes,
    random_states,
)
from arena_eval.luck import LUCK_KINDS, BehaviorOf, Floats

MAX_NODES = 2000  # states that are visited for the histories of an episode
MAX_ALIKE = 200  # such histories
NUM_SAMPLED = 15  # draws where there are more
# Outcomes and actions of a whole game; histories of games with more are not drawn, as this takes long.
MAX_OUTCOMES = 600

Steps = Sequence[tuple[Any, Any]]  # as of `arena_eval.luck.draws_of`
Outcomes = list[tuple[Any, float]]  # of a draw, with probabilities; None forfeits


class CompatibleHistory(NamedTuple):
    """A history in which the evaluated seat sees and does what it did in an episode.

    Attributes:
        weight: by which it counts, in proportion.
        steps: as of `draws_of`.
        result: the seat's return.
    """

    weight: float
    steps: Steps
    result: float


def alike_histories(
    game: AnyGame, steps: Iterable[tuple[Any, Any]], seat: int, behavior_of: BehaviorOf
) -> list[CompatibleHistory]:
    """All histories in which the seat has the information states and actions of an episode.

    Empty if an opponent's probabilities are unknown, in games of more than two seats, and if
    there are more than `MAX_ALIKE` histories or more than `MAX_NODES` states to visit. These
    conditions are the same for all of these histories, so means stay unbiased.

    Args:
        game: the rules.
        steps: of the episode, as for `draws_of`.
        seat: the evaluated one.
        behavior_of: what a seat does in a state; of opponents alone.
    """
    if game.num_players > 2:
        return []
    turns = [
        (game.information_state(state, seat), action)
        for state, action in steps
        if game.current_player(state) == seat
    ]
    histories: list[CompatibleHistory] = []
    Place = tuple[Any, float, list[tuple[Any, Any]], int]  # of a type
    stack: list[Place] = [(game.initial_state(), 1.0, [], 0)]
    num_nodes = 0
    while stack:
        state, weight, before, num_turns = stack.pop()
        num_nodes += 1
        if num_nodes > MAX_NODES or len(histories) > MAX_ALIKE:
            return []
        player = game.current_player(state)
        if player == TERMINAL:
            if num_turns == len(turns):
                result = float(game.returns(state)[seat])
                histories.append(CompatibleHistory(weight, before, result))
            continue
        outcomes: Outcomes | None
        if player == seat:
            information = game.information_state(state, seat)
            if num_turns == len(turns) or information != turns[num_turns][0]:
                continue
            outcomes = [(turns[num_turns][1], 1.0)]
            num_turns += 1
        elif (outcomes := _outcomes(game, state, behavior_of)) is None:
            return []
        for action, share in outcomes:
            after = [*before, (state, action)]
            if share <= 0:
                continue
            if action is not None:
                following = game.apply(state, action)
                stack.append((following, weight * share, after, num_turns))
            elif num_turns == len(turns):
                result = float(game.forfeit(state, player)[seat])
                histories.append(CompatibleHistory(weight * share, after, result))
    return histories


def sampled_histories(
    game: AnyGame,
    steps: Iterable[tuple[Any, Any]],
    seat: int,
    behavior_of: BehaviorOf,
    rng: random.Random,
    num: int = NUM_SAMPLED,
) -> list[CompatibleHistory]:
    """An episode, and draws of histories that the seat cannot tell from it, with their weights.

    Up to the seat's last turn, the seat's view of each state of a history equals that in the episode.
    After it the seat has no further turn. Each outcome of chance and each action of the opponent is
    drawn among those with the same view; the weight is the product of their total probabilities. After
    the seat's last turn all outcomes are drawn. A draw without such an outcome has weight 0 and is left out.

    Empty if an opponent's probabilities are unknown, if there are not two seats, in games without
    hidden information, and in games with more than `MAX_OUTCOMES` outcomes.

    Args:
        game: the rules.
        steps: of the episode, as for `draws_of`; it ended by the rules.
        seat: the evaluated one.
        behavior_of: what a seat does in a state; of opponents alone.
        rng: independent of the episode.
        num: draws.
    """
    if game.num_players != 2 or game.information == "perfect":
        return []
    steps = [*steps]
    sampler = _HistorySampler(game, steps, seat, behavior_of, rng)
    if (
        not sampler.is_known(steps)
        or _num_outcomes(cast(Hashable, game)) > MAX_OUTCOMES
    ):
        return []
    draws = [sampler.drawn() for _ in range(num)]
    return [sampler.played(steps), *(draw for draw in draws if draw is not None)]


@lru_cache(maxsize=16)
def _num_outcomes(game: AnyGame) -> int:
    """Outcomes and legal actions along a random game, so that a game's episodes are treated alike."""
    return sum(
        len(possible_actions(game, state))
        for state, _ in random_states(game, random.Random(0))
    )


class _HistorySampler:
    """Draws histories that look to a seat as an episode does; see `sampled_histories`."""

    def __init__(
        self,
        game: AnyGame,
        steps: Steps,
        seat: int,
        behavior_of: BehaviorOf,
        rng: random.Random,
    ) -> None:
        self._game, self._seat = game, seat
        self._behavior_of, self._rng = behavior_of, rng
        turns = [
            index
            for index, (state, _) in enumerate(steps)
            if game.current_player(state) == seat
        ]
        self._actions = {index: steps[index][1] for index in turns}
        self._num_seen = turns[-1] + 1 if turns else 0  # states that have to look alike
        self._views = [self._view(state) for state, _ in steps[: self._num_seen]]

    def is_known(self, steps: Steps) -> bool:
        """Whether the probabilities of all draws of the episode are known."""
        return all(
            self._game.current_player(state) == self._seat
            or self._outcomes_of(state) is not None
            for state, _ in steps
        )

    def played(self, steps: Steps) -> CompatibleHistory:
        """The episode with its weight."""
        weight = 1.0
        for index, (state, _) in enumerate(steps[: self._num_seen]):
            if index not in self._actions:
                weight *= sum(share for _, share in self._alike(state, index + 1))
        last, action = steps[-1]
        player = self._game.current_player(last)
        returns = (
            self._game.forfeit(last, player)
            if action is None
            else self._game.returns(self._game.apply(last, action))
        )
        return CompatibleHistory(weight, steps, float(returns[self._seat]))

    def drawn(self) -> CompatibleHistory | None:
        """A history with its weight; None where no outcome looks right."""
        game, state = self._game, self._game.initial_state()
        steps: list[tuple[Any, Any]] = []
        weight = 1.0
        while (player := game.current_player(state)) != TERMINAL:
            index = len(steps)
            if index in self._actions:
                if self._view(state) != self._views[index]:
                    return None
                action = self._actions[index]
            elif player == self._seat:
                return None
            else:
                outcomes = (
                    self._alike(state, index + 1)
                    if index < self._num_seen
                    else self._outcomes_of(state)
                )
                if not outcomes:
                    return None
                actions, shares = zip(*outcomes, strict=True)
                weight *= sum(shares) if index < self._num_seen else 1.0
                action = self._rng.choices(actions, shares)[0]
            steps.append((state, action))
            if action is None:
                result = float(game.forfeit(state, player)[self._seat])
                return CompatibleHistory(weight, steps, result)
            state = game.apply(state, action)
        if len(steps) < self._num_seen:
            return None
        return CompatibleHistory(weight, steps, float(game.returns(state)[self._seat]))

    def _alike(self, state: AnyState, index: int) -> Outcomes:
        """The outcomes after which the state looks as the one with this index."""
        outcomes = self._outcomes_of(state) or []
        view = self._views[index]
        return [
            (action, share)
            for action, share in outcomes
            if action is not None
            and self._view(self._game.apply(state, action)) == view
        ]

    def _outcomes_of(self, state: AnyState) -> Outcomes | None:
        return _outcomes(self._game, state, self._behavior_of)

    def _view(self, state: AnyState) -> tuple[bool, Any]:
        """What the seat knows of a state, and whether it is to move."""
        is_to_move = self._game.current_player(state) == self._seat
        return is_to_move, self._game.information_state(state, self._seat)


def _outcomes(
    game: AnyGame, state: AnyState, behavior_of: BehaviorOf
) -> Outcomes | None:
    """What chance or an opponent may do, with probabilities above 0; None if they are unknown."""
    player = game.current_player(state)
    if player == CHANCE:
        return [*possible_outcomes(game, state)]
    if (behavior := behavior_of(player, state)) is None:
        return None
    shares, invalid = behavior
    actions = game.legal_actions(state)
    outcomes: Outcomes = [
        (action, (1 - invalid) * share)
        for action, share in zip(actions, shares, strict=True)
    ]
    outcomes.append((None, invalid))
    return [(action, share) for action, share in outcomes if share > 0]


def unseen_corrections(
    histories: Sequence[CompatibleHistory], sums: Floats, result: float
) -> Floats:
    """The corrections of an episode by its histories: float[kinds].

    Args:
        histories: of `alike_histories`.
        sums: float[histories, kinds], the corrections of each.
        result: the seat's return in the episode.
    """
    weights = np.array([history.weight for history in histories])
    weights /= weights.sum()
    corrections = weights @ sums
    mean = weights @ np.array([history.result for history in histories])
    corrections[LUCK_KINDS.index("unseen")] = result - mean
    return np.asarray(corrections)
