"""What a seat is told in persuasion, and checks of its parameters."""

from collections.abc import Iterator, Sequence

from arena_envs.game import CHANCE, TERMINAL
from arena_envs.games import _talk as talk
from arena_envs.games._talk import Utterance
from arena_envs.games._words import counted

ROLES = ("seller", "buyer")
MYOPIC = (
    "Every round has another buyer, who is told how many of the products before were bought "
    "and how many of these had low quality, and nothing else about the past.",
    "Every round has another buyer. You are told how many of the products before were bought "
    "and how many of these had low quality.",
)


def stage_text(player: int, seat: int, number: int, num_rounds: int) -> str:
    """Who reads the text and whose turn it is.

    Args:
        player: what `current_player` returns.
        seat: who reads the text.
        number: rounds that are over.
        num_rounds: of the game.
    """
    start = f"You are player_{seat}, the {ROLES[seat]}."
    if player == TERMINAL:
        return f"{start} The game is over after {counted(num_rounds, 'round')}."
    if player == CHANCE:
        return (
            f"{start} Round {number + 1} of {num_rounds}. The quality is being drawn."
        )
    task = "buy or skip" if player else "recommend or warn"
    who = "You are" if player == seat else f"player_{player} is"
    return f"{start} Round {number + 1} of {num_rounds}. {who} to move: {task}."


def history(
    said: Sequence[Utterance], known: Sequence[str], seat: int
) -> Iterator[str]:
    """The past as a seat reads it: the latest rounds in full, the moves of earlier ones."""

    def told(turn: int) -> str:
        number, speaker = turn // 2, turn % 2
        who = "you" if speaker == seat else f"player_{speaker}"
        text = f"Round {number + 1}: {who} {_PAST[said[turn].move]}"
        if speaker and known[number]:
            text += f"; the quality was {known[number]}"
        return text

    def brief(turn: int) -> str:
        if turn % 2:
            return ""
        number = turn // 2
        quality = f" {known[number]}" if known[number] else ""
        moves = f"{_PAST[said[turn].move]} and {_PAST[said[turn + 1].move]}"
        return f"{number + 1}.{quality} {moves}"

    latest = 4 + len(said) % 2
    yield from talk.transcript(
        said, seat, told, latest=latest, brief=brief, num_listed=None
    )


_PAST = {
    "recommend": "recommended",
    "warn": "warned",
    "buy": "bought",
    "skip": "skipped",
}


def statistics(said: Sequence[Utterance], known: Sequence[str]) -> Iterator[str]:
    """What a myopic buyer reads: numbers about the past, and the advice of this round."""
    number = len(said) // 2
    bought = [known[n] for n in range(number) if said[2 * n + 1].move == "buy"]
    if number:
        yield (
            f"Products before: {number}. Bought: {len(bought)}. Bought, and of low quality: "
            f"{bought.count('low')}."
        )
    if len(said) % 2:
        told = f"Round {number + 1}: player_0 {_PAST[said[-1].move]}"
        yield from talk.transcript(said[-1:], 1, lambda turn: told)


def rules_text(seat: int, num_rounds: int, prior: float, value: float) -> str:
    """The rules for a seat, without what differs for myopic buyers, and about messages."""
    own = (
        "Your score is the share of products that are bought."
        if seat == 0
        else "Your score is the mean of your gains over all rounds."
    )
    return (
        f"This is persuasion, in {counted(num_rounds, 'round')}. In each round there is a new "
        f"product. Its quality is high with probability {prior:.4g}, else low. player_0, the "
        "seller, knows the quality, and player_1, the buyer, does not. First player_0 answers "
        '"recommend" or "warn", which need not be true. Then player_1 answers "buy" or "skip". '
        f"The price is 1. A product of high quality is worth {value:.10g} to player_1, one of "
        f"low quality 0. So buying high quality gains {value - 1:.10g}, and buying low quality "
        "loses 1. player_0 earns 1 for every product that is bought. player_1 learns the "
        f"quality of the products that it has bought. {own}"
    )
