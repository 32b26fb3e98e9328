"""Shows recorded episodes: a page of replays, a sheet of pictures, and steps in a terminal.

`write_replay` writes the page that `arena replay FILE --html OUT` makes. A page of another kind
can embed the same replay: `page_data` gives its data, `replay.js` and `replay.css` show it.
"""

from arena_trainers.report.episodes import BadLine, Recorded, read_lines
from arena_trainers.report.page import packed, page_data, replay_page, write_replay

__all__ = [
    "BadLine",
    "Recorded",
    "packed",
    "page_data",
    "read_lines",
    "replay_page",
    "write_replay",
]
