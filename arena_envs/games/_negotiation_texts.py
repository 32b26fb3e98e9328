"""Checks of parameters of negotiation, its measures, and what a seat is told."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from arena_envs.game import CHANCE, TERMINAL
from arena_envs.games import _talk as talk
from arena_envs.games._talk import CENT, Utterance, money

ROLES = ("seller", "buyer")


class Parameters(Protocol):
    """The parameters that the rules tell."""

    @property
    def scale(self) -> int: ...
    @property
    def num_rounds(self) -> int: ...
    @property
    def factors(self) -> Sequence[Sequence[float]]: ...
    @property
    def outside(self) -> Sequence[float]: ...
    @property
    def complete_information(self) -> bool: ...


def stage_text(
    player: int, seat: int, turn: int, num_rounds: int, price: int | None
) -> str:
    """Whose turn it is, or how the game ended.

    Args:
        player: what `current_player` returns.
        seat: who reads the text.
        turn: number of utterances so far.
        num_rounds: of the game.
        price: of the sale, in hundredths; None without one.
    """
    if player == CHANCE:
        return "The values are being drawn."
    if price is not None:
        return f"The game is over: the product is sold for {money(price)} in round {turn // 2}."
    if player == TERMINAL:
        return "The game is over without a sale."
    who = "You are" if player == seat else f"player_{player} is"
    task = "answer the offer" if turn % 2 else "offer a price"
    return f"Round {turn // 2 + 1} of {num_rounds}. {who} to move: {task}."


def worth_text(values: Sequence[int], seat: int, is_known: bool) -> str:
    """What the product is worth to a seat, and to the other one where the seat knows it."""
    other = f"player_{1 - seat}"
    told = (
        f" and {money(values[1 - seat])} to {other}."
        if is_known
        else f"; what it is worth to {other} is hidden."
    )
    return f"The product is worth {money(values[seat])} to you{told}"


def history(said: Sequence[Utterance], seat: int) -> Iterator[str]:
    """The past as a seat reads it: the latest utterances in full, of earlier ones the prices."""

    def who(turn: int) -> str:
        speaker = (turn + 1) // 2 % 2
        return "you" if speaker == seat else f"player_{speaker}"

    def told(turn: int) -> str:
        move, *_ = each = said[turn]
        what = {"accept": "accepted", "reject": "rejected", "leave": "left"}.get(move)
        price = f"offered a price of {money(each.values[0])}" if what is None else what
        return f"Round {turn // 2 + 1}: {who(turn)} {price}"

    def brief(turn: int) -> str:
        if turn % 2:
            return ""
        return (
            f"{who(turn)} offered {money(said[turn].values[0])} (round {turn // 2 + 1})"
        )

    return talk.transcript(said, seat, told, brief=brief)


def measured(
    price: int | None, seller: int, buyer: int, scale: int
) -> dict[str, float]:
    """The measures of a sale at this price, or of no sale; all in hundredths."""
    efficient, fairness = seller >= buyer, 1.0
    if price is not None:
        efficient = seller <= price <= buyer
        fairness = 1 - 4 * ((price - (seller + buyer) / 2) / scale) ** 2
    return {
        "agreement": float(price is not None),
        "efficiency": float(efficient),
        "fairness": fairness,
    }


def rules_text(game: Parameters) -> str:
    """The rules, for either seat, without the paragraph about messages."""
    scale, highest = game.scale, 2 * game.scale
    order = (
        "There is 1 round: player_0 offers a price and player_1 answers."
        if game.num_rounds == 1
        else f"There are at most {game.num_rounds} rounds. In round 1 player_0 offers a price "
        "and player_1 answers; after that they take turns in making offers."
    )
    seller, buyer = (_possible(values, scale) for values in game.factors)
    known = (
        "Both players know both values."
        if game.complete_information
        else "You know your own value, and not that of the other player."
    )
    return (
        f"This is negotiation: player_0, the seller, has a product, and player_1, the buyer, "
        f"may buy it. The product is worth {seller} to player_0 and {buyer} to player_1. {known} "
        f'{order} "offer {scale}" offers to sell, or to buy, for {scale}; a price is any amount '
        f"from 0 to {highest} with at most two decimals. The other player answers with "
        '"accept", "reject" or "leave". "accept" ends the game with a sale at this price. '
        f'"reject" ends the round{_next_text(game.num_rounds)}. "leave" ends the game without '
        f"a sale. {_pay_text(game)}"
    )


def _next_text(num_rounds: int) -> str:
    if num_rounds == 1:
        return " and the game, without a sale"
    return (
        ", and whoever rejected makes the next offer; if the offer of the last round is "
        "rejected, there is no sale"
    )


def _pay_text(game: Parameters) -> str:
    first, second = (money(round(game.scale * CENT * share)) for share in game.outside)
    without = (
        "Without a sale both get 0."
        if first == second == "0"
        else f"Without a sale player_0 gets {first} and player_1 gets {second}."
    )
    return (
        "With a sale player_0 gets the price less the product's value to player_0, and "
        "player_1 gets its value to player_1 less the price. This may be a loss. "
        f"{without} Your score is what you get, divided by {game.scale}."
    )


def _possible(factors: Sequence[float], scale: int) -> str:
    *others, last = [money(round(scale * CENT * factor)) for factor in factors]
    if not others:
        return last
    return f"{', '.join(others)} or {last} (drawn with equal chances)"


def checked_factors(
    factors: Sequence[Sequence[float]],
) -> tuple[tuple[float, ...], ...]:
    """The factors as tuples of floats.

    Raises:
        ValueError: they are not two sets of numbers above 0 and at most 2.
    """
    try:
        sets = tuple(tuple(values) for values in factors)
        valid = len(sets) == 2 and all(
            len(values) == len(set(values)) > 0
            and all(0 < f <= 2 and abs(100 * f - round(100 * f)) < 1e-9 for f in values)
            for values in sets
        )
    except (TypeError, ValueError, OverflowError):
        valid = False
    if not valid:
        raise ValueError(
            "want factors as distinct numbers above 0 and at most 2, with at most two "
            f"decimals, for each of two seats, got {factors!r:.80}"
        )
    return tuple(tuple(map(float, values)) for values in sets)


def checked_outside(outside: Sequence[float]) -> tuple[float, float]:
    """The outside options as floats.

    Raises:
        ValueError: they are not two numbers from 0 to 1.
    """
    try:
        first, second = outside
        valid = 0 <= first <= 1 and 0 <= second <= 1
    except (TypeError, ValueError):
        valid = False
    if not valid:
        raise ValueError(
            f"want outside as a number from 0 to 1 for each of two seats, got {outside!r:.80}"
        )
    return float(first), float(second)
