"""Values of states by a small network, fitted once on games that bots play for free."""

import hashlib
import os
import random
import time
import zipfile
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_envs.bots import Bot, make_bot
from arena_envs.bots.mcts import ISMCTS, MCTS
from arena_envs.bots.simple import Uniform
from arena_envs.game import (
    CHANCE,
    TERMINAL,
    AnyGame,
    AnyState,
    sample_chance,
)
from arena_envs.transforms import stage_of
from arena_wrappers import Policy
from arena_wrappers.play import bot_of
from arena_wrappers.play.seats import NoisyBot
from arena_wrappers.records import replacing

Array = NDArray[np.float32]

FORMAT = 4  # of the cache; another number fits anew
NUM_STATES = 160_000  # of all games that are played
MAX_NUMBERS = 40_000_000  # of the features of all these states: 160 MB
MAX_ACTIONS = 240_000  # of these games, so that long ones take no minutes
MAX_GAMES = 32_000
STATES_PER_GAME = 6
NOISE = 0.3  # of the bots, so that they reach what other policies reach
HIDDEN = 64
NUM_STEPS = 3000  # of a fit, of whole epochs
MAX_EPOCHS = 30
NUM_LEARNED_STEPS = 1000  # of the fit that the seat's free bot learns by
MAX_LEARNED = 200  # actions of a game where it learns
AVERAGED = 0.998  # share of the earlier steps in the average of weights
BATCH = 256
ONE_THREAD = 200_000  # multiplications of a product; OpenBLAS starts threads for more
RATE, DECAY = 4e-3, 1e-2
HELD_OUT = 5  # every fifth game


Choose = Callable[[AnyGame, Any, random.Random], Any]  # an action of the seat to move


class Decision(NamedTuple):
    """A decision of the seat in a free game.

    Attributes:
        state: before it.
        action: that was chosen.
        result: the seat's return at the end.
        number: of the game.
    """

    state: Any
    action: Any
    result: float
    number: int


class NetValues:
    """A network of two hidden layers over what all seats know.

    Args:
        game: the rules.
        weights: matrices and offsets of the three layers, in order.
        mean: added to the output.
        scale: multiplies the output.
        seconds: CPU time of play and fit.
    """

    num_alternatives = None

    def __init__(
        self,
        game: AnyGame,
        weights: Sequence[Array],
        mean: float,
        scale: float,
        seconds: float,
    ) -> None:
        self._game, self._weights = game, weights
        self._mean, self._scale, self.seconds = mean, scale, seconds

    def __call__(self, states: Sequence[Any]) -> NDArray[np.float64]:
        if not states:
            return np.zeros(0)
        features = np.stack([state_features(self._game, state) for state in states])
        output = _activations(self._weights, features)[-1][:, 0]
        return output.astype(np.float64) * self._scale + self._mean


def bot_values(
    game: AnyGame, seat: int, opponent: Policy | None, *, max_games: int = MAX_GAMES
) -> NetValues:
    """Values of the seat by a network, from the cache or fitted anew.

    Bots play up to `max_games` games with 30 % random actions: the opponent where it is a bot
    without search, else the game's heuristic, else random play; the seat as the opponent does. Against
    random play, and alone, it learns from the first half of these games for the second.
    Cached in `$ARENA_CACHE/values`, by default `~/.cache/arena/values`.

    Args:
        game: the rules.
        seat: whose returns.
        opponent: the policy in the other seats; None if it is the seat's own.
        max_games: games that are played.
    """
    if max_games < HELD_OUT:
        raise ValueError(f"want max_games of at least {HELD_OUT}, got {max_games}")
    path = _cache_path(game, seat, opponent, max_games)
    if (cached := _read(path, game)) is not None:
        return cached
    start = time.process_time()
    features, returns, numbers = _free_games(game, seat, opponent, max_games)
    mean, scale = float(returns.mean()), float(returns.std()) or 1.0
    weights = _fit(features, (returns - mean) / scale, numbers % HELD_OUT == 0)
    seconds = time.process_time() - start
    _write(path, weights, mean, scale, seconds)
    return NetValues(game, weights, mean, scale, seconds)


