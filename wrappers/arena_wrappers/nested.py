"""Parentheses in policy strings, which may hold policy strings."""

MAX_DEPTH = 20  # of parentheses; deeper strings would exhaust Python's stack


def is_balanced(text: str) -> bool:
    """Whether every parenthesis is closed, and none is deeper than `MAX_DEPTH`.

    >>> is_balanced("noisy:0.5(mcts:100)"), is_balanced("random)("), is_balanced("((")
    (True, False, False)
    """
    depth = 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if not 0 <= depth <= MAX_DEPTH:
            return False
    return depth == 0
