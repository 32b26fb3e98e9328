"""Bounds of returns, and whether an estimator's options allow for them.

This module imports neither TRL nor torch.
"""

import random
from collections.abc import Mapping, Sequence
from numbers import Real

import arena_credit as credit
from arena_credit.by_name import find_estimator
from arena_credit.needs import needs_of
from arena_envs.game import AnyGame, bounds_of, random_states
from arena_trainers.train.records import PARTS
from arena_trainers.train.settings import SelfPlay

NUM_GAMES = 100  # random games that are played to see whether seats are paid early
SLACK = 1e-9  # rounding of a sum of rewards


def return_bounds(
    game: AnyGame, args: SelfPlay, weights: Mapping[str, float]
) -> tuple[float, float]:
    """Bounds of the weighted return of a trajectory, forfeits and penalties included.

    Args:
        game: the rules.
        args: settings; `penalty`, `on_invalid` and `max_retries` set the cost of invalid
            replies.
        weights: weights of the reward parts; 1 where none is given.
    """
    bounds_by_part = part_bounds(game, args)
    weighted_bounds = [
        _scaled(bounds_by_part[part], weights.get(part, 1.0)) for part in PARTS
    ]
    return sum(low for low, _ in weighted_bounds), sum(
        high for _, high in weighted_bounds
    )


def part_bounds(game: AnyGame, args: SelfPlay) -> dict[str, tuple[float, float]]:
    """Bounds of each part of a trajectory's return, without weights.

    The game's part lies within `bounds_of` the game. These bounds are
    widened if a seat is paid before its first turn: a trajectory begins with this turn, so
    it lacks the early payment, and the seat may lose it again later.
    """
    low, high = bounds_of(game)
    limited = [s for s in args.games if isinstance(s, dict) and s.get("max_turns")]
    if limited or args.curriculum is not None:
        # an episode may be cut before any payment
        low, high = min(low, 0.0), max(high, 0.0)
    if pays_early(game):
        low, high = low - max(high, 0.0), high - min(low, 0.0)
    invalid = {
        "forfeit": 1 if game.num_players < 3 else game.max_turns,
        "retry": args.max_retries * game.max_turns + 1,
        "random": game.max_turns,
    }[args.on_invalid]
    return {"game": (low, high), "format": (-args.penalty * invalid, 0.0)}


def _scaled(ends: tuple[float, float], weight: float) -> tuple[float, float]:
    low, high = sorted(weight * end + 0.0 for end in ends)  # no -0
    return low, high


def pays_early(game: AnyGame) -> bool:
    """Whether random play finds an episode that pays a seat before its first turn."""
    rng = random.Random(0)
    for _ in range(NUM_GAMES):
        moved_seats = set[int]()
        for state, player in random_states(game, rng):
            if moved_seats.issuperset(range(game.num_players)):
                break
            returns = game.returns(state)
            if any(
                returns[seat] for seat in range(len(returns)) if seat not in moved_seats
            ):
                return True
            moved_seats.add(player)
    return False


def check_bounds(
    args: SelfPlay, games: Sequence[AnyGame], weights: Mapping[str, float]
) -> None:
    """Raises if a return can lie outside of the bounds that the estimator's options set.

    Which options these are is declared by the estimator (`return_bounds` of `needs`). A
    bound may be a number, or a mapping from parts of the reward to numbers.

    Raises:
        ValueError: names the bound and the value that it needs.
    """
    options = {**credit.default_options(args.credit), **args.credit_args}
    names = needs_of(find_estimator(args.credit)).return_bounds or ()
    for side, name in enumerate(names):
        bound_option = options[name]
        by_part = (
            bound_option if isinstance(bound_option, Mapping) else {None: bound_option}
        )
        for part, bound in by_part.items():
            if not isinstance(bound, Real):
                continue  # the estimator checks it
            bound_name = name if part is None else f"{name}[{part!r}]"
            _check_bounded_part(args, weights, bound_name, part)
            # a part of weight 0 is read without weight
            weight = weights.get(part or "", 1.0) or 1.0
            for game in games:
                possible = return_bounds(game, args, weights)
                if part is not None:
                    possible = _scaled(part_bounds(game, args)[part], weight)
                extreme = possible[side]
                beyond = float(bound) - extreme if side == 0 else extreme - float(bound)
                if beyond > SLACK:
                    raise ValueError(
                        f"want a {bound_name} of {extreme:g} or {('less', 'more')[side]}, got "
                        f"{bound!r}: {type(game).__name__} can pay {extreme:g}, with "
                        "penalties and part_weights"
                    )


def _check_bounded_part(
    args: SelfPlay, weights: Mapping[str, float], bound_name: str, part: str | None
) -> None:
    """Raises if a bound is set for a part of the reward without known bounds."""
    counted = [part] if part is not None else [p for p in weights if weights[p]]
    others = [part_name for part_name in counted if part_name not in PARTS]
    if others:
        raise ValueError(
            f"credit {args.credit!r} cannot check {bound_name}: the bounds of the reward "
            f"part {others[0]!r} are not known; leave {bound_name} out"
        )
