"""Fields of the moves of language games: how a value is written, and what it may be.

A field has a `pattern` of its text, an upper-case `label` for rules, a `note` and `limits` for
errors. `read` gives the value of a text that fits the pattern, or None if it is out of range.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

CENT = 100  # amounts are whole hundredths


@dataclass(frozen=True)
class Amount:
    """Money from `low` to `high`, in hundredths; written with at most two decimals."""

    low: int
    high: int
    label: str = "AMOUNT"
    pattern = r"\$?[0-9]{1,9}(?:\.[0-9]{1,2})?"
    note = ", with at most two decimals,"

    def read(self, text: str) -> int | None:
        whole, _, part = text.lstrip("$").partition(".")
        amount = CENT * int(whole) + int(part.ljust(2, "0"))
        return amount if self.low <= amount <= self.high else None

    def written(self, value: int) -> str:
        return money(value)

    @property
    def limits(self) -> str:
        return _limits(money(self.low), money(self.high))

    @property
    def example(self) -> int:
        return min(max(self.low, CENT), self.high)


@dataclass(frozen=True)
class Integer:
    """An integer from `low` to `high`."""

    low: int
    high: int
    label: str = "NUMBER"
    pattern = r"-?[0-9]{1,9}"
    note = ""

    def read(self, text: str) -> int | None:
        return value if self.low <= (value := int(text)) <= self.high else None

    def written(self, value: int) -> str:
        return str(value)

    @property
    def limits(self) -> str:
        return _limits(str(self.low), str(self.high))

    @property
    def example(self) -> int:
        return min(max(self.low, 1), self.high)

    @property
    def values(self) -> Sequence[int]:
        return range(self.low, self.high + 1)


@dataclass(frozen=True)
class Player:
    """One of some seats, written `player_0` and so on; the value is the seat."""

    seats: tuple[int, ...]
    label: str = "PLAYER"
    pattern = r"player_[0-9]{1,3}"
    note = ""

    def read(self, text: str) -> int | None:
        return seat if (seat := int(text[7:])) in self.seats else None

    def written(self, value: int) -> str:
        return f"player_{value}"

    @property
    def limits(self) -> str:
        return f"that names {' or '.join(map(self.written, self.seats))}"

    @property
    def example(self) -> int:
        return self.seats[0]

    @property
    def values(self) -> Sequence[int]:
        return self.seats


@dataclass(frozen=True)
class OneOf:
    """One of some items, each of ASCII words; the value is the item as it is listed."""

    items: tuple[str, ...]
    label: str = "ITEM"
    note = limits = ""  # a text with another item is no move

    @property
    def pattern(self) -> str:
        longest_first = sorted(self.items, key=len, reverse=True)
        return "|".join(
            r"\s+".join(map(re.escape, item.split())) for item in longest_first
        )

    def read(self, text: str) -> str | None:
        wanted = " ".join(text.split()).lower()
        return next((item for item in self.items if item.lower() == wanted), None)

    def written(self, value: str) -> str:
        return value

    @property
    def example(self) -> str:
        return self.items[0]

    @property
    def values(self) -> Sequence[str]:
        return self.items


@dataclass(frozen=True)
class Word:
    """A word of `low` to `high` letters a to z; the value is in lower case."""

    low: int = 1
    high: int = 20
    label: str = "WORD"
    pattern = "[a-z]{1,100}"
    note = ""

    def read(self, text: str) -> str | None:
        return text.lower() if self.low <= len(text) <= self.high else None

    def written(self, value: str) -> str:
        return value

    @property
    def limits(self) -> str:
        return f"of {self.low} to {self.high} letters"

    @property
    def example(self) -> str:
        return "abcdefghijklmnopqrstuvwxyz"[: max(self.low, 3)]


Field = Amount | Integer | Player | OneOf | Word


def money(amount: int) -> str:
    """Hundredths as money.

    >>> money(4000), money(1250)
    ('40', '12.50')
    """
    whole, part = divmod(amount, CENT)
    return f"{whole}.{part:02d}" if part else str(whole)


def _limits(low: str, high: str) -> str:
    return f"of at most {high}" if low == "0" else f"from {low} to {high}"
