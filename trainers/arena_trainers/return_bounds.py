"""What a trajectory can be paid, and whether an estimator's bounds allow for it."""

import random
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

from arena_envs.game import CHANCE, TERMINAL, AnyGame
from arena_trainers.config import TurnGRPOConfig
from arena_trainers.rows import PARTS

NUM_GAMES = 100  # that are played at random to see whether seats are paid early
SLACK = 1e-9


def return_bounds(
    game: AnyGame, args: TurnGRPOConfig, weights: Mapping[str, float]
) -> tuple[float, float]:
    """Bounds of the weighted return of a trajectory, forfeits and penalties included.

    The game's part lies between `min_return` and `max_return`. A trajectory begins with its
    seat's first turn: where seats are paid before that, it may get as much less or more, and
    a seat that has been paid may lose it all.

    Args:
        game: the rules.
        args: settings; `penalty`, `on_invalid` and `max_retries` say what replies cost.
        weights: of the reward parts; 1 where none is given.
    """
    low, high = game.min_return, game.max_return
    if pays_early(game):
        low, high = low - max(high, 0.0), high - min(low, 0.0)
    invalid = {
        "forfeit": 1,
        "retry": args.max_retries * game.max_turns + 1,
        "random": game.max_turns,
    }[args.on_invalid]
    ranges = {"game": (low, high), "format": (-args.penalty * invalid, 0.0)}
    ends = [sorted(weights.get(p, 1.0) * x for x in ranges[p]) for p in PARTS]
    return sum(end[0] for end in ends), sum(end[1] for end in ends)


def pays_early(game: AnyGame) -> bool:
    """Whether a seat was paid before its first turn in some games of random play."""
    rng = random.Random(0)
    for _ in range(NUM_GAMES):
        state, moved = game.initial_state(), set[int]()
        while len(moved) < game.num_players:
            player = game.current_player(state)
            if player == TERMINAL:
                break
            paid = game.returns(state)
            if any(paid[seat] for seat in range(len(paid)) if seat not in moved):
                return True
            if player == CHANCE:
                outcomes, chances = zip(*game.chance_outcomes(state), strict=True)
                action: Any = rng.choices(outcomes, chances)[0]
            else:
                moved.add(player)
                action = rng.choice(game.legal_actions(state))
            state = game.apply(state, action)
    return False


def check_bounds(
    args: TurnGRPOConfig, games: Sequence[AnyGame], weights: Mapping[str, float]
) -> None:
    """Refuses bounds of `bnpo` that a return of these games could lie beyond.

    Raises:
        ValueError: names the bound and what it has to be.
    """
    if args.credit != "bnpo":
        return
    given = {k: args.credit_args.get(k) for k in ("min_return", "max_return")}
    others = [name for name in weights if name not in PARTS and weights[name]]
    if others and any(isinstance(bound, Real) for bound in given.values()):
        raise ValueError(
            f"bnpo takes no min_return or max_return where {others[0]!r} is paid, of which "
            "nobody knows the bounds"
        )
    for game in games:
        low, high = return_bounds(game, args, weights)
        for name, most, bound in (
            ("min_return", low, given["min_return"]),
            ("max_return", high, given["max_return"]),
        ):
            sign = 1 if name == "max_return" else -1
            if isinstance(bound, Real) and sign * (most - float(bound)) > SLACK:
                raise ValueError(
                    f"want a {name} of {most:g} or {'more' if sign > 0 else 'less'}, which "
                    f"{type(game).__name__} can pay, penalties and weights included; got "
                    f"{bound!r}"
                )
