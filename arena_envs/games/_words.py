"""Words that the texts of several games share."""


def counted(number: int, noun: str) -> str:
    """A number with its noun, which takes an s unless the number is 1.

    >>> counted(1, "card"), counted(0, "card")
    ('1 card', '0 cards')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"
