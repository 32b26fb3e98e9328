"""What scripted players that have a style share."""

from collections.abc import Iterable


def check_style(style: object, styles: Iterable[str]) -> None:
    """Refuses a style that is none of `styles`.

    Raises:
        ValueError: the style is another one.
    """
    known = list(styles)
    if style not in known:
        raise ValueError(f"want a style among {', '.join(known)}, got {style!r:.80}")
