"""What a seat is told in the collaborative maze: the rules, the map, and what was said."""

from collections.abc import Iterator, Sequence

from arena_envs.games import _maze as maze
from arena_envs.games import _talk as talk
from arena_envs.games._words import counted

MAX_MOVES, MAX_MESSAGES = 3, 6  # latest ones that are shown


def stage_text(turn: int, seat: int, speaker: int, max_steps: int, num: int) -> str:
    """Whose turn it is.

    Args:
        turn: number of utterances so far.
        seat: who reads the text.
        speaker: whose turn it is.
        max_steps: of the game.
        num: of players.
    """
    step, place = divmod(turn, num)
    who = "you are" if speaker == seat else f"player_{speaker} is"
    order = "" if num == 1 else " first" if place == 0 else " too"
    return f"Step {step + 1} of {max_steps}: {who} to name a move{order}."


def map_lines(rows: maze.Rows, here: int, other: int | None) -> Iterator[str]:
    """The map with its legend; `other` is the seat that sees the rest, None in solo mode."""
    unseen = "" if other is None else f", ? seen by player_{other} only"
    yield f"Your map (# wall, . free{unseen}, @ where you are, G goal):"
    yield from maze.drawing(rows, here)


def said_lines(
    said: Sequence[talk.Utterance], speakers: Sequence[int], seat: int, num: int
) -> Iterator[str]:
    """What the players said, as a seat reads it."""

    def told(turn: int) -> str:
        who = "you" if speakers[turn] == seat else f"player_{speakers[turn]}"
        move = said[turn]
        did = "waited" if move.move == "wait" else f"named {move.values[0]}"
        return f"Step {turn // num + 1}: {who} {did}"

    turns = range(len(said))
    worded = [turn for turn in turns if said[turn].message][-MAX_MESSAGES:]
    shown = sorted({*turns[-MAX_MOVES:], *worded})
    return talk.transcript(said, seat, told, turns=shown, latest=len(shown))


def rules_text(size: int, max_steps: int, solo: bool) -> str:
    """The rules, for every seat, without the paragraph about messages."""
    goal = maze.name(size**2 - 1, size)
    grid = (
        f"a maze of cells a1 to {goal}: a letter for the column, from left to right, and a "
        "number for the row, from below"
    )
    way = f"You start at a1; the goal is {goal}. "
    moves = (
        '"move up", "move down", "move left" or "move right", or nothing with "wait"'
    )
    score = (
        f"The game ends at the goal, or after {counted(max_steps, 'step')}; the goal can "
        "always be reached with a step to spare. The score is 1 at the goal. Elsewhere it is "
        "1 - d / s, at least 0: d is the number of moves of a shortest way from there to the "
        "goal, s that of a shortest way from a1."
    )
    if solo:
        return (
            f"This is a game for one player, who walks through {grid}. {way}In each step you "
            f"name a move: {moves}. A move into a wall or out of the maze is lost. {score}"
        )
    return (
        f"This is a game of two players, who walk together through {grid}. {way}Each of you "
        "sees one half of the cells, like the squares of one color of a chessboard, and the "
        f"other player sees the other half. In each step both of you name a move: {moves}. "
        "One names first and the other hears it; player_0 is first in step 1, player_1 in "
        "step 2, and so on. If both name the same move, you walk; else you stay. A move into a "
        f"wall or out of the maze is lost. {score} Both players have the same score. You read "
        f"the latest {MAX_MOVES} moves, and the latest {MAX_MESSAGES} with a message."
    )
