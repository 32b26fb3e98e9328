"""Parts of the donor game: its units, and what a round does to them."""

from collections.abc import Sequence
from itertools import combinations

UNIT = 100  # in hundredths, which states hold
PRICE, FINE = 1 * UNIT, 2 * UNIT  # of punishment
PUNISHMENT = -100  # in place of the percentage of a gift


def units_after(
    before: Sequence[int], shares: Sequence[int], shift: int, multiplier: int
) -> tuple[int, ...]:
    """Hundredths that every seat has after a round: gifts come first, punishment last.

    Args:
        before: hundredths of every seat before the round.
        shares: percent of its own units that each seat gives, or `PUNISHMENT`.
        shift: seat i gives to seat (i + shift) mod N, or punishes it.
        multiplier: of gifts.
    """
    after, fines = list(before), [0] * len(before)
    for donor, share in enumerate(shares):
        recipient = (donor + shift) % len(before)
        if share == PUNISHMENT:
            after[donor] -= PRICE
            fines[recipient] = FINE
        else:
            gift = before[donor] * share // 100
            after[donor] -= gift
            after[recipient] += multiplier * gift
    return tuple(max(0, has - fine) for has, fine in zip(after, fines, strict=True))


def largest_growth(num_players: int, num_rounds: int, multiplier: int) -> int:
    """Units that one seat ends with for each unit at the start, if all units reach it.

    A unit that is passed on in all rounds but k grows by `multiplier` ** (`num_rounds` - k).
    The shifts of these k rounds add up to the distance from its first owner to the seat.
    """
    n, most = num_players, 0
    for shifts in combinations(range(1, n), min(num_rounds, n - 1)):
        rests = {
            0: 0
        }  # by first owner: fewest rounds in which the unit is not passed on
        for shift in shifts:
            for place, k in list(rests.items()):
                after = (place + shift) % n
                rests[after] = min(k + 1, rests.get(after, n))
        growth = (multiplier ** (num_rounds - k) for k in rests.values())
        most = max(most, sum(growth))
    return most
