"""Tests of a selector: the promises that data sets and loops rely on.

from arena_trainers.data.testing import check_selector

def test_my_selector_keeps_its_promises():
    check_selector(my_selector, share=0.5)
"""

import copy
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import arena_envs
from arena_envs.registry import BrokenPromise, broken
from arena_trainers.data.arguments import seeded_integer
from arena_trainers.data.recorded_play import joined
from arena_trainers.data.rows import GENERAL, Dropped, NewMessages, Row, content_of
from arena_trainers.data.selection import SelectorOutput, selectors
from arena_wrappers import (
    Branching,
    Episode,
    Message,
    PromptWrapper,
    ScriptedPolicy,
    Turn,
    play,
)

__all__ = ["BrokenPromise", "check_selector"]
NUM_IDS = 10_000  # of the token ids of a seat


def check_selector(
    selector: Callable[..., SelectorOutput],
    episodes: Sequence[Episode] | None = None,
    **options: Any,
) -> None:
    """Calls a selector with recorded episodes, and looks at its rows.

    | promise | what is checked |
    |---|---|
    | nothing of nothing | no episodes give no rows |
    | rows | it yields rows of one kind and `Dropped`, some rows at least |
    | facts | a row names game, seat, turn and seed of an episode, and why it was chosen |
    | order | the order of the episodes does not matter |
    | same seed | equal calls give equal rows |
    | own view | a row holds nothing that only another seat read or wrote |
    | arguments | the episodes are left as they are |

    Args:
        selector: a function of episodes, options, and `seed` where it draws.
        episodes: what it is called with; by default Kuhn poker with groups, turn trees and
            replies that are refused at first.
        **options: of the selector.

    Raises:
        BrokenPromise: names the first promise that is broken.
    """
    if _rows(selector, [], options):
        broken("nothing of nothing", "no episodes give rows")
    if episodes is None:
        episodes = sample_episodes()
    # with a mark of the seat in all that it read and wrote, and with tokens
    marked = [
        replace(episode, turns=[_marked_turn(turn) for turn in episode.turns])
        for episode in episodes
    ]
    before = copy.deepcopy(marked)
    rows = _rows(selector, marked, options)
    if marked != before:
        broken("arguments", "the episodes have changed")
    if not rows:
        broken(
            "rows", f"{len(marked)} episodes give none; pass episodes that give some"
        )
    kinds = {type(row).__name__ for row in rows}
    if len(kinds) > 1:
        broken("rows", f"want rows of one kind, got {' and '.join(sorted(kinds))}")
    facts_of_turns = {
        (episode.game, episode.seed, turn.seat, turn.index)
        for episode in marked
        for turn in episode.turns
    }
    for row in rows:
        if not (isinstance(row.reason, str) and row.reason):
            broken("facts", f"want a reason, got {row.reason!r}")
        facts = (row.game, row.seed, row.seat, row.turn)
        if row.game != GENERAL and facts not in facts_of_turns:
            broken("facts", f"no episode has game, seed, seat and turn {facts}")
        _check_view(row)
    if _contents(_rows(selector, marked, options)) != _contents(rows):
        broken("same seed", "two calls give different rows")
    if _contents(_rows(selector, _shuffled(marked), options)) != _contents(rows):
        broken("order", "the episodes in another order give different rows")


def sample_episodes() -> list[Episode]:
    """Kuhn poker: groups, turn trees, and replies that are refused at first."""
    tree = Branching(3, follow="all")
    asking = PromptWrapper(arena_envs.make("kuhn_poker"), "bare", on_invalid="retry")
    careless = ScriptedPolicy(
        lambda request: "bet" if len(request.messages) > 2 else "raise", "careless"
    )
    parts = [
        play("kuhn_poker", "random", range(8), num_samples=4),
        play("kuhn_poker", "random", range(20, 26), branch=tree),
        play(asking.clone, [careless, "random"], range(40, 44)),
    ]
    return joined(parts)


def _rows(
    selector: Callable[..., SelectorOutput],
    episodes: Sequence[Episode],
    options: Mapping[str, Any],
) -> list[Row]:
    # as a run calls it: a selector without randomness need not take the seed
    registry = replace(selectors, built_in={"mine": selector})
    entries = list(registry.make({"mine": options}, episodes=episodes, seed=0))
    for entry in entries:
        if not isinstance(entry, Row | Dropped):
            broken("rows", f"want rows, got {entry!r:.60}")
    return [entry for entry in entries if isinstance(entry, Row)]


def _marked_turn(turn: Turn) -> Turn:
    reply = turn.reply + _mark(turn.seat)
    messages = [
        Message(role=m["role"], content=m["content"] + _mark(turn.seat))
        for m in turn.messages
    ]
    return replace(
        turn,
        messages=messages,
        reply=reply,
        prompt_ids=[_token(turn.seat, m["content"]) for m in messages],
        token_ids=[_token(turn.seat, reply), NUM_IDS * (turn.seat + 1) - 1],
    )


def _mark(seat: int) -> str:
    return f" (seen by seat {seat})"


def _token(seat: int, text: str) -> int:
    return seat * NUM_IDS + seeded_integer(0, text) % (NUM_IDS - 1)


def _check_view(row: Row) -> None:
    """Raises if a row holds what another seat read or wrote."""
    pieces = [piece for text in row.texts for piece in text]
    texts = [row.reason, *(message["content"] for message in row.prompt)]
    ids = list(row.prompt_ids or ())
    for piece in pieces:
        ids += piece.ids or ()
        if isinstance(piece, NewMessages):
            texts += (message["content"] for message in piece.prompt[piece.start :])
        else:
            texts.append(piece.text)
    for other_seat in {*range(16)} - {row.seat}:
        if any(_mark(other_seat) in text for text in texts):
            broken(
                "own view", f"a row of seat {row.seat} has words of seat {other_seat}"
            )
    if any(i // NUM_IDS != row.seat for i in ids):
        broken("own view", f"a row of seat {row.seat} has tokens of another seat")


def _shuffled(episodes: Sequence[Episode]) -> list[Episode]:
    """The episodes in another order, each with the new place of its parent."""
    order = list(range(len(episodes)))
    random.Random(0).shuffle(order)
    places = {old: new for new, old in enumerate(order)}
    shuffled = []
    for number in order:
        episode = episodes[number]
        parent = None if episode.parent is None else places.get(episode.parent)
        shuffled.append(replace(episode, parent=parent))
    return shuffled


def _contents(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    """All that rows hold, in an order of their own."""
    return sorted(_content(row) for row in rows)


def _content(row: Row) -> tuple[Any, ...]:
    ids = [list(piece.ids or ()) for text in row.texts for piece in text]
    numbers = [vars(row)[name] for name in ("weight", "margin") if name in vars(row)]
    return (
        content_of(row),
        row.sample,
        row.reason,
        list(row.prompt_ids or ()),
        ids,
        numbers,
    )
