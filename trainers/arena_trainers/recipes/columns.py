"""Parts of the reward that recipes of papers use in `columns`."""

from arena_envs.game import AnyState
from arena_wrappers.records import Episode, Turn

VALID_BONUS = 0.05
MIN_LENGTH, MAX_LENGTH, SLOPE = 11, 2048, 0.5  # tokens of a reply
WON_BY_FORFEIT = 0.5


def mars_valid(episode: Episode, turn: Turn, state: AnyState) -> float:
    """0.05 for each valid reply, as in the released code of MARS."""
    return VALID_BONUS if turn.invalid is None else 0.0


def mars_length(episode: Episode, turn: Turn, state: AnyState) -> float:
    """-0.5 / 2037 for each token beyond 2048, as in the released code of MARS."""
    beyond = len(turn.token_ids or ()) - MAX_LENGTH
    return -SLOPE * max(beyond, 0) / (MAX_LENGTH - MIN_LENGTH)


def spiral_forfeit(episode: Episode, turn: Turn, state: AnyState) -> float:
    """What the winner by a seat's invalid reply lacks to 0.5 in all, at its last turn."""
    if episode.forfeited_by in (None, turn.seat):
        return 0.0
    last = max(t.index for t in episode.turns if t.seat == turn.seat)
    lacks = WON_BY_FORFEIT - episode.returns[turn.seat]
    return lacks if turn.index == last else 0.0
