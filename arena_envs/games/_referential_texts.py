"""What a seat is told in the referential game."""

from collections.abc import Iterator, Sequence

from arena_envs.game import CHANCE, TERMINAL
from arena_envs.games import _talk as talk
from arena_envs.games._talk import Utterance
from arena_envs.games._words import counted

ROLES = ("describer", "picker")


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
        return f"{start} Chance draws."
    task = ("describe the target", "pick an object")[player]
    who = "You are" if player == seat else f"player_{player} is"
    return f"{start} Round {number + 1} of {num_rounds}. {who} to move: {task}."


def objects_text(names: Sequence[str], seat: int) -> str:
    """The objects in the order of the seat, which the picker reads with numbers."""
    if not names:
        return "No object has been drawn yet."
    if seat == 0:
        return f"The objects are: {', '.join(names)}."
    numbered = [f"{number}. {name}" for number, name in enumerate(names, 1)]
    return f"The objects are: {', '.join(numbered)}."


def history(
    said: Sequence[Utterance],
    targets: Sequence[str],
    picked: Sequence[str],
    seat: int,
) -> Iterator[str]:
    """The past as a seat reads it: the latest rounds in full, of earlier ones the picks.

    Args:
        said: all utterances.
        targets: names of the targets that the seat knows.
        picked: names of the objects picked so far.
        seat: who reads the text.
    """

    def told(turn: int) -> str:
        number, speaker = turn // 2, turn % 2
        who = "you" if speaker == seat else f"player_{speaker}"
        if speaker == 0:
            return f"Round {number + 1}: {who} said"
        return f"Round {number + 1}: {who} picked {result(number)}"

    def result(number: int) -> str:
        if picked[number] == targets[number]:
            return f"{picked[number]}, which was right"
        return f"{picked[number]}, which was wrong: the target was {targets[number]}"

    def brief(turn: int) -> str:
        if turn % 2 == 0:
            return ""
        number = turn // 2
        is_right = picked[number] == targets[number]
        return f"{number + 1}. {picked[number]} ({'right' if is_right else 'wrong'})"

    latest = 4 + len(said) % 2
    yield from talk.transcript(
        said, seat, told, latest=latest, brief=brief, num_listed=None
    )


def rules_text(
    seat: int, num_objects: int, num_rounds: int, values: Sequence[Sequence[str]]
) -> str:
    """The rules as this seat reads them, without the paragraph about messages."""
    kinds = "; ".join(", ".join(row) for row in values)
    numbers = f"1 to {num_objects}"
    places = (
        f"player_1 sees them in another order, with the numbers {numbers}, which player_0 "
        "does not know."
    )
    turns = (
        'player_0 says something about the target, in words. player_1 answers "pick" and the '
        'number of an object in its own list, such as "pick 2".'
    )
    rounds = (
        "There is 1 round."
        if num_rounds == 1
        else f"There are {num_rounds} rounds with the same objects, and a new target is drawn "
        "in each."
    )
    return (
        f"This is a game of a describer (player_0) and a picker (player_1), who win or lose "
        f"together. There are {num_objects} different objects, which both players see. "
        f"{places} An object has one of each of these: {kinds}. One object is the target, each "
        f"equally likely, and only player_0 knows which. {turns} {rounds} After each round both "
        f"learn which object was picked, and player_1 learns the target. Your score, which is "
        f"the score of both, is the share of right picks. You are the {ROLES[seat]}."
    )
