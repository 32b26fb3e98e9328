"""Bots that find out a secret by questions and guesses."""

import math
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from arena_envs.game import AnyGame
from arena_envs.games.kits.secrets import SecretGame, State
from arena_envs.solvers.enumeration import Memory

MAX_SETS = 200_000  # sets of secrets that a search looks at before it gives up

_searches = Memory["Search"](4)


@dataclass(frozen=True)
class InformationGain:
    """Takes an action whose answer has the highest entropy, given the answers so far.

    All secrets that fit the answers are equally likely. Among equal actions it prefers guesses
    that may be right, and draws among these. With one turn left it guesses.

    Raises:
        ValueError: when it plays, the game is not one of finding out a secret.
    """

    def __call__(self, game: AnyGame, state: State, rng: random.Random) -> Any:
        rules = _checked(game)
        left = rules.candidates(state)
        guesses = [rules.guess_of(secret) for secret in left]
        if len(left) == 1 or len(state.asked) == game.max_turns - 1:
            return rng.choice(guesses)
        costs = {
            action: _uncertainty(_split(rules, left, action).values())
            for action in game.legal_actions(state)
        }
        least = min(costs.values()) + 1e-9
        best = [action for action, cost in costs.items() if cost <= least]
        return rng.choice(sorted({*best} & {*guesses}) or best)


@dataclass(frozen=True)
class QuestionTree:
    """Plays an optimal tree of questions, which it finds by a search of all sets of secrets.

    It draws among actions of the same value.

    Args:
        max_sets: limit of the search.

    Raises:
        ValueError: when it plays, the game is not one of finding out a secret, or is too
            large.
    """

    max_sets: int = MAX_SETS

    def __call__(self, game: AnyGame, state: State, rng: random.Random) -> Any:
        rules = _checked(game)
        search = _searches.recall(
            game, lambda: Search(rules, self.max_sets), self.max_sets
        )
        left = rules.candidates(state)
        return rng.choice(search.best_actions(left, game.max_turns - len(state.asked)))


class Search:
    """Exact search of the best actions, by the secrets that fit the answers.

    Args:
        game: of finding out a secret.
        max_sets: limit of the sets of secrets, with the turns that are left where these matter.
    """

    def __init__(self, game: SecretGame, max_sets: int = MAX_SETS) -> None:
        self._game, self._max_sets = game, max_sets
        self._bounds = Bounds(game)
        self._found: dict[tuple[tuple[int, ...], int], int] = {}

    def value(self) -> float:
        """Expected return of optimal play."""
        game = self._game
        most = game.max_turns
        total = self._total(tuple(range(game.num_secrets)), most)
        return total / most / game.num_secrets

    def best_actions(self, left: Sequence[int], num_turns: int) -> list[int]:
        """The best actions."""
        best, actions = self._total(tuple(left), num_turns), []
        for action in self._useful(left):
            parts = _split(self._game, left, action)
            if self._after(action, parts, num_turns, best) == best:
                actions.append(action)
        return actions

    def _total(self, left: tuple[int, ...], num_turns: int) -> int:
        """The most that secrets are worth together: each as many as turns left, with its own."""
        if num_turns == 0 or not left:
            return 0
        size = len(left)
        if size == 1:
            return num_turns
        if size == 2:
            return 2 * num_turns - 1
        turns = min(num_turns, size)  # more turns than secrets are of no use
        key = (left, turns)
        if key not in self._found:
            splits = [(a, _split(self._game, left, a)) for a in self._useful(left)]
            splits.sort(key=lambda pair: _uncertainty(pair[1].values()))
            best, most = 0, self._bounds.most(size, turns)
            for action, parts in splits:
                best = max(best, self._after(action, parts, turns, best + 1))
                if best == most:
                    break
            self._found[key] = best
            if len(self._found) > self._max_sets:
                raise ValueError(
                    f"{self._game!r} has more than {self._max_sets} sets of secrets to "
                    "search; use the bot 'information_gain', or a smaller game"
                )
        return self._found[key] + size * (num_turns - turns)

    def _after(
        self, action: int, parts: dict[int, list[int]], num_turns: int, enough: int
    ) -> int:
        """The value of an action; less than `enough` where it cannot be as much."""
        value = 0
        further_parts: list[tuple[int, ...]] = []
        for part in parts.values():
            if len(part) == 1 and self._game.guess_of(part[0]) == action:
                value += num_turns
            else:
                further_parts.append(tuple(part))
        bounds = [self._bounds.most(len(part), num_turns - 1) for part in further_parts]
        bound = value + sum(bounds)
        for secrets, most in sorted(
            zip(further_parts, bounds, strict=True), key=lambda pair: len(pair[0])
        ):
            if bound < enough:
                return bound
            bound += self._total(secrets, num_turns - 1) - most
        return bound

    def _useful(self, left: Sequence[int]) -> list[int]:
        """Actions whose answer is not known, and the guess of a secret that is."""
        game = self._game
        guesses = {game.guess_of(secret) for secret in left}
        first, others = left[0], left[1:]
        return [
            action
            for action in range(game.num_actions)
            if action in guesses
            or any(
                game.answer(secret, action) != first_answer
                for first_answer in [game.answer(first, action)]
                for secret in others
            )
        ]


