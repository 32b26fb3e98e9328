"""What a seat is told in bargaining: the rules, the state of play and what was said."""

from collections.abc import Iterator, Sequence

from arena_envs.game import CHANCE, TERMINAL
from arena_envs.games import _talk as talk
from arena_envs.games._talk import Utterance, money


def speaker_of(turn: int) -> int:
    """Who speaks in this turn: player_0 offers first, and who answers offers next."""
    return (turn + 1) // 2 % 2


def history(said: Sequence[Utterance], seat: int, whole: int) -> Iterator[str]:
    """The past as a seat reads it: the latest utterances in full, of earlier ones the offers."""

    def told(turn: int) -> str:
        what = _told(said[turn], speaker_of(turn), seat, whole)
        return f"Round {turn // 2 + 1}: {what}"

    def brief(turn: int) -> str:
        if turn % 2:
            return ""
        amount = money(said[turn].values[0])
        return f"player_{speaker_of(turn)} offered {amount} (round {turn // 2 + 1})"

    return talk.transcript(said, seat, told, brief=brief)


def _told(said: Utterance, speaker: int, seat: int, whole: int) -> str:
    who = "you" if speaker == seat else f"player_{speaker}"
    if said.move != "offer":
        return f"{who} {said.move}ed"
    whom = f"player_{1 - speaker}" if speaker == seat else "you"
    (given,) = said.values
    return f"{who} offered {whom} {money(given)}, keeping {money(whole - given)}"


def stage_text(
    player: int, seat: int, turn: int, num_rounds: int, got: Sequence[int] | None
) -> str:
    """Whose turn it is, or how the game ended.

    Args:
        player: what `current_player` returns.
        seat: who reads the text.
        turn: number of utterances so far.
        num_rounds: of the game.
        got: hundredths of money that each seat gets by an agreement; None without one.
    """
    if player == CHANCE:
        return "The discount factors are being drawn."
    if got is not None:
        return (
            f"The game is over: agreement in round {turn // 2}, player_0 gets "
            f"{money(got[0])}, player_1 gets {money(got[1])}."
        )
    if player == TERMINAL:
        return "The game is over without an agreement: both players get nothing."
    who = "You are" if player == seat else f"player_{player} is"
    task = "answer the offer" if turn % 2 else "make an offer"
    return f"Round {turn // 2 + 1} of {num_rounds}. {who} to move: {task}."


def worth_text(
    discounts: Sequence[float], seat: int, num_past: int, complete_information: bool
) -> str:
    """What money is worth to a seat, and to the other one where the seat knows it.

    Args:
        discounts: the discount factors of both seats.
        seat: who reads the text.
        num_past: rounds that have passed, each of which discounts once.
        complete_information: whether both seats know both factors.
    """
    own, its = discounts[seat], discounts[1 - seat]
    text = (
        f"Money is worth {100 * own**num_past:.4g}% to you (discount factor {own:.10g})"
    )
    other = f"player_{1 - seat}"
    if not complete_information:
        return f"{text}; what it is worth to {other} is hidden."
    return f"{text} and {100 * its**num_past:.4g}% to {other} ({its:.10g})."


def rules_text(
    pie: int,
    num_rounds: int,
    discounts: Sequence[Sequence[float]],
    complete_information: bool,
) -> str:
    """The rules, for either seat, without the paragraph about messages."""
    gives, keeps = money(40 * pie), money(60 * pie)
    order = (
        "There is 1 round: player_0 makes an offer and player_1 answers."
        if num_rounds == 1
        else f"There are at most {num_rounds} rounds. In round 1 player_0 makes an offer "
        "and player_1 answers; after that they take turns in making offers."
    )
    rejected = _rejection_text(pie, num_rounds, discounts, complete_information)
    return (
        f"This is bargaining: player_0 and player_1 divide {pie} of money. {order} "
        f'"offer {gives}" offers {gives} to the other player and leaves {keeps} to the '
        f"one who offers; an offer is any amount from 0 to {pie} with at most two decimals. "
        'The other player answers with "accept" or "reject". "accept" ends the game with '
        f"this division; {rejected}"
    )


def _rejection_text(
    pie: int,
    num_rounds: int,
    discounts: Sequence[Sequence[float]],
    complete_information: bool,
) -> str:
    """What follows a rejection, and how the score is computed."""
    if num_rounds == 1:
        return (
            '"reject" ends it, and both players get nothing. Your score is what you get, '
            f"divided by {pie}."
        )
    first, second = map(_possible, discounts)
    known = (
        "Both players know both factors."
        if complete_information
        else "You know your own factor, and not that of the other player."
    )
    return (
        '"reject" ends the round, and whoever rejected makes the next offer. If the '
        "offer of the last round is rejected, both players get nothing. Each player has a "
        "discount factor: what a player gets in round 2 is worth this factor times the "
        "money, in round 3 the factor times the factor times the money, and so on. The "
        f"factor of player_0 is {first}, that of player_1 is {second}. {known} Your score "
        f"is what you get, divided by {pie} and discounted."
    )


def _possible(discounts: Sequence[float]) -> str:
    *others, last = [f"{discount:.10g}" for discount in discounts]
    if not others:
        return last
    return f"{', '.join(others)} or {last} (drawn with equal chances)"


def checked_discounts(
    discounts: Sequence[Sequence[float]],
) -> tuple[tuple[float, ...], ...]:
    """The factors as tuples of floats.

    Raises:
        ValueError: they are not two sets of numbers above 0 and at most 1.
    """
    try:
        sets = tuple(tuple(values) for values in discounts)
        valid = len(sets) == 2 and all(
            len(values) == len(set(values)) > 0 and all(0 < d <= 1 for d in values)
            for values in sets
        )
    except TypeError:
        valid = False
    if not valid:
        raise ValueError(
            "want discounts as distinct numbers above 0 and at most 1 for each of two "
            f"seats, got {discounts!r}"
        )
    return tuple(tuple(map(float, values)) for values in sets)
