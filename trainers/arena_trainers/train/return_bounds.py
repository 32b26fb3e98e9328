"""What a trajectory can be paid, and whether an estimator's bounds allow for it."""

import random
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING

from arena_envs.game import AnyGame
from arena_envs.sampling import random_states
from arena_trainers.train.turn_records import PARTS

if TYPE_CHECKING:
    from arena_trainers.train.config import TurnGRPOConfig

NUM_GAMES = 100  # that are played at random to see whether seats are paid early
SLACK = 1e-9


def return_bounds(
    game: AnyGame, args: "TurnGRPOConfig", weights: Mapping[str, float]
) -> tuple[float, float]:
    """Bounds of the weighted return of a trajectory, forfeits and penalties included.

    Args:
        game: the rules.
        args: settings; `penalty`, `on_invalid` and `max_retries` say what replies cost.
        weights: of the reward parts; 1 where none is given.
    """
    found = part_bounds(game, args)
    ends = [_times(found[part], weights.get(part, 1.0)) for part in PARTS]
    return sum(low for low, _ in ends), sum(high for _, high in ends)


def part_bounds(
    game: AnyGame, args: "TurnGRPOConfig"
) -> dict[str, tuple[float, float]]:
    """Bounds of what a trajectory is paid of each part of the reward, without weights.

    The game's part lies between `min_return` and `max_return`. A trajectory begins with its
    seat's first turn: where seats are paid before that, it may get as much less or more, and
    a seat that has been paid may lose it all.
    """
    low, high = game.min_return, game.max_return
    if any(isinstance(spec, dict) and spec.get("max_turns") for spec in args.games):
        low, high = min(low, 0.0), max(high, 0.0)  # cut before anybody is paid
    if pays_early(game):
        low, high = low - max(high, 0.0), high - min(low, 0.0)
    invalid = {
        "forfeit": 1,
        "retry": args.max_retries * game.max_turns + 1,
        "random": game.max_turns,
    }[args.on_invalid]
    return {"game": (low, high), "format": (-args.penalty * invalid, 0.0)}


def _times(ends: tuple[float, float], weight: float) -> tuple[float, float]:
    low, high = sorted(weight * end + 0.0 for end in ends)  # no -0
    return low, high


def pays_early(game: AnyGame) -> bool:
    """Whether a seat was paid before its first turn in some games of random play."""
    rng = random.Random(0)
    for _ in range(NUM_GAMES):
        moved = set[int]()
        for state, player in random_states(game, rng):
            if moved.issuperset(range(game.num_players)):
                break
            paid = game.returns(state)
            if any(paid[seat] for seat in range(len(paid)) if seat not in moved):
                return True
            moved.add(player)
    return False


def check_bounds(
    args: "TurnGRPOConfig", games: Sequence[AnyGame], weights: Mapping[str, float]
) -> None:
    """Refuses bounds of `bnpo`, of returns or by part, that a return could lie beyond.

    Raises:
        ValueError: names the bound and what it has to be.
    """
    if args.credit != "bnpo":
        return
    for name in ("min_return", "max_return"):
        given = args.credit_args.get(name)
        by_part = given if isinstance(given, Mapping) else {None: given}
        for part, bound in by_part.items():
            if isinstance(bound, Real):
                _check_bound(args, games, weights, name, part, float(bound))


def _check_bound(
    args: "TurnGRPOConfig",
    games: Sequence[AnyGame],
    weights: Mapping[str, float],
    name: str,
    part: str | None,
    bound: float,
) -> None:
    """Refuses a bound of a part, or of the whole return where that is None."""
    counted = [part] if part is not None else [p for p in weights if weights[p]]
    others = [other for other in counted if other not in PARTS]
    if others:
        raise ValueError(
            f"bnpo takes no min_return or max_return where {others[0]!r} counts, of which "
            "nobody knows the bounds"
        )
    what = name if part is None else f"{name}[{part!r}]"
    for game in games:
        if part is None:
            ends = return_bounds(game, args, weights)
        else:  # a part of weight 0 is read as it came
            weight = weights.get(part, 1.0) or 1.0
            ends = _times(part_bounds(game, args)[part], weight)
        most = ends[name == "max_return"]
        beyond = bound - most if name == "min_return" else most - bound
        if beyond > SLACK:
            raise ValueError(
                f"want a {what} of {most:g} or "
                f"{'less' if name == 'min_return' else 'more'}, which "
                f"{type(game).__name__} can pay, penalties and weights included; got "
                f"{bound!r}"
            )