def state_features(game: AnyGame, state: AnyState) -> Array:
    """What every seat knows, as one vector, and who is to move."""
    player = game.current_player(state)
    mover = np.zeros(game.num_players + 1, np.float32)
    mover[player if player >= 0 else -1] = 1
    views = [game.features(state, seat) for seat in range(game.num_players)]
    return np.concatenate([mover, *views]).astype(np.float32)


def free_bots(game: AnyGame, seat: int, opponent: Policy | None) -> list[Bot]:
    """A bot for each seat, none of which searches."""
    scripted = _scripted_bot(opponent)
    bot = make_bot(game.heuristic or "random") if scripted is None else scripted
    mine: Bot = NoisyBot(bot, NOISE)
    others = mine if scripted is None else scripted
    return [mine if s == seat else others for s in range(game.num_players)]


def are_worth_fitting(game: AnyGame, opponent: Policy | None) -> bool:
    """Whether bots play the game with sense; in games of words random play gave nothing."""
    has_bot = _scripted_bot(opponent) is not None or game.heuristic is not None
    return game.num_actions is not None or has_bot


def _scripted_bot(opponent: Policy | None) -> Bot | None:
    """The bot of an opponent that plays the free games itself; None if it searches or is none."""
    bot = None if opponent is None else bot_of(opponent)
    return None if bot is None or _searches(bot) else bot


def _searches(bot: Bot) -> bool:
    while isinstance(bot, NoisyBot):
        bot = bot.inner
    return isinstance(bot, MCTS | ISMCTS)


