"""Colors of pictures, as CSS classes.

`f-NAME` fills with a color, `k-NAME` draws lines in it, and `o-TONE` is the color of text on
a tone. There are no CSS variables, because rasterisers do not read them.
"""

TONES = {  # fill, and text on it
    "seat0": ("#2563eb", "#ffffff"),
    "seat1": ("#c2410c", "#ffffff"),
    "seat2": ("#15803d", "#ffffff"),
    "seat3": ("#7e22ce", "#ffffff"),
    "seat4": ("#0e7490", "#ffffff"),
    "seat5": ("#be185d", "#ffffff"),
    "red": ("#dc2626", "#ffffff"),
    "yellow": ("#facc15", "#111827"),
    "green": ("#16a34a", "#ffffff"),
    "white": ("#ffffff", "#111827"),
    "blue": ("#1d4ed8", "#ffffff"),
    "dark": ("#1f2937", "#ffffff"),
    "light": ("#f1f5f9", "#111827"),
    "gone": ("#9ca3af", "#111827"),
}
SURFACES = {  # on light and on dark paper
    "paper": ("#ffffff", "#111827"),
    "ink": ("#111827", "#f3f4f6"),
    "soft": ("#4b5563", "#b6bdc9"),
    "line": ("#94a3b8", "#64748b"),
    "cell": ("#f1f5f9", "#273449"),
    "shade": ("#d3dce8", "#3b4a61"),
    "back": ("#64748b", "#475569"),
    "mark": ("#d97706", "#fbbf24"),
    "bubble": ("#e8eef6", "#26324a"),
}
FONT = "'DejaVu Sans Mono',Menlo,Consolas,'Liberation Mono',monospace"


def surfaces_css(dark: bool) -> str:
    """The rules of all colors that depend on the paper."""
    return "".join(
        f".f-{name}{{fill:{pair[dark]}}}.k-{name}{{stroke:{pair[dark]}}}"
        for name, pair in SURFACES.items()
    )


def css() -> str:
    """All rules that a picture needs, for light paper."""
    tones = "".join(
        f".f-{name}{{fill:{fill}}}.o-{name}{{fill:{text}}}"
        for name, (fill, text) in TONES.items()
    )
    return f"text{{font-family:{FONT}}}{surfaces_css(dark=False)}{tones}"
