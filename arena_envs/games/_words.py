"""Words that the texts of several games share."""


def counted(number: int, noun: str) -> str:
    """A number with its noun, which takes an s unless the number is 1.

    >>> counted(1, "card"), counted(0, "card")
    ('1 card', '0 cards')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def over_text(score: float) -> str:
    """That the game is over, and a seat's score.

    >>> over_text(-0.0), over_text(1 / 3)
    ('The game is over: your score is 0.', 'The game is over: your score is 0.3333.')
    """
    return f"The game is over: your score is {round(score, 4) + 0.0:.10g}."
