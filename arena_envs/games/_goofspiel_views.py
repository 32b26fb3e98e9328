"""Parts of Goofspiel: what its players read, and the same as numbers."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from arena_envs.games._goofspiel_state import Setup, State, winner_of
from arena_envs.games._words import over_text

NAMES = tuple(str(value) for value in range(1, 14))  # of cards and prizes
GOALS = {
    "win_loss": (
        "Who has most points at the end wins. Your score is 1 if you win alone and -1 if "
        "you lose alone; several winners share the 1, several losers the -1, and the "
        "score is 0 if all have the same points."
    ),
    "point_difference": (
        "Your score is the sum of your prizes less the mean of all players' sums."
    ),
    "total_points": "Your score is the sum of your prizes.",
}


def text(setup: Setup, state: State, seat: int, score: float) -> str:
    """What a seat sees: the prize, hands, points, and the rounds that are over."""
    lines = [f"You are player_{seat}. {_now(setup, state, score)}"]
    if left := setup.left(state.prizes):
        shown = "to come" if state.prizes else "in random order"
        lines.append(f"Prizes {shown}: {card_names(left)}.")
    if len(setup.rounds(state)) < setup.num_cards:
        lines.append(f"Your cards: {card_names(setup.open_hand(state, seat))}.")
        for other in range(setup.num_players):
            if other != seat and not setup.imp_info:
                hand = card_names(setup.open_hand(state, other))
                lines.append(f"player_{other}'s cards: {hand}.")
    points = enumerate(setup.points(state))
    lines.append("Points: " + ", ".join(f"player_{s} {p}" for s, p in points) + ".")
    if own := setup.running(state)[seat : seat + 1]:
        lines.append(f"Your bid in this round: {own[0] + 1}.")
    return "\n".join(lines + _past(setup, state, seat))


def features(setup: Setup, state: State, seat: int) -> NDArray[np.float32]:
    """The present, then the past rounds; the own seat first, others in order after it.

    Prize in play (one-hot); hands and own bid in this round (ones); points, as shares.
    For each round: prize and winner (one-hot; the last place is nobody), and the bid
    of every seat (one-hot). Hands and bids that are hidden are zeros.
    """
    n, cards = setup.num_players, setup.num_cards
    seats = [(seat + i) % n for i in range(n)]
    points, rounds = setup.points(state), setup.rounds(state)
    known = list(enumerate(seats[:1] if setup.imp_info else seats))
    ones = []
    if len(state.prizes) > len(rounds):
        ones.append(state.prizes[-1])
    if own := setup.running(state)[seat : seat + 1]:
        ones.append(cards + own[0])
    for row, other in known:
        ones += [(2 + row) * cards + card for card in setup.open_hand(state, other)]
    start, width = (n + 2) * cards + n, (n + 1) * (cards + 1)
    for prize, bids in zip(state.prizes, rounds, strict=False):
        winner = winner_of(bids)
        place = n if winner is None else (winner - seat) % n
        ones += [start + prize, start + cards + place]
        first = start + cards + n + 1
        ones += [first + row * cards + bids[other] for row, other in known]
        start += width
    values = np.zeros((n + 2) * cards + n + cards * width, np.float32)
    values[ones] = 1
    shares = [points[other] / setup.most_points for other in seats]
    values[(n + 2) * cards : (n + 2) * cards + n] = shares
    return values


def rules(setup: Setup) -> str:
    """What every player is told before the first turn."""
    top = setup.num_cards
    order = f"in {setup.points_order} order"
    told = "Then all see the bids"
    if setup.imp_info:
        told = "Only the winner is told, the bids stay hidden"
    return (
        f"This is Goofspiel with {setup.num_players} players. Every player holds the "
        f"cards 1 to {top}. There are {top} prizes, worth 1 to {top} points, which come "
        f"{order}, one in each round. All players bid one of their cards for the prize "
        "at the same time, without seeing the other bids. The highest bid wins the "
        "prize; if several players share the highest bid, nobody gets it. "
        f"{told}. Bid cards are used up, whoever wins. In the last round the last "
        "cards are bid without asking. A bid is written as the number of the card, "
        f'such as "{top}". {_goal(setup)}'
    )


def _goal(setup: Setup) -> str:
    if setup.returns_type == "win_loss" and setup.num_players == 2:
        return (
            "Who has more points at the end wins. Your score is 1 if you win, -1 if you "
            "lose and 0 for a draw."
        )
    return GOALS[setup.returns_type]


def _now(setup: Setup, state: State, score: float) -> str:
    num_rounds = len(setup.rounds(state))
    if num_rounds == setup.num_cards:
        return over_text(score)
    now = f"Round {num_rounds + 1} of {setup.num_cards}:"
    if num_rounds == len(state.prizes):
        return f"{now} the prize is not shown yet."
    return f"{now} all players bid for the prize {state.prizes[-1] + 1}."


def _past(setup: Setup, state: State, seat: int) -> list[str]:
    rounds = setup.rounds(state)
    if not rounds:
        return []
    players = ", ".join(f"player_{other}" for other in range(setup.num_players))
    shown = "your bid" if setup.imp_info else f"bids of {players}"
    lines = [f"Past rounds (prize: {shown}; winner):"]
    for prize, bids in zip(state.prizes, rounds, strict=False):
        known = bids[seat : seat + 1] if setup.imp_info else bids
        winner = winner_of(bids)
        name = "nobody" if winner is None else f"player_{winner}"
        lines.append(f"{prize + 1}: {card_names(known)}; {name}")
    return lines


@cache
def card_names(cards: tuple[int, ...]) -> str:
    """Cards or prizes by their values."""
    return ", ".join([NAMES[card] for card in cards])
