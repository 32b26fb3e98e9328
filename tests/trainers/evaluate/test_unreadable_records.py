"""An episode whose record its game cannot read is lost: excluded, counted and named."""

import json
from dataclasses import replace

import pytest

from arena_trainers.data import select
from arena_wrappers import play, read_episodes

PLUGINS = '''
from dataclasses import dataclass
from arena_envs.games.bargaining import Bargaining
from arena_wrappers import Reply

@dataclass(frozen=True)
class Forgetful(Bargaining):
    """Its records leave out the message "lost"."""
    num_rounds: int = 1

    def action_text(self, state, action):
        if getattr(action, "message", "") == "lost":
            action = action._replace(message="")
        return super().action_text(state, action)

class Says:
    def act(self, requests):
        words = [self.name if one.seed % 4 == 0 else "hello" for one in requests]
        pairs = zip(words, requests, strict=True)
        return [Reply(one.wrap(f"{word}\\n{one.legal[0]}")) for word, one in pairs]

class Loser(Says):
    name = "lost"

class Speaker(Says):
    name = "hi"
'''


@pytest.fixture
def plugins(tmp_path, monkeypatch):
    """The name of a module with a game that forgets a message, and two policies."""
    (tmp_path / "forgetful_plugins.py").write_text(PLUGINS)
    monkeypatch.syspath_prepend(tmp_path)
    return "forgetful_plugins"


def test_compare_ends_with_its_tables_and_names_the_lost(plugins, arena_here, tmp_path):
    out = tmp_path / "a.jsonl"
    names = [f"{plugins}:{name}" for name in ("Speaker", "Loser")]
    game = ("-g", f"{plugins}:Forgetful", "-n", "8", "--out", out)
    done = arena_here("compare", *names, *game, "--json")
    rows = {row["role"]: row for row in json.loads(done.stdout)}
    lost = [one for one in read_episodes(out) if one.lost]
    assert 0 < len(lost) == rows["trained"]["num_lost"]
    assert rows["difference"]["num_seeds"] == 8 - len({one.seed for one in lost})
    assert f"error: {len(lost)} of " in done.stderr
    assert f"seed {lost[0].seed}: the record cannot be read: action 2" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_tournament_leaves_out_the_seeds_of_the_lost(plugins, arena_here, tmp_path):
    names = [f"{plugins}:{name}" for name in ("Speaker", "Loser")]
    game = ("-g", f"{plugins}:Forgetful", "-n", "8", "--out", tmp_path / "out")
    done = arena_here("bench", "tournament", *names, *game)
    assert done.returncode == 0
    assert "no figure includes the episodes of their seeds" in done.stderr
    assert "the record cannot be read: action 2" in done.stderr


def test_data_leave_out_records_of_a_file_that_cannot_be_read():
    episodes = play("questions(protocol=solo)", "random", range(3))
    bad = replace(episodes[1], actions=[0, "answer: :"], final_state=None)
    dropped = dict(select("wins", [episodes[0], bad, episodes[2]]).dropped)
    (reason,) = (each for each in dropped if "lost" in each)
    assert reason.startswith("the episode of seed 1 is lost: the record cannot be read")
    assert dropped[reason] == 1