class Bounds:
    """The most that secrets can be worth together if questions split them as one likes.

    Args:
        game: of finding out a secret.
    """

    def __init__(self, game: SecretGame) -> None:
        everything = range(game.num_secrets)
        guesses = {game.guess_of(secret) for secret in everything}
        # how many answers leave the episode open, by whether the action is a guess
        self._num_answers = {True: 1, False: 0}
        for action in range(game.num_actions):
            is_guess = action in guesses
            num = len(_split(game, everything, action)) - is_guess
            self._num_answers[is_guess] = max(self._num_answers[is_guess], num)
        self._found: dict[tuple[int, int], int] = {}

    def most(self, size: int, num_turns: int) -> int:
        """An upper bound: each secret is worth as many as turns are left, with its own."""
        if size == 0 or num_turns <= 0:
            return 0
        key = (size, num_turns)
        if key not in self._found:
            few = max(self._num_answers.values()) <= 2
            bound = self._of_two_answers if few else self._of_many_answers
            self._found[key] = bound(size, num_turns)
        return self._found[key]

    def _of_two_answers(self, size: int, num_turns: int) -> int:
        """The better of a guess and a question, with the best split of the other secrets."""
        if size == 1:
            return num_turns
        num_others = size - 1  # after a wrong guess: in two parts, or in one
        firsts = range(size) if self._num_answers[True] == 2 else (num_others,)
        best = num_turns + max(
            self._parts(first, num_others - first, num_turns - 1) for first in firsts
        )
        if self._num_answers[False] < 2:
            return best
        splits = range(1, size // 2 + 1)
        return max(best, *(self._parts(n, size - n, num_turns - 1) for n in splits))

    def _parts(self, first_size: int, second_size: int, num_turns: int) -> int:
        return self.most(first_size, num_turns) + self.most(second_size, num_turns)

    def _of_many_answers(self, size: int, num_turns: int) -> int:
        """Every action is a guess: turn t finds a secret after each series of t - 1 answers."""
        total, series = 0, 1
        while size and num_turns > 0:
            num_solved = min(series, size)
            total += num_solved * num_turns
            size, num_turns = size - num_solved, num_turns - 1
            series *= max(self._num_answers.values())
        return total


def _checked(game: AnyGame) -> SecretGame:
    if not isinstance(game, SecretGame):
        raise ValueError(
            "want a game of finding out a secret (guess_number, twenty_questions, wordle), "
            f"got {game!r}"
        )
    return game


def _split(game: SecretGame, left: Sequence[int], action: int) -> dict[int, list[int]]:
    """The secrets by their answers to an action."""
    parts = defaultdict[int, list[int]](list)
    for secret in left:
        parts[game.answer(secret, action)].append(secret)
    return parts


def _uncertainty(parts: Iterable[Sequence[int]]) -> float:
    """The entropy in bits that is left after the answer, times the number of secrets."""
    return sum(len(part) * math.log2(len(part)) for part in parts)
