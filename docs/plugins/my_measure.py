"""A measure, or a probe.

- **Protocol**: `arena_eval.measures.protocol.Measure`: a function of complete episodes, the game, a seat
  and options, which gives `{name: Estimate}`. It raises `ValueError` for a game that does not
  suit it. With a `name` and a method `question` it is a `Probe`: the policy is asked beside
  each turn; answers are never played, shown or trained.
- **Name**: `arena eval --measure my_measure:boldness`; the group is `arena.measures`.
- **Check**: `check_measure`.
"""

from statistics import fmean

from arena_eval.measures.estimates import estimated
from arena_eval.measures.testing import check_measure


def boldness(episodes, game, seat, *, word="bet"):
    """Share of the seat's replies with a word."""
    shares = [
        [float(word in turn.reply) for turn in episode.turns if turn.seat == seat]
        for episode in episodes
    ]
    estimate = estimated(shares, fmean, 0, 1)
    return {} if estimate is None else {"boldness": estimate}


def test_my_measure_keeps_its_promises():
    check_measure(boldness)
