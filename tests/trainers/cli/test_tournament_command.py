"""`arena bench tournament`, called as a user would."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from arena_eval.tournament import play_tournament


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


ARENA = [sys.executable, "-m", "arena_trainers"]


def arena(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [*ARENA, "bench", "tournament", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, **options
    )


def test_a_tournament_writes_results_summary_and_picture(
    tmp_path: Path, arena_here: Any
) -> None:
    out = tmp_path / "new" / "run"
    arguments = ("random", "first", "-g", "mini_hanabi", "-g", "tic_tac_toe", "-n", "6")
    done = arena_here(
        "bench", "tournament", *arguments, "--seed", "2", "--out", str(out)
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(p.name for p in out.iterdir()) == [
        "matrix.png",
        "results.jsonl",
        "summary.json",
    ]
    found = play_tournament(
        ["random", "first"], ["mini_hanabi", "tic_tac_toe"], 6, seed=2
    )
    summary = json.loads((out / "summary.json").read_text())
    assert summary == json.loads(json.dumps(found.to_dict()))
    assert len((out / "results.jsonl").read_text().splitlines()) == 1 + 6 * (4 + 2)
    assert (out / "matrix.png").read_bytes().startswith(b"\x89PNG")
    hanabi, board = found.games
    for text in (
        "mini_hanabi-v0",
        f"{hanabi.payoffs[0][1].mean:.3f}",
        f"= {hanabi.cross_play.gap:.3f}",
        "Ranking: tic_tac_toe-v0",
        f"{board.ratings[0].elo:.0f}",
        "Nash average",
    ):
        assert text in done.stdout
    assert "Forfeits" not in done.stdout
    options = ("--seed", "2", "--out", str(out), "--json")
    again = arena_here("bench", "tournament", *arguments, *options)
    assert (again.returncode, json.loads(again.stdout)) == (0, summary)


def test_a_csv_has_the_ranking_of_games_with_parameters(
    tmp_path: Path, arena_here: Any
) -> None:
    words = ("random", "constant:1", "-g", "kuhn_poker", "-g", "nim", "-n", "4")
    options = ("-p", "kuhn_poker.num_players=3", "--out", str(tmp_path), "--csv")
    done = arena_here("bench", "tournament", *words, *options)
    assert (done.returncode, done.stderr) == (0, "")
    records = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [(r["game"], r["rank"]) for r in records[::2]] == [
        ("kuhn_poker-v0", "1"),
        ("nim-v0", "1"),
    ]
    kuhn, _, *nim = records
    assert kuhn["nash_average"] == ""  # of a game of three seats
    assert sum(float(record["nash_weight"]) for record in nim) == 1
    assert float(kuhn["mean_return"]) == float(kuhn[f"against {records[1]['policy']}"])
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["games"][0]["params"] == {"num_players": 3}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["random", "rndom", "-g", "nim"], "no policy 'rndom'; did you mean"),
        (["random", "-g", "nim"], "want at least 2 policies, got 1"),
        (["random", "first", "-g", "nimm"], "unknown game 'nimm'"),
        (["random", "first", "-g", "nim", "-n", "0"], "want num_episodes of at least"),
        (
            ["random", "minimax", "-g", "kuhn_poker"],
            "policy 'minimax': want a game of perfect informat",
        ),
        (["random", "first", "-g", "nim", "--timeout", "0"], "want a timeout above 0"),
        (
            ["random", "first", "-g", "nim,nim-v0"],
            "want each game once, got nim-v0 twi",
        ),
    ],
)
def test_mistakes_are_one_sentence_and_status_2(
    tmp_path: Path, arguments: list[str], sentence: str, arena_here: Any
) -> None:
    done = arena_here("bench", "tournament", *arguments, "--out", str(tmp_path / "run"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {sentence}")
    assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_a_tournament_without_a_folder_says_what_to_write(arena_here: Any) -> None:
    done = arena_here("bench", "tournament", "random", "cfr", "-g", "nim")
    assert done.returncode == 2
    assert done.stderr == (
        "error: want --out DIR, the folder of the results; add --out runs/a\n"
    )


def test_a_folder_of_another_tournament_is_refused(
    tmp_path: Path, arena_here: Any
) -> None:
    arguments = (
        "bench",
        "tournament",
        "random",
        "first",
        "-g",
        "nim",
        "--out",
        str(tmp_path),
    )
    assert arena_here(*arguments, "-n", "2").returncode == 0
    done = arena_here(*arguments, "-n", "3")
    assert done.returncode == 2
    assert "is of another tournament: its num_episodes is 2, now it is 3" in done.stderr
    assert arena_here(*arguments, "-n", "2").returncode == 0


def test_the_picture_wants_its_extra_before_anything_is_played(tmp_path: Path) -> None:
    (tmp_path / "matplotlib.py").write_text(
        "raise ModuleNotFoundError('gone', name='matplotlib')"
    )
    path = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    out = tmp_path / "run"
    done = arena(
        *("random", "first", "-g", "nim", "--out", str(out)),
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 2
    assert "'matplotlib'" in done.stderr
    assert "pip install '.[eval]'" in done.stderr
    assert not out.exists()


def test_an_endpoint_that_never_replies_is_an_error(
    tmp_path: Path, arena_here: Any
) -> None:
    dead = "api:m@http://127.0.0.1:9/v1#max_retries=0"
    words = ("bench", "tournament", "random", dead, "-g", "nim", "-n", "2")
    done = arena_here(*words, "--out", str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: 4 of 4 episodes were lost (m@http")
    assert done.stderr.endswith(
        "; finished episodes are kept; the same command resumes\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["results.jsonl"]


def test_control_c_stops_and_the_same_command_goes_on(
    tmp_path: Path, arena_here: Any
) -> None:
    results = tmp_path / "results.jsonl"
    words = [
        "bench",
        "tournament",
        "random",
        "mcts:100",
        "-g",
        "connect_four",
        "-n",
        "8",
    ]
    words += ["--out", str(tmp_path)]
    process = subprocess.Popen(
        [*ARENA, *words],
        stderr=subprocess.PIPE,
        text=True,
        # a background job inherits an ignored signal
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while not results.exists() or results.stat().st_size < 5_000:
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert errors == "\nstopped; finished episodes are kept; the same command resumes\n"
    kept = results.read_bytes()
    assert arena_here(*words).returncode == 0
    assert results.read_bytes().startswith(kept)
    assert len(results.read_bytes().splitlines()) == 1 + 16


@pytest.mark.parametrize(
    "arguments",
    [
        ("bench", "tournament", "random", "first", "-g", "nim", "-n", "5", "--out"),
        ("eval", "random", "nim", "-n", "5", "--out"),
    ],
)
def test_a_bar_is_drawn_on_a_terminal_only(
    tmp_path: Path,
    arguments: tuple[str, ...],
    arena_here: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {"TERM": "xterm", "COLUMNS": "80"}.items():
        monkeypatch.setenv(name, value)
    done = arena_here(*arguments, str(tmp_path / "run"), "--json", stderr=Terminal())
    assert done.returncode == 0
    total = "10/10" if arguments[0] == "tournament" else "/"
    assert total in done.stderr
    assert "━" in done.stderr
    json.loads(done.stdout)


def test_help_shows_how(arena_here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = arena_here("bench", "tournament", "--help")
    assert done.returncode == 0
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert (
        "arena bench tournament random cfr -g kuhn_poker -g leduc_poker --out runs/a"
        in (lines)
    )
    assert "-g, --games GAME,GAME" in done.stdout


def test_a_person_enters_stops_and_comes_back(
    tmp_path: Path, arena_here: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["bench", "tournament", "human", "random", "-g", "kuhn_poker", "-n", "2"]
    words += ["--out", str(tmp_path / "out"), "--json"]
    monkeypatch.setattr(sys, "stdin", Terminal("bet\n" * 2))
    stopped = arena_here(*words)
    assert stopped.returncode == 130
    assert "the same command resumes" in stopped.stderr
    kept = (tmp_path / "out" / "results.jsonl").read_text().splitlines()
    assert len(kept) == 1 + 2
    monkeypatch.setattr(sys, "stdin", Terminal("bet\n" * 2))
    done = arena_here(*words)
    assert done.returncode == 0
    assert "forfeit" not in done.stderr
    assert json.loads(done.stdout)["policies"] == ["human", "random"]


@pytest.mark.parametrize("keeps", [True, False])
def test_a_stopped_evaluation_says_what_was_kept_and_how_games_ended(
    keeps: bool, tmp_path: Path, arena_here: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["eval", "human", "kuhn_poker", "-a", "constant:0", "--no-baselines"]
    words += ["--out", str(tmp_path / "kept")] if keeps else []
    monkeypatch.setattr(sys, "stdin", Terminal("bet\n" * 2))
    stopped = arena_here(*words)
    assert stopped.returncode == 130
    assert "player_0 (you): 1\nplayer_1 (constant:0): -1\n" in stopped.stderr
    wanted = f"played so far are in {tmp_path / 'kept'}: 2"
    assert (wanted if keeps else "nothing was measured or kept") in stopped.stderr


def test_baselines_do_not_play_against_a_person(
    arena_here: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal())
    done = arena_here("eval", "random", "kuhn_poker", "--against", "human")
    assert done.returncode == 2
    assert "--no-baselines" in done.stderr
