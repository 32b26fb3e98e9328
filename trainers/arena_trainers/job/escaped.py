"""What a model wrote, as a terminal may show it."""

MAX_SHOWN = 200  # characters


def escaped(text: str) -> str:
    r"""The start of a text in quotes: ASCII alone, without control characters.

    >>> print(escaped("bet" + chr(27) + "[2J"))
    'bet\x1b[2J'
    """
    return ascii(text[:MAX_SHOWN]) + ("..." if text[MAX_SHOWN:] else "")
