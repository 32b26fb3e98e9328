"""Scenes of games in which one player finds out a secret."""

from collections.abc import Sequence

from arena_envs.game import TERMINAL, AnyGame
from arena_envs.games._secrets import State
from arena_envs.games.guess_number import ANSWERS, RIGHT, GuessNumber
from arena_envs.games.twenty_questions import TwentyQuestions
from arena_envs.games.wordle import Wordle
from arena_envs.scenes.registry import turn_title
from arena_envs.scenes.shapes import Card, Cards, Cell, Grid, Scene, Table

MAX_ROWS = 12  # latest turns that are shown
TONES = ("gone", "yellow", "green")  # of marks, by their number


def guess_number(game: GuessNumber, state: State, viewer: int | None) -> Scene:
    """The number, and the guesses with their answers."""
    rows = [
        (str(action + 1), Cell(ANSWERS[answer], "green" if answer == RIGHT else ""))
        for action, answer in zip(state.asked, game.answers(state), strict=True)
    ]
    number = str(state.secret + 1)
    return _scene(game, state, viewer, ("number", number), ("guess", "answer"), rows)


def twenty_questions(game: TwentyQuestions, state: State, viewer: int | None) -> Scene:
    """The thing, and the questions with their answers."""
    rows = [
        (
            game.action_text(state, action),
            Cell(game.told(action, answer), "green" if answer else ""),
        )
        for action, answer in zip(state.asked, game.answers(state), strict=True)
    ]
    thing = game.facts.things[state.secret]
    return _scene(game, state, viewer, ("thing", thing), ("question", "answer"), rows)


def wordle(game: Wordle, state: State, viewer: int | None) -> Scene:
    """The guesses with the colors of their letters, and the word."""
    told = list(zip(state.asked, game.answers(state), strict=True))[-MAX_ROWS:]
    rows = [
        [
            Cell(letter.upper(), TONES[mark])
            for letter, mark in zip(
                game.listed[action], game.digits(answer), strict=True
            )
        ]
        for action, answer in told
    ]
    labels = [game.marks_text(answer).replace(" ", "") for _, answer in told]
    num_free = min(game.max_turns - len(state.asked), MAX_ROWS - len(rows))
    rows += [[Cell()] * len(game.listed[0])] * num_free
    title = "guesses; G, green: in this place; Y, yellow: in another place"
    word = game.listed[state.secret]
    is_open = viewer is None or game.current_player(state) == TERMINAL
    cards = [Card(word if is_open else None)] if state.secret >= 0 else []
    board = Grid(rows, title, labels + [""] * num_free)
    return Scene(turn_title(game, state, viewer), [Cards("word", cards), board])


def _scene(
    game: AnyGame,
    state: State,
    viewer: int | None,
    secret: tuple[str, str],
    header: tuple[str, str],
    rows: Sequence[tuple[str, Cell]],
) -> Scene:
    """The secret as a card, and a table of actions and answers.

    Args:
        game: the rules.
        state: a state.
        viewer: the seat that looks, or None.
        secret: what it is called, and its text.
        header: what actions and answers are called.
        rows: all actions and answers.
    """
    title, text = secret
    is_open = viewer is None or game.current_player(state) == TERMINAL
    cards = [Card(text if is_open else None)] if state.secret >= 0 else []
    cells = [
        [Cell(str(turn)), Cell(action), answer]
        for turn, (action, answer) in enumerate(rows, 1)
    ]
    used = f"{len(cells)} of {game.max_turns} turns used"
    if len(cells) > MAX_ROWS:
        used += f"; the latest {MAX_ROWS} turns"
    table = Table(used, ("turn", *header), cells[-MAX_ROWS:])
    return Scene(turn_title(game, state, viewer), [Cards(title, cards), table])
