"""Warnings about policies that repeat the same few games."""

import json
from collections.abc import Callable, Sequence

from arena_envs.game import CHANCE, AnyGame
from arena_trainers.evaluate.result_rows import Row, against
from arena_wrappers import PromptWrapper, RandomPolicy, play

FEW = 0.1  # distinct games per episode; fewer may lead to a warning
STEP = 64  # random games played at a time


def repetition_warnings(
    game: AnyGame, rows: Sequence[Row], make: Callable[[], PromptWrapper]
) -> tuple[str, ...]:
    """One line for each opponent against which the evaluated policy repeats games.

    A policy repeats games if two things hold: fewer than `FEW` of its episodes are distinct
    games, and uniform random play shows more than twice as many distinct games in as many
    episodes. Games that begin with chance, such as a deal, get no warning: their episodes
    are independent even between deterministic policies.

    Args:
        game: the rules.
        rows: rows of an evaluation.
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
    """Whether `num_episodes` episodes of random play have more than `few` distinct games."""
    seen: set[str] = set()
    for start in range(0, num_episodes, STEP):
        seeds = range(start, min(start + STEP, num_episodes))
        seen |= {json.dumps(list(e.actions)) for e in play(make, RandomPolicy(), seeds)}
        if len(seen) > few:
            return True
    return False


def _warning(row: Row) -> str:
    if row.opponent in {"self", ""}:
        advice = f"evaluate noisy:0.2({row.policy})"
    else:
        advice = f"vary play with --against 'noisy:0.2({row.opponent})'"
    return (
        f"{row.policy}{against(row.opponent)}: {row.num_distinct} distinct games in "
        f"{row.num_episodes} episodes, so intervals are too narrow; {advice}"
    )
