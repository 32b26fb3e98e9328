"""The reward for progress in a game: `milestones`."""

from arena_envs.game import (
    AnyGame,
    AnyState,
)
from arena_wrappers import Episode, Turn
from arena_wrappers.play import final_state, next_state


def milestones(
    episode: Episode,
    turn: Turn,
    state: AnyState,
    game: AnyGame,
    *,
    of: str = "progress",
    potential: bool = True,
    discount: float = 1.0,
) -> float:
    """Progress until the seat's next turn: discount Φ' - Φ.

    Φ is the game's `progress`, or the measure that `of` names. With `potential` Φ' is 0 at the end of a
    terminated episode (https://people.eecs.berkeley.edu/~russell/papers/icml99-shaping.pdf); `discount`
    has to be that of the estimator.
    """
    later = next_state(episode, turn, game)
    if later is not None:
        after = _progress(game, later, of)
    elif potential and episode.terminated:
        after = 0.0
    else:
        after = _progress(game, final_state(episode, game), of)
    return discount * after - _progress(game, state, of)


def _progress(game: AnyGame, state: AnyState, of: str) -> float:
    if of == "progress" and hasattr(game, "progress"):
        return float(game.progress(state))
    measures = game.measures(state)
    if of not in measures:
        names = ", ".join(measures) or "none"
        raise ValueError(
            f"{game!r} has no {of!r} for the reward milestones; give of: one of its measures "
            f"({names}), or write the method progress(state)"
        )
    return float(measures[of])
