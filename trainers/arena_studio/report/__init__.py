"""Shows recorded episodes: a page of replays, a sheet of pictures, and steps in a terminal.

`write_replay` writes the page that `arena replay FILE --page OUT` makes. A page of another kind
can embed the same replay: `page_data` gives its data, `replay.js` and `replay.css` show it.
"""

from arena_studio.report.episodes import BadLine as BadLine
from arena_studio.report.episodes import Recorded as Recorded
from arena_studio.report.episodes import read_lines as read_lines
from arena_studio.report.page import replay_page as replay_page
from arena_studio.report.page import write_replay as write_replay
from arena_studio.report.replay_data import packed as packed
from arena_studio.report.replay_data import page_data as page_data
