"""What a seat is told in Say-Select: the rules, the balls, and what was said and done."""

from collections.abc import Iterator, Sequence

from arena_envs.game import CHANCE, TERMINAL
from arena_envs.games import _talk as talk
from arena_envs.games._talk import Utterance
from arena_envs.games._words import counted, over_text


def stage_text(
    player: int, seat: int, number: int, num_rounds: int, score: float
) -> str:
    """Who reads the text and whose turn it is.

    Args:
        player: what `current_player` returns.
        seat: who reads the text.
        number: rounds that are over.
        num_rounds: of the game.
        score: so far.
    """
    start = f"You are player_{seat}."
    if player == TERMINAL:
        return f"{start} {over_text(score)}"
    if player == CHANCE:
        return f"{start} The balls are being drawn."
    task = "select a ball or quit" if player else "name a ball"
    who = "You are" if player == seat else f"player_{player} is"
    return (
        f"{start} Round {number + 1} of {num_rounds}. The score is {score:.0f}. "
        f"{who} to move: {task}."
    )


def left_text(left: Sequence[int]) -> str:
    """Which balls still pay, as the first player reads it."""
    if not left:
        return "No ball pays 1 any more; every ball pays -1."
    balls = ", ".join(map(str, left))
    return f"Balls that pay 1 now: {balls}. Every other ball pays -1."


def history(
    said: Sequence[Utterance], gains: Sequence[int], seat: int
) -> Iterator[str]:
    """The past as a seat reads it: the latest rounds in full, earlier selections in short.

    Args:
        said: all utterances.
        gains: what the selections have paid.
        seat: the reader.
    """

    def told(turn: int) -> str:
        number, speaker = turn // 2, turn % 2
        who = "you" if speaker == seat else f"player_{speaker}"
        start = f"Round {number + 1}: {who}"
        if said[turn].move == "quit":
            return f"{start} quit"
        ball = said[turn].values[0]
        if not speaker:
            return f"{start} named ball {ball}"
        return f"{start} selected ball {ball}, which paid {gains[number]}"

    def brief(turn: int) -> str:
        if turn % 2 == 0:
            return ""
        named, selected = (each.values[0] for each in said[turn - 1 : turn + 1])
        number = turn // 2
        return f"round {number + 1}: named {named} and selected {selected} for {gains[number]}"

    latest = 4 + len(said) % 2
    yield from talk.transcript(
        said, seat, told, latest=latest, brief=brief, num_listed=None
    )


def rules_text(num_balls: int, max_paying: int, num_rounds: int, speaks: bool) -> str:
    """The rules, for every seat, without the paragraph about messages.

    Args:
        num_balls: of the game.
        max_paying: most balls that pay.
        num_rounds: of the game.
        speaks: whether `player_0` may add a message.
    """
    some = "One of them pays 1, the others -1"
    if max_paying > 1:
        some = (
            f"From 1 to {max_paying} of them pay 1, the others -1; each number of paying "
            "balls is equally likely"
        )
    also = ", and may say something with it" if speaks else ""
    return (
        "This is a game for two players, who have the same score. There are balls with the "
        f"numbers 1 to {num_balls}. {some}. player_0 knows which balls pay, and player_1 does "
        f"not. There are at most {counted(num_rounds, 'round')}. In each round player_0 first "
        f'names a ball, such as "name 2", whether it pays or not{also}. Then player_1 selects '
        'any ball, such as "select 2", or ends the game with "quit". A ball that was selected '
        "pays -1 from then on. Both players see what a selected ball has paid. The score is "
        "the sum of what the selected balls have paid."
    )
