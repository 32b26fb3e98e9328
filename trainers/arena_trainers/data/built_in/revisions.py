"""The selector of mistakes with their corrections: `revisions`."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from arena_envs.game import check_bool, check_number
from arena_trainers.data.arguments import Policies
from arena_trainers.data.built_in.siblings import (
    Sibling,
    families,
    first_difference,
    reason_to_drop,
)
from arena_trainers.data.recorded_play import (
    CallTurn,
    calls,
    conversations,
    is_legal,
    pieces_of,
    recorded_trajectories,
    row_facts,
)
from arena_trainers.data.rows import Completion, Dropped, Piece, ReplyPart
from arena_wrappers import (
    Episode,
    Turn,
)


def revisions(
    episodes: Sequence[Episode],
    *,
    seed: int,
    margin: float = 0.0,
    above: float | None = None,
    note: str = "No, that is a mistake. I choose again.",
    good: bool = False,
    policies: Policies = None,
) -> Iterator[Completion | Dropped]:
    r"""Mistakes and their corrections; the mistakes are read, not trained.

    From a turn tree, as in Agent-R (https://arxiv.org/abs/2501.11425): the worst sibling's reply,
    a note, then the best sibling's reply and the rest of its conversation. From `on_invalid=
    "retry"`, as in AgentRefine (https://arxiv.org/abs/2501.01702): a refused reply, the reason, the
    accepted reply. The loss of both masks wrong turns. Differences: Agent-R's agent
    finds its first error by asking itself, and waits for a turn before it goes on. Here, the
    first error is the branch, and the correction is in one reply, `BAD\nNOTE</think>GOOD`, of
    which every reply format reads what follows `</think>`. Agent-R draws from ten notes. AgentRefine
    has a strong model write its episodes.

    Args:
        episodes: the records of trees, or of play that asks again after an invalid reply.
        seed: of the draw among equal values.
        margin: the values of the replies must differ by more than this.
        above: the value of the best sibling must be above this; None for any value.
        note: what is said between the replies.
        good: whether the conversations of best siblings are rows, too, as in Agent-R.
        policies: names of those who learn; None for all.
    """
    check_number("margin", margin, 0)
    least = -math.inf if above is None else above
    check_number("above", least)
    check_bool("good", good)
    if not isinstance(note, str):
        raise ValueError(f"want note as a text, got {note!r:.60}")
    for family in families(episodes, seed, policies):
        best, worst = family[0], family[-1]
        if best is worst:
            yield Dropped("a branch where all candidates say the same")
            continue
        if not best.value > least:
            yield Dropped(f"the best sibling's value is not above {least:g}")
            continue
        dropped = reason_to_drop(best, worst, margin)
        if dropped is not None:
            yield dropped
            continue
        yield _revision(best, worst, note)
        if good:
            for turn in calls(best.turn):
                facts = row_facts(best.episode, turn, "best sibling")
                yield Completion(**facts, completion=_continuation(best, turn))
    yield from _corrected_retries(episodes, policies)


def _corrected_retries(
    episodes: Sequence[Episode], policies: Policies
) -> Iterator[Completion | Dropped]:
    """The conversations in which a legal reply follows a refused one in the same state."""
    for trajectory in recorded_trajectories(episodes, policies):
        for turns in conversations(trajectory.turns):
            before = [
                turn for turn in trajectory.turns if turn.index == turns[0].index - 1
            ]
            pairs = pairwise([*before[-1:], *turns])
            # where an invalid reply played no action, the seat is asked in the same state
            is_corrected = any(
                not is_legal(turn) and is_legal(later) and turn.action is None
                for turn, later in pairs
            )
            if is_corrected:
                facts = row_facts(
                    trajectory.episode, turns[0], "a refused reply, corrected"
                )
                yield Completion(**facts, completion=pieces_of(turns))
            elif trajectory.episode.parent is None:
                yield Dropped("nothing was refused and then corrected")


def _revision(good: Sibling, bad: Sibling, note: str) -> Completion | Dropped:
    turns = first_difference(good.turn, bad.turn)
    if turns is None:
        return Dropped("their prompts differ before their replies do")
    better_turn, worse_turn = turns
    ids = worse_turn.token_ids
    if ids is not None and not bad.turn.truncated:
        ids = ids[:-1]  # without the end token
    pieces: list[Piece] = [
        ReplyPart(worse_turn.reply, ids, counts=False, ends=False),
        ReplyPart(f"\n{note}</think>", None, ends=False),
        *_continuation(good, better_turn),
    ]
    facts = row_facts(good.episode, worse_turn, "worst sibling, note, best sibling")
    return Completion(**facts, completion=pieces)


def _continuation(sibling: Sibling, turn: Turn) -> list[Piece]:
    """The conversation of a sibling from the branch on; a call of its turn is one of its own."""
    if isinstance(turn, CallTurn):
        return pieces_of([turn])
    seat = sibling.turn.seat
    seat_turns = [played for played in sibling.episode.turns if played.seat == seat]
    return pieces_of(next(conversations(seat_turns[sibling.turn.index :])))
