"""Checks that a text leaves out nothing that its reader needs."""

from typing import Any

from arena_envs.game import CHANCE, AnyGame
from arena_envs.testing.sample import Sample, demand

MAX_PAIRS = 200  # of states with the same text
MAX_ACTIONS = 40  # of a pair
MAX_OUTCOMES = 6  # of a chance node, followed
MAX_DEPTH = 3  # chance nodes in a row, followed


def check_sufficiency(sample: Sample) -> None:
    """The text tells the seat to move what it can do and what can follow.

    In every game, states with the same text have the same legal actions. Returns and
    successors are compared in games of perfect information only. With imperfect information
    they also depend on what is hidden, and a text may leave out the seat's past, which
    `information_state` keeps (see `check_knowledge`). So in these games the check does not
    find a text without a public fact, such as the size of the pot.
    """
    game, num_pairs = sample.game, 0
    seen: dict[tuple[int, str], Any] = {}
    for state in sample.states():
        seat = game.current_player(state)
        if seat < 0:
            continue
        text = game.observe(state, seat)
        known = seen.setdefault((seat, text), state)
        if known == state or num_pairs == MAX_PAIRS:
            continue
        num_pairs += 1
        legal, again = list(game.legal_actions(known)), list(game.legal_actions(state))
        demand(
            legal == again,
            "one text at a seat's turn has one set of legal actions",
            *(text, legal, again),
            fix="Put into the text what decides which actions are legal.",
        )
        if game.information == "perfect":
            _check_same_play(game, text, known, state)


def _check_same_play(game: AnyGame, text: str, one: Any, other: Any) -> None:
    """Two states with one text have the same returns, and so have their successors."""
    paid = [game.returns(state) for state in (one, other)]
    demand(
        paid[0] == paid[1],
        "one text of a perfect-information game has one return of each seat",
        *(text, *paid),
        fix="Put into the text what the seats have been paid.",
    )
    for action in list(game.legal_actions(one))[:MAX_ACTIONS]:
        follow = [_following(game, game.apply(s, action)) for s in (one, other)]
        demand(
            follow[0] == follow[1],
            "one text of a perfect-information game, and one action, lead to the same "
            "returns and texts",
            *(text, *_unequal(*follow)),
            fix="Put into the text what decides the difference.",
        )


def _following(game: AnyGame, state: Any, depth: int = 0) -> list[Any]:
    """All that seats are shown and paid next, chance outcomes with their probabilities."""
    if game.current_player(state) != CHANCE:
        seats = range(game.num_players)
        return [game.returns(state), *(game.observe(state, seat) for seat in seats)]
    follow: list[Any] = []
    for outcome, probability in game.chance_outcomes(state)[:MAX_OUTCOMES]:
        follow += [outcome, probability]
        if depth < MAX_DEPTH:
            follow += _following(game, game.apply(state, outcome), depth + 1)
    return follow


def _unequal(one: list[Any], other: list[Any]) -> tuple[Any, Any]:
    """The first entries that differ."""
    return next(
        (pair for pair in zip(one, other, strict=False) if pair[0] != pair[1]), ("", "")
    )
