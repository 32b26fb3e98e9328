"""The rules of the donor game as text."""

from typing import Protocol

from arena_envs.games._donor_units import UNIT
from arena_envs.games._words import counted


class Setup(Protocol):
    """The parameters of `DonorGame`."""

    @property
    def num_players(self) -> int: ...
    @property
    def num_rounds(self) -> int: ...
    @property
    def start(self) -> int: ...
    @property
    def multiplier(self) -> int: ...
    @property
    def gift_step(self) -> int: ...
    @property
    def punishment(self) -> bool: ...


def rules_text(game: Setup, seat: int) -> str:
    """What a seat is told before the first round."""
    n, step = game.num_players, game.gift_step
    whom = (
        "In each round you give to the other player and receive from it. Both choose"
        if n == 2
        else "In each round it is drawn who gives to whom: every player gives to one "
        "other player and receives from one, and nobody gives to the same player again "
        "before having given to all others. All choose"
    )
    shares = (
        'You write "give 0%" or "give 100%" of your units.'
        if step == 100
        else "You write which share of your units you give away, from "
        f'"give 0%" to "give 100%" in steps of {step}%.'
    )
    punish = (
        'Or you write "punish": you pay 1 unit, if you have it, and your recipient loses '
        "2 units, or all that it has after the gifts of the round. "
    )
    return (
        f"This is a donor game of {counted(game.num_rounds, 'round')} for {n} players. "
        f"You are player_{seat}. Everybody starts with {units(game.start * UNIT)}. "
        f"{whom} at the same time, without seeing what is chosen in this round. {shares} "
        "You lose the gift, and your recipient receives "
        f"{game.multiplier} times the gift, which it can give away from the next round "
        "on. Gifts are rounded down to 0.01 units; a share that comes to less cannot be "
        f"given. {punish if game.punishment else ''}After the round, everybody sees all "
        "choices. Your score is the number of units that you have at the end, less "
        f"the {game.start} that you start with."
    )


def units(hundredths: int) -> str:
    """An amount with its unit.

    >>> units(100), units(1250)
    ('1 unit', '12.50 units')
    """
    if hundredths % UNIT:
        return f"{hundredths / UNIT:.2f} units"
    return counted(hundredths // UNIT, "unit")
