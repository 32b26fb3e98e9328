"""Warnings about policies that play the same few games again and again."""

import json
from collections.abc import Callable, Sequence

from arena_envs.game import CHANCE, AnyGame
from arena_trainers.evaluate.result_rows import Row
from arena_wrappers import PromptWrapper, RandomPolicy, play

FEW = 0.1  # distinct games per episode below which a warning is considered
STEP = 64  # random games that are played at a time


def repetition_warnings(
    game: AnyGame, rows: Sequence[Row], make: Callable[[], PromptWrapper]
) -> tuple[str, ...]:
    """A line for each opponent against whom the evaluated policy repeats itself.

    It does if less than `FEW` of its episodes are distinct games, and these are fewer than
    half of the distinct games in as many episodes of uniform random play. Games that begin
    with chance, such as a deal, are left out: there even deterministic policies have
    independent episodes.

    Args:
        game: the rules.
        rows: of an evaluation.
        make: makes an environment of the game.
    """
    if game.current_player(game.initial_state()) == CHANCE:
        return ()
    last = {row.opponent: row for row in rows if row.role == "policy"}  # of all seats
    return tuple(
        _warning(row)
        for row in last.values()
        if row.num_distinct < FEW * row.num_episodes
        and _has_more(make, 2 * row.num_distinct, row.num_episodes)
    )


def _has_more(make: Callable[[], PromptWrapper], few: int, num_episodes: int) -> bool:
    """Whether so many episodes of random play show more than `few` distinct games."""
    seen: set[str] = set()
    for start in range(0, num_episodes, STEP):
        seeds = range(start, min(start + STEP, num_episodes))
        seen |= {json.dumps(list(e.actions)) for e in play(make, RandomPolicy(), seeds)}
        if len(seen) > few:
            return True
    return False


def _warning(row: Row) -> str:
    if row.opponent == "self":
        advice = f"evaluate noisy:0.2({row.policy})"
    else:
        advice = f"vary play with --against 'noisy:0.2({row.opponent})'"
    return (
        f"{row.policy} against {row.opponent}: {row.num_distinct} distinct games in "
        f"{row.num_episodes} episodes, so intervals are too narrow; {advice}"
    )