class FreeGames:
    """Features of states of games that bots play, and what the seat gets in these games.

    Args:
        game: the rules.
        seat: whose returns.
    """

    def __init__(self, game: AnyGame, seat: int) -> None:
        self._game, self._seat = game, seat
        width = len(state_features(game, game.initial_state()))
        self._max_states = min(NUM_STATES, MAX_NUMBERS // width)
        self._features: list[Array] = []
        self._returns: list[float] = []
        self._numbers: list[int] = []  # of the games
        self._num_actions = self._num_games = 0

    def play(
        self, choose: Sequence[Choose], max_games: int, share: float = 1.0
    ) -> list[Decision]:
        """Plays until there are `max_games` games, or a share of all states and actions.

        Args:
            choose: how each seat plays.
            max_games: of all calls together.
            share: up to 1.

        Returns:
            The seat's own decisions.
        """
        decisions: list[Decision] = []
        first = self._num_games
        while self._num_games < max_games:
            number = self._num_games
            rng = random.Random(f"free game {number}")
            steps, final = _played(self._game, choose, rng)
            result = float(self._game.returns(final)[self._seat])
            states = [state for state, _ in steps[1:] or steps]
            self._num_actions += len(states)
            for state in rng.sample(states, min(STATES_PER_GAME, len(states))):
                self._features.append(state_features(self._game, state))
                self._returns.append(result)
                self._numbers.append(number)
            decisions += [
                Decision(state, action, result, number)
                for state, action in steps
                if self._game.current_player(state) == self._seat
            ]
            self._num_games += 1
            # a few games at least, on both sides of the split
            is_enough = (
                len(self._features) >= share * self._max_states
                or self._num_actions >= share * MAX_ACTIONS
            )
            if is_enough and number - first >= 2 * HELD_OUT:
                break
        return decisions

    def rows(self) -> tuple[Array, Array, NDArray[np.intp]]:
        """Features, returns and numbers of the games."""
        returns = np.array(self._returns, np.float32)
        return np.stack(self._features), returns, np.array(self._numbers)


def _free_games(
    game: AnyGame, seat: int, opponent: Policy | None, max_games: int
) -> tuple[Array, Array, NDArray[np.intp]]:
    """Features of states, the seat's return of their games, and the numbers of the games.

    A model does not play at random. So if all seats would play at random, the seat's bot learns from
    the first half of the games for the second.
    """
    games = FreeGames(game, seat)
    bots = free_bots(game, seat, opponent)
    choose: list[Choose] = [partial(_staged, bot) for bot in bots]
    if not _learns(game, seat, bots):
        games.play(choose, max_games)
        return games.rows()
    decisions = games.play(choose, max_games // 2, 0.5)
    if decisions:
        choose[seat] = LearnedChoice(game, seat, decisions)
    games.play(choose, max_games)
    return games.rows()


def _learns(game: AnyGame, seat: int, bots: Sequence[Bot]) -> bool:
    """Whether all others play at random, so that the seat's free bot does, too."""
    others = [bot for s, bot in enumerate(bots) if s != seat]
    is_random = isinstance(bots[seat].inner, Uniform)  # type: ignore[attr-defined] # noisy
    are_random = all(isinstance(bot, Uniform) for bot in others)
    return is_random and are_random and 1 < (game.num_actions or 0) <= MAX_LEARNED


class LearnedChoice:
    """The action with the highest return that a network expects; a random one in 30 % of decisions.

    Args:
        game: the rules.
        seat: that plays.
        decisions: its own in earlier games.
    """

    def __init__(self, game: AnyGame, seat: int, decisions: Sequence[Decision]) -> None:
        self._seat, self._num_actions = seat, game.num_actions or 0
        rows = [
            self._inputs(game, decision.state, [decision.action])
            for decision in decisions
        ]
        returns = np.array([decision.result for decision in decisions], np.float32)
        numbers = np.array([decision.number for decision in decisions])
        scale = float(returns.std()) or 1.0
        self._weights = _fit(
            np.concatenate(rows),
            (returns - returns.mean()) / scale,
            numbers % HELD_OUT == 0,
            NUM_LEARNED_STEPS,
        )

    def __call__(self, game: AnyGame, state: AnyState, rng: random.Random) -> Any:
        actions = game.legal_actions(state)
        if rng.random() < NOISE or len(actions) == 1:
            return rng.choice(actions)
        inputs = self._inputs(game, state, actions)
        return actions[int(_activations(self._weights, inputs)[-1][:, 0].argmax())]

    def _inputs(self, game: AnyGame, state: AnyState, actions: Sequence[int]) -> Array:
        """What the seat knows, and each action as one-hot."""
        view = np.asarray(game.features(state, self._seat), np.float32)
        choices = np.zeros((len(actions), self._num_actions), np.float32)
        choices[np.arange(len(actions)), actions] = 1
        return np.concatenate([np.tile(view, (len(actions), 1)), choices], axis=1)


def _staged(bot: Bot, game: AnyGame, state: AnyState, rng: random.Random) -> Any:
    return bot(*stage_of(game, state), rng)


def _played(
    game: AnyGame, choose: Sequence[Choose], rng: random.Random
) -> tuple[list[tuple[Any, Any]], Any]:
    """The states of a game with the actions that followed, and its last state."""
    state, steps = game.initial_state(), []
    while (player := game.current_player(state)) != TERMINAL:
        if player == CHANCE:
            action = sample_chance(game, state, rng)
        else:
            action = choose[player](game, state, rng)
        steps.append((state, action))
        state = game.apply(state, action)
    return steps, state


def _fit(
    features: Array,
    targets: Array,
    held_out: NDArray[np.bool_],
    num_steps: int = NUM_STEPS,
) -> list[Array]:
    """Weights with the least squared error on the held-out games.

    Adam with weight decay and a rate that falls to 0. The weights are a moving average over steps,
    which takes out the noise of returns, and are compared at the end of each epoch.
    """
    rng = np.random.default_rng(0)
    sizes = [features.shape[1], HIDDEN, HIDDEN, 1]
    weights: list[Array] = []
    for num_inputs, num_outputs in pairwise(sizes):
        scale = np.sqrt(2 / num_inputs)
        matrix = rng.normal(0, scale, (num_inputs, num_outputs)).astype(np.float32)
        weights += [matrix, np.zeros(num_outputs, np.float32)]
    means, squares = ([np.zeros_like(w) for w in weights] for _ in range(2))
    averages, best, least, step = list(weights), weights, np.inf, 0
    rows = np.flatnonzero(~held_out)
    num_batches = max(1, len(rows) // BATCH)
    num_epochs = min(MAX_EPOCHS, -(-num_steps // num_batches))
    for _ in range(num_epochs):
        order = rng.permutation(rows)
        for start in range(0, num_batches * BATCH, BATCH):
            batch, step = order[start : start + BATCH], step + 1
            rate = RATE * (1 - step / (num_epochs * num_batches))
            share = max(1 - AVERAGED, 10 / (step + 10))  # few steps: of all so far
            gradients = _gradients(weights, features[batch], targets[batch])
            for index, gradient in enumerate(gradients):
                means[index] += 0.1 * (gradient - means[index])
                squares[index] += 0.001 * (gradient**2 - squares[index])
                mean = means[index] / (1 - 0.9**step)
                square = squares[index] / (1 - 0.999**step)
                change = mean / (np.sqrt(square) + 1e-8) + DECAY * weights[index]
                weights[index] = (weights[index] - rate * change).astype(np.float32)
                moved = averages[index] + share * (weights[index] - averages[index])
                averages[index] = moved.astype(np.float32)
        output = _activations(averages, features[held_out])[-1][:, 0]
        error = float(np.mean((output - targets[held_out]) ** 2))
        if error < least:
            best, least = list(averages), error
    return best


def _activations(weights: Sequence[Array], features: Array) -> list[Array]:
    """Inputs, both hidden layers (ReLU) and the output."""
    layers = [features]
    for index in range(0, len(weights), 2):
        output = _product(layers[-1], weights[index]) + weights[index + 1]
        is_last = index == len(weights) - 2
        layers.append(output if is_last else np.maximum(output, 0))
    return layers


def _gradients(
    weights: Sequence[Array], features: Array, targets: Array
) -> list[Array]:
    """Gradients of half the mean squared error."""
    layers = _activations(weights, features)
    delta: Array = (layers[-1] - targets[:, None]) / np.float32(len(targets))
    gradients: list[Array] = []
    for index in range(len(weights) - 2, -1, -2):
        inputs = layers[index // 2]
        num = _part(inputs, delta.shape[1])
        parts = inputs.reshape(-1, num, inputs.shape[1]).transpose(0, 2, 1)
        gradient = (parts @ delta.reshape(-1, num, delta.shape[1])).sum(axis=0)
        gradients = [gradient, np.asarray(delta.sum(axis=0)), *gradients]
        delta = np.where(inputs > 0, _product(delta, weights[index].T), np.float32(0))
    return gradients


def _product(rows: Array, matrix: Array) -> Array:
    """Multiplies, a batch in parts, as threads of BLAS cost many times the product."""
    num = _part(rows, matrix.shape[1])
    parts = rows.reshape(-1, num, rows.shape[1]) @ matrix
    return parts.reshape(len(rows), -1)


def _part(rows: Array, num_columns: int) -> int:
    """The rows of a product that BLAS computes in one thread; all, unless they are a batch."""
    num = len(rows)
    while (
        len(rows) == BATCH
        and num > 1
        and num * rows.shape[1] * num_columns > ONE_THREAD
    ):
        num //= 2
    return num


def _cache_path(
    game: AnyGame, seat: int, opponent: Policy | None, max_games: int
) -> Path:
    folder = os.environ.get("ARENA_CACHE")
    users = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    # opponents that do not play the free games share what was fitted
    name = ""
    if opponent is not None and _scripted_bot(opponent) is not None:
        name = opponent.name
    key = repr((FORMAT, type(game), game, seat, name, max_games))
    digest = hashlib.blake2b(key.encode(), digest_size=12).hexdigest()
    return (Path(folder) if folder else users / "arena") / "values" / f"{digest}.npz"


def _read(path: Path, game: AnyGame) -> NetValues | None:
    """The values of a file; None without one, or with one that cannot be read."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            weights = [arrays[f"weights_{i}"] for i in range(6)]
            mean, scale, seconds = (float(x) for x in arrays["numbers"])
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    return NetValues(game, weights, mean, scale, seconds)


def _write(
    path: Path, weights: Sequence[Array], mean: float, scale: float, seconds: float
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, Any] = {f"weights_{i}": w for i, w in enumerate(weights)}
    with replacing(path) as part, open(part, "wb") as file:
        np.savez(file, numbers=np.array([mean, scale, seconds]), **arrays)
