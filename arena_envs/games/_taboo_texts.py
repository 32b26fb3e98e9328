"""What a seat is told in taboo."""

from collections.abc import Iterator, Sequence

from arena_envs.game import CHANCE, TERMINAL
from arena_envs.games import _talk as talk
from arena_envs.games._talk import Utterance
from arena_envs.games._words import counted

ROLES = {False: ("describer", "guesser"), True: ("attacker", "defender")}
TASKS = {
    False: ("give a clue", "guess the word"),
    True: ("say something", "say something or guess the word"),
}


def stage_text(
    player: int, seat: int, rounds: tuple[int, int], adversarial: bool
) -> str:
    """Who reads the text and whose turn it is.

    Args:
        player: what `current_player` returns.
        seat: who reads the text.
        rounds: those that are over, and all.
        adversarial: whether the players are opponents.
    """
    start = f"You are player_{seat}, the {ROLES[adversarial][seat]}."
    if player == TERMINAL:
        return f"{start} The game is over."
    if player == CHANCE:
        return f"{start} The word is being drawn."
    who = "You are" if player == seat else f"player_{player} is"
    task = TASKS[adversarial][player]
    return f"{start} Round {rounds[0] + 1} of {rounds[1]}. {who} to move: {task}."


def word_text(word: str, forbidden: Sequence[str]) -> str:
    """The word, and what must not be said."""
    others = f", nor: {', '.join(forbidden)}" if forbidden else ""
    return f"The word is: {word}. You must not say it{others}."


def end_text(end: str, num_rounds: int, word: str) -> str:
    """How the game ended.

    Args:
        end: of the state; empty if all rounds are over.
        num_rounds: of the game.
        word: that was drawn.
    """
    told = {
        "broken": "player_0 said a word that it must not say",
        "said": "player_1 said the word",
        "guessed": "player_1 guessed the word",
        "missed": "player_1 made a wrong guess",
        "": f"{counted(num_rounds, 'round')} passed without a right guess",
    }
    return f"{told[end]}. The word was: {word}."


def history(said: Sequence[Utterance], seat: int) -> Iterator[str]:
    """The past as a seat reads it: the latest rounds in full, of earlier ones the guesses."""

    def told(turn: int) -> str:
        speaker, each = turn % 2, said[turn]
        who = "you" if speaker == seat else f"player_{speaker}"
        does = "said" if each.move == "say" else f"guessed {each.values[0]}"
        return f"Round {turn // 2 + 1}: {who} {does}"

    def brief(turn: int) -> str:
        each = said[turn]
        return f"{turn // 2 + 1}. guessed {each.values[0]}" if each.values else ""

    latest = 4 - len(said) % 2
    yield from talk.transcript(
        said, seat, told, latest=latest, brief=brief, num_listed=None
    )


MATCHING = (
    "A word counts in any form, such as its plural, in any case, and with its letters spelled "
    "out or disguised; as a part of a longer word it does not count."
)


def rules_text(seat: int, num_rounds: int, num_forbidden: int) -> str:
    """The rules of taboo, without words to choose from and the paragraph about messages."""
    words = "the word itself"
    if num_forbidden:
        words += f" or {_forbidden(num_forbidden)}"
    return (
        "This is taboo, a game of a describer (player_0) and a guesser (player_1), who win or "
        "lose together. An English word has been drawn, and only player_0 knows it. "
        f"There are {counted(num_rounds, 'round')}. In each round player_0 gives a clue in free "
        f"words, and player_1 guesses a word, such as "
        f'"guess house". No clue may say {words}: if a clue does, the game ends and both score 0. '
        f"{MATCHING} The game ends with the right guess. If guess number t is right, both of you "
        f"score ({num_rounds + 1} - t) / {num_rounds}; if none is, 0. "
        f"You are the {ROLES[False][seat]}."
    )


def adversarial_text(seat: int, num_rounds: int, num_forbidden: int) -> str:
    """The rules of adversarial taboo, without the paragraph about messages."""
    words = "the word"
    if num_forbidden:
        words += f" or {_forbidden(num_forbidden)}"
    return (
        "This is adversarial taboo, a game of an attacker (player_0) and a defender (player_1), "
        "who are opponents. An English word has been drawn, and only player_0 knows it. There "
        f"are {counted(num_rounds, 'round')}. In each round first player_0 says something, and "
        "then player_1 says something or guesses the word. player_0 wins if player_1 says the "
        "word in a message. "
        f"player_0 loses if it says {words} itself. {MATCHING} "
        'player_1 can guess once, such as "guess house": it wins if the guess is right, and loses '
        "if it is wrong. If all rounds pass, nobody wins. You score 1 if you win, -1 if you "
        f"lose, else 0. You are the {ROLES[True][seat]}."
    )


def _forbidden(num_forbidden: int) -> str:
    if num_forbidden == 1:
        return "a forbidden word, which only player_0 knows"
    return f"one of {num_forbidden} forbidden words, which only player_0 knows"
