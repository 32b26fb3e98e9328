"""Texts of deal or no deal: the rules, the items, and the talk so far."""

from collections.abc import Iterator, Sequence

from arena_envs import talk
from arena_envs.game import CHANCE, TERMINAL, counted
from arena_envs.games.deal_or_no_deal.state import Numbers, State, rest


def counted_items(items: Sequence[str], numbers: Numbers) -> str:
    """The items of each kind that there are.

    >>> counted_items(("book", "hat"), (2, 0)), counted_items(("book", "hat"), (0, 0))
    ('2 books', 'nothing')
    """
    pairs = zip(numbers, items, strict=True)
    return ", ".join(counted(n, item) for n, item in pairs if n) or "nothing"


def each_worth(items: Sequence[str], values: Numbers) -> str:
    """The worth of an item of each kind.

    >>> each_worth(("book", "hat"), (2, 0))
    'a book 2, a hat 0'
    """
    pairs = zip(items, values, strict=True)
    return ", ".join(f"{_one(item)} {value}" for item, value in pairs)


def _one(item: str) -> str:
    return f"{'an' if item[0] in 'aeiou' else 'a'} {item}"


def _said_lines(state: State, seat: int, items: Sequence[str]) -> Iterator[str]:
    said, pool = state.said, state.pool

    def told(turn: int) -> str:
        who, whom = (
            ("You", "player_1" if seat == 0 else "player_0")
            if turn % 2 == seat
            else (f"player_{turn % 2}", "you")
        )
        move, values = said[turn].move, said[turn].values
        if move == "report":
            return f"{who} reported the values {each_worth(items, values)}"
        if move == "demand":
            left = counted_items(items, rest(pool, values))
            text = counted_items(items, values)
            return f"{who} demanded {text}, leaving {left} to {whom}"
        return f"{who} {'said' if move == 'say' else 'ended the talk'}"

    def brief(turn: int) -> str:
        who = "you" if turn % 2 == seat else f"player_{turn % 2}"
        move = {"report": "reported", "demand": "demanded"}.get(said[turn].move)
        return f"{who} {move} {' '.join(map(str, said[turn].values))}" if move else ""

    return talk.transcript(said, seat, told, brief=brief)


def stage_text(player: int, seat: int, turn: int, max_talk: int) -> str:
    """The seat to move.

    Args:
        player: what `current_player` returns.
        seat: who reads the text.
        turn: the turn of the talk, from 1 on; 0 after the talk.
        max_talk: of the game.
    """
    if player == CHANCE:
        return "The items and their values are being drawn."
    if player == TERMINAL:
        return "The game is over."
    who = "you are" if player == seat else f"player_{player} is"
    if turn:
        return f"Turn {turn} of {max_talk} of the talk: {who} to speak."
    return f"The talk is over: {who} to claim." if max_talk else f"Now {who} to claim."


def view_lines(
    state: State, seat: int, items: Sequence[str], stage: str, points: Sequence[int]
) -> Iterator[str]:
    """The lines that a seat reads in a state.

    Args:
        state: any state.
        seat: who reads the lines.
        items: the kinds of items.
        stage: whose turn it is.
        points: of the seat and of all items together; none without an agreement.
    """
    yield f"You are player_{seat}. {stage}"
    if len(state.values) < 2:
        return
    values = each_worth(items, state.values[seat])
    there = counted_items(items, state.pool)
    yield f"The items: {there}. Worth to you: {values}."
    yield from _said_lines(state, seat, items)
    claimed = [counted_items(items, claim) for claim in state.claims]
    if len(claimed) == 2:
        text = f"You claimed {claimed[seat]}, player_{1 - seat} claimed {claimed[1 - seat]}. "
        end = "do not fit: both players get nothing."
        if points:
            end = f"fit: you get {points[0]} of {points[1]} points."
        yield f"{text}The claims {end}"
    elif len(claimed) > seat:
        yield f"You have claimed {claimed[seat]}."


def rules_text(
    items: Sequence[str], low: int, high: int, points: int, max_talk: int
) -> str:
    """The rules, for either seat, without the paragraph about messages."""
    kinds = ", ".join(f"{item}s" for item in items)
    total = f"{low}" if low == high else f"{low} to {high}"
    share = (1, *[0] * (len(items) - 2), 2)
    numbers = " ".join(map(str, share))
    wanted = counted_items(items, share)
    return (
        f"This is deal or no deal: player_0 and player_1 divide {total} items ({kinds}). "
        "You read how many items of each kind there are, and what an item of each kind "
        f"is worth to you. All items together are worth {points} points to you, and also "
        f"{points} to the other player, whose values you do not know. Each kind is worth "
        "something to at least one player, and at least one kind to both. "
        f"{_talk_text(items, max_talk, numbers, wanted)}"
        f'"claim {numbers}" claims {wanted}; '
        "the numbers stand in the order of the items. The other player reads your claim "
        "when both have claimed. If the claims together are exactly all items, each "
        "player gets what it claimed; otherwise both get nothing. Your score is the "
        f"points that you get, divided by {points}."
    )


def _talk_text(items: Sequence[str], max_talk: int, numbers: str, wanted: str) -> str:
    if not max_talk:
        return "Both players claim items once, player_0 first. "
    values = tuple(range(len(items)))
    report = " ".join(map(str, values))
    return (
        f"First you talk in turn, player_0 first, for at most {counted(max_talk, 'turn')} "
        f'of both together. "report {report}" says what the items are worth to you: '
        f'{each_worth(items, values)}; it may be untrue. "demand {numbers}" says that you '
        f'want {wanted} and leave the rest to the other player. "end" ends the talk. '
        "Nothing that is said in the talk is binding. After the talk both players claim "
        "items once, player_0 first. "
    )
