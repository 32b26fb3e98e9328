"""What a seat is told in codenames."""

from collections.abc import Iterator, Sequence

from arena_envs.game import CHANCE, TERMINAL
from arena_envs.games import _talk as talk
from arena_envs.games._codenames_state import ASSASSIN, NEUTRAL, State

TEAMS = ("red", "blue")
SEATS = tuple(
    f"the {role} of team {team}"
    for team in TEAMS
    for role in ("spymaster", "operative")
)
NAMES = {"0": "red", "1": "blue", ASSASSIN: "the assassin", NEUTRAL: "neutral"}


def stage_text(state: State, player: int, seat: int) -> str:
    """Who reads the text and whose turn it is.

    Args:
        state: of the game.
        player: what `current_player` returns.
        seat: who reads the text.
    """
    start = f"You are player_{seat}, {SEATS[seat]}."
    if player == CHANCE:
        return f"{start} The board is being drawn."
    if player == TERMINAL:
        return f"{start} The game is over: team {TEAMS[state.winner]} wins."
    who = "You are" if player == seat else f"player_{player}, {SEATS[player]}, is"
    if player % 2 == 0:
        return f"{start} {who} to move: give a clue."
    left = f"{state.left} guess{'' if state.left == 1 else 'es'}"
    may = " or stop" if state.said[-1].move == "guess" else ""
    return f"{start} {who} to move: guess a word{may}. {left} left."


def board_lines(
    words: Sequence[str], key: str, guessed: Sequence[int], hidden: Sequence[int]
) -> Iterator[str]:
    """The words by their roles, as far as these are known, and the words that are left.

    Args:
        words: on the board.
        key: role of each word, as far as the reader knows it.
        guessed: places of the words guessed so far.
        hidden: how many words each team has yet to find.
    """
    free = [place for place in range(len(words)) if place not in guessed]
    if "?" in key:
        yield f"Words on the board: {', '.join(words[place] for place in free)}."
    else:
        for role, name in NAMES.items():
            found = ", ".join(words[p] for p in free if key[p] == role)
            label = name if role == ASSASSIN else f"{name} words"
            yield f"On the board, {label}: {found or 'none'}."
    if guessed:
        told = ", ".join(f"{words[place]} ({NAMES[key[place]]})" for place in guessed)
        yield f"Guessed: {told}."
    yield f"Words to find: red {hidden[0]}, blue {hidden[1]}."


def history(state: State, seat: int) -> Iterator[str]:
    """All clues and guesses."""

    def brief(turn: int) -> str:
        said, speaker = state.said[turn], state.seats[turn]
        who = "you" if speaker == seat else f"player_{speaker}"
        if said.move == "clue":
            return f"{who} gave the clue {said.values[0]} {said.values[1]}"
        return f"{who} guessed {said.values[0]}" if said.values else f"{who} stopped"

    def told(turn: int) -> str:
        return f"Turn {turn + 1}: {brief(turn)}"

    yield from talk.transcript(
        state.said, seat, told, latest=6, brief=brief, num_listed=None
    )


def rules_text(seat: int, num_words: int, num_agents: int) -> str:
    """The rules as this seat reads them."""
    neutral = num_words - 2 * num_agents - 2
    how = (
        'You give a clue with "clue", a word and a number: "clue animal 2".',
        'You guess with "guess" and a word on the board: "guess dog". "stop" ends the turn.',
    )
    return (
        "This is codenames, a game of two teams. Team red is player_0, its spymaster, and "
        "player_1, its operative; team blue is player_2, its spymaster, and player_3, its "
        f"operative. {num_words} words are on the board: {num_agents + 1} are red, "
        f"{num_agents} {'is' if num_agents == 1 else 'are'} blue, {neutral} are neutral, and one is "
        "the assassin. Only the spymasters know which. Red begins, and the teams take turns. The "
        "spymaster says a clue: one word and a "
        f"number from 1 to {num_agents + 1}, which says how many words the clue is about. "
        "Then the operative guesses words on the board, at least one and at most one more than the "
        "number. Each word that is guessed leaves the board, and all learn what it was. If it is "
        "not of the team's own color, the turn ends. After a guess the operative may stop. A team "
        "wins when all its words are guessed, by either team, and it loses at once if it guesses "
        "the assassin. A clue must not be a word on the board in any form, such as its plural, and "
        "neither may start or end with the other if both have four letters or more. "
        f"If your team wins you score 1, else -1. You are player_{seat}, {SEATS[seat]}. "
        f"{how[seat % 2]} Your action has no message."
    )
