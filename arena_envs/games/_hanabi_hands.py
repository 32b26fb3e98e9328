"""Parts of Hanabi: the hands that a player may hold."""

import random
from bisect import bisect
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate
from math import perm


def sample_hand(
    copies: Sequence[int], fits: Sequence[int], num_slots: int, rng: random.Random
) -> bytes:
    """A random hand, with probability proportional to the number of ways to deal it.

    Args:
        copies: number of unseen copies of each card.
        fits: slots that each card may be in, as bits.
        num_slots: size of the hand.
        rng: draws one number for each card.
    """

    @cache
    def num_deals(card: int, empty: int) -> int:
        """Ways to fill the empty slots with this card and the following ones."""
        if card == len(copies):
            return int(not empty)
        return sum(ways for _, ways in choices(card, empty))

    def choices(card: int, empty: int) -> Iterator[tuple[int, int]]:
        """Sets of slots that may hold the copies of this card, with the ways to do so."""
        allowed = slots = empty & fits[card]
        while True:
            if ways := perm(copies[card], slots.bit_count()):
                ways *= num_deals(card + 1, empty & ~slots)
                yield slots, ways
            if not slots:
                return
            slots = (slots - 1) & allowed

    hand, empty = bytearray(num_slots), (1 << num_slots) - 1
    for card in range(len(copies)):
        sets, weights = zip(*choices(card, empty), strict=True)
        pick = bisect(list(accumulate(weights)), rng.randrange(sum(weights)))
        empty &= ~sets[pick]
        for slot in range(num_slots):
            if sets[pick] >> slot & 1:
                hand[slot] = card
    return bytes(hand)
