"""What a seat is told in the auction, and checks of its parameters."""

from collections.abc import Iterator, Sequence
from typing import Any

from arena_envs.game import CHANCE, TERMINAL
from arena_envs.games import _auction_state as states
from arena_envs.games import _talk as talk
from arena_envs.games._auction_state import ASCENDING, BID, NOBODY, TALK, State
from arena_envs.games._words import counted

ATTRIBUTES = ("size", "garden", "location")
MAX_POINTS = 9
BUDGET = 12_000  # characters of quoted messages in a text; each takes at most 12 per character


def checked_points(name: str, rows: object, most: int) -> tuple[tuple[int, ...], ...]:
    """Items or personas as tuples.

    Raises:
        ValueError: names the parameter and its value.
    """
    wanted = (
        f"want {name} as a list of 1 to {most} lists of {len(ATTRIBUTES)} integers from 0 "
        f"to {MAX_POINTS}, for {', '.join(ATTRIBUTES)}"
    )
    if not isinstance(rows, Sequence) or isinstance(rows, str):
        raise ValueError(f"{wanted}; got {rows!r:.80}")
    if not 1 <= len(rows) <= most:
        raise ValueError(f"{wanted}; got {len(rows)} lists")
    for row in rows:
        if (
            not isinstance(row, Sequence)
            or len(row) != len(ATTRIBUTES)
            or not all(type(x) is int and 0 <= x <= MAX_POINTS for x in row)
        ):
            raise ValueError(f"{wanted}; got {row!r:.80}")
    return tuple(map(tuple, rows))


def points(row: Sequence[int], word: str = "") -> str:
    """An item or a persona.

    >>> points((3, 1, 0)), points((2, 1, 0), "weight ")
    ('size 3, garden 1, location 0', 'size weight 2, garden weight 1, location weight 0')
    """
    pairs = zip(ATTRIBUTES, row, strict=True)
    return ", ".join(f"{name} {word}{value}" for name, value in pairs)


def observed(game: Any, state: State, seat: int, player: int) -> Iterator[str]:
    """The lines of an observation."""
    yield f"You are player_{seat}. {_stage(game, state, seat, player)}"
    if len(state.personas) > seat:
        weights = game.personas[state.personas[seat]]
        worth = ", ".join(
            f"item {number + 1}: {game.value(state, seat, number)}"
            for number in range(len(game.items))
        )
        yield f"Your priorities: {points(weights)}. Worth to you: {worth}."
    budgets = ", ".join(
        f"player_{other} {states.left(state, other, game.budget)}"
        for other in range(game.num_players)
    )
    yield f"Budgets left: {budgets}."
    for number, sale in enumerate(state.sales):
        bids = highest_bids(state, seat, number, game.num_players)
        to = "not sold" if sale.seat == NOBODY else f"sold to player_{sale.seat}"
        price = "" if sale.seat == NOBODY else f" for {sale.price}"
        yield f"Item {number + 1}: {to}{price}. Bids: {_listed(bids)}."
    yield from _running(game, state, seat, player)
    shown = [each for each in state.past if each.said.message]

    def told(turn: int) -> str:
        who = "you" if shown[turn].seat == seat else f"player_{shown[turn].seat}"
        return f"Before item {shown[turn].item + 1}, {who} said"

    latest = max(3, BUDGET // (12 * game.max_message))
    said = [each.said for each in shown]
    yield from talk.transcript(said, seat, told, latest=latest)


def highest_bids(
    state: State, seat: int, item: int, num_players: int
) -> list[int | None]:
    """The highest bid of each seat for an item as far as a seat knows it; None: no bid."""
    best: list[int | None] = [None] * num_players
    for each in states.known_events(state, seat):
        if each.item == item and each.said.move == "bid":
            best[each.seat] = each.said.values[0]
    return best


def _listed(bids: Sequence[int | None]) -> str:
    return ", ".join(
        f"player_{seat} {'none' if bid is None else bid}"
        for seat, bid in enumerate(bids)
    )


def _stage(game: Any, state: State, seat: int, player: int) -> str:
    if player == TERMINAL:
        return "The auction is over."
    if player == CHANCE:
        is_tie = state.phase == states.TIE
        return "The bids are tied." if is_tie else "Priorities are being drawn."
    item = f"Item {state.item + 1} of {len(game.items)}"
    is_talk = state.phase == TALK
    if player != seat:
        return f"{item}. player_{player} is to {'speak' if is_talk else 'bid'}."
    left = states.left(state, seat, game.budget)
    task = f"bid from 0 to {left}; 0 is no bid"
    if is_talk:
        task = "pass, with or without a message"
    elif game.pricing == ASCENDING:
        task = "drop" if left <= state.price else "bid or drop"
        if left > state.price:
            task = f"bid from {state.price + 1} to {left}, or drop"
    return f"{item}. You are to move: {task}."


def _running(game: Any, state: State, seat: int, player: int) -> Iterator[str]:
    if player == TERMINAL or state.phase == TALK:
        return
    bids = highest_bids(state, seat, state.item, game.num_players)
    if game.pricing == ASCENDING:
        who = "nobody" if state.leader == NOBODY else f"player_{state.leader}"
        out = ", ".join(f"player_{other}" for other in sorted(state.dropped))
        yield f"Highest bid: {state.price} by {who}. Dropped: {out or 'nobody'}."
        yield f"Bids: {_listed(bids)}."
    elif state.phase != BID:
        yield f"Bids: {_listed(bids)}."
    elif bids[seat] is not None:
        yield f"Your bid: {bids[seat]}."


def rules_text(game: Any) -> str:
    """The rules, but for how to write a reply."""
    items = "; ".join(
        f"item {number + 1}: {points(item)}" for number, item in enumerate(game.items)
    )
    personas = "; ".join(points(row) for row in game.personas)
    first = (
        'Before each sale, each player answers "pass" once, with or without a message. '
    )
    sale = {
        "first": (
            "All bid in secret. The player with the highest bid buys the item for this bid."
        ),
        "second": (
            "All bid in secret. The player with the highest bid buys the item for the second "
            "highest bid."
        ),
        ASCENDING: (
            'Players bid in turn, each more than the highest bid, or answer "drop" and leave the '
            "sale. When all others have dropped, the player with the highest bid buys the item "
            "for this bid."
        ),
    }[game.pricing]
    secret = (
        ""
        if game.pricing == ASCENDING
        else ' "bid 0" is no bid. Chance chooses among equal highest bids. Then all bids are shown.'
    )
    return (
        f"This is an auction of {counted(len(game.items), 'house')} for {game.num_players} "
        f"players. The houses, in the order of their sale: {items}. For each player, chance draws "
        f"one of these priorities, all equally likely, which nobody else learns: {personas}. "
        "A house is worth to you the sum of its points, each times your priority for it. "
        f"{first if game.messages else ''}"
        f"{sale}{secret} An item without a bid is not sold. Bids are "
        f'whole numbers, such as "bid 3". Everybody has a budget of {game.budget} for all items. '
        "You gain what an item is worth to you less its price for each item that you buy. Your "
        "score is the sum of your gains divided by the budget."
    )


def how_to_write(max_message: int) -> str:
    """The paragraph of the rules about messages."""
    if not max_message:
        return talk.how_to_write((), 0)
    moves = (talk.Move("pass"), talk.Move("bid", message="no"))
    return talk.how_to_write(moves, max_message, "the other players")
