"""`solver_labels` in language games, where actions are texts with messages."""

from arena_trainers.data import select
from arena_wrappers import play

STYLES = ["negotiator:honest", "negotiator:silent"]


def test_what_a_bot_said_and_did_is_what_it_would_play():
    played = play("negotiation", STYLES, range(5))
    assert any("worth" in turn.reply for one in played for turn in one.turns)
    for style in STYLES:
        rows = select("solver_labels", played, solver=style, policies=[style]).rows
        assert rows
        assert all(row.label for row in rows)


def test_other_words_are_another_action():
    played = play("negotiation", STYLES, range(5))
    honest = select(
        "solver_labels", played, solver=STYLES[0], policies=[STYLES[1]]
    ).rows
    assert not any(row.label for row in honest)  # honest always says something
