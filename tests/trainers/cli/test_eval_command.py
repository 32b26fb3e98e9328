"""`arena eval` and `arena bench board`, called as a user would."""

import csv
import io
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path
from resource import RLIMIT_FSIZE, setrlimit
from typing import Any

import pytest

import arena_envs
from arena_eval import evaluate
from arena_wrappers.records import EpisodeLog

serving = runpy.run_path(str(Path(__file__).parents[2] / "endpoint.py"))["serving"]


def test_eval_prints_what_evaluate_finds(tmp_path: Path, arena_here: Any) -> None:
    arguments = ("eval", "cfr:10", "kuhn_poker", "-a", "random", "-a", "self")
    options = ("-n", "10", "--seed", "4", "-p", "num_players=3")
    out = tmp_path / "new" / "log.jsonl"
    done = arena_here(*arguments, *options, "--json", "--out", str(out))
    assert (done.returncode, done.stderr) == (0, "")
    env = arena_envs.make("kuhn_poker", num_players=3)
    found = evaluate("cfr:10", env, ["random", "self"], 10, seed=4)
    shown = json.loads(done.stdout)
    convs = shown.pop("nash_conv")
    assert list(convs) == ["cfr:10", "random"]
    assert shown == json.loads(json.dumps(found.to_dict()))
    # policy, uniform, solver and constant: three rows each, and three of self-play
    assert len(list(EpisodeLog(out))) == 4 * 3 * 10 + 4 * 10


def test_several_games_have_parameters_of_their_own(arena_here: Any) -> None:
    games = ("-g", "kuhn_poker", "-g", "nim", "-p", "kuhn_poker.num_players=3")
    options = ("-n", "3", "--no-baselines", "--json")
    done = arena_here("eval", "random", *games, *options)
    assert (done.returncode, done.stderr) == (0, "")
    kuhn, nim = json.loads(done.stdout)["evaluations"]
    assert (kuhn["params"], nim["game"]) == ({"num_players": 3}, "nim-v0")
    assert nim["nash_conv"]["random"] == pytest.approx(2, abs=1e-5)


def test_a_csv_has_a_record_for_each_row(arena_here: Any) -> None:
    options = ("-n", "4", "--no-baselines", "--csv")
    done = arena_here("eval", "random", "kuhn_poker", *options)
    found = evaluate("random", "kuhn_poker", num_episodes=4, baselines=False)
    for record, row in zip(
        csv.DictReader(io.StringIO(done.stdout)), found.rows, strict=True
    ):
        assert float(record["mean_return"]) == row.mean_return
        assert (record["seat"], record["game"]) == (str(row.seat), "kuhn_poker-v0")
        assert row.score_interval is not None
        assert float(record["score_low"]) == row.score_interval[0]
        assert float(record["nash_conv"]) == pytest.approx(11 / 12)


def test_latex_has_a_line_for_each_row_and_nothing_to_escape(arena_here: Any) -> None:
    options = ("-n", "4", "--no-baselines", "--latex")
    done = arena_here("eval", "random", "kuhn_poker", *options)
    lines = done.stdout.splitlines()
    rows = [line for line in lines if line.startswith("random & random & policy")]
    assert len(rows) == 3
    assert lines.count(r"\end{tabular}") == 2  # with the one of NashConv
    assert r"kuhn\_poker-v0" in lines[1]
    assert r"\label{tab:kuhn-poker-v0" in done.stdout
    assert not re.search(r"(?<!\\)[%#]", done.stdout)


@pytest.mark.parametrize("endpoint_is", ["policy", "opponent"])
def test_an_endpoint_that_never_replies_is_an_error(
    endpoint_is: str, arena_here: Any
) -> None:
    dead = "api:m@http://127.0.0.1:9/v1#max_retries=0"
    names = [dead, "random"] if endpoint_is == "policy" else ["random", dead]
    done = arena_here("eval", names[0], "kuhn_poker", "-a", names[1], "-n", "2")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "\nerror: all 2 episodes of " in done.stderr
    assert f"lost: policy {dead[4:]!r} gave no reply: the connection" in done.stderr
    assert "; start the server or correct the URL" in done.stderr


def test_eval_prints_a_table(arena_here: Any) -> None:
    done = arena_here("eval", "first", "tic_tac_toe", "-n", "5")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert "tic_tac_toe-v0" in lines[0]
    assert lines[1].split("\t")[:5] == ["policy", "against", "role", "seat", "episodes"]
    words = [line.split() for line in lines]
    assert ["first", "random", "policy", "0", "5"] in [line[:5] for line in words]
    policies = [line[0] for line in words[2:5]]
    assert policies == ["first"] * 3  # two seats, and all
    assert words[5][:2] == ["#", "uniform"]
    assert "solver: minimax 0.926 (exact)" in done.stdout
    assert "best constant: constant:" in done.stdout
    assert "Known value: a draw" in done.stdout
    assert max(map(len, lines)) <= 120


@pytest.mark.slow
def test_eval_prints_rows_of_baselines_if_asked(arena_here: Any) -> None:
    done = arena_here("eval", "first", "tic_tac_toe", "-n", "5", "--baselines")
    words = [line.split() for line in done.stdout.splitlines()]
    assert ["minimax", "random", "solver", "all", "10"] in [line[:5] for line in words]
    assert "uniform play" not in done.stdout


def test_the_help_of_eval_begins_with_what_most_need(arena_here: Any) -> None:
    text = arena_here("eval", "--help").stdout
    options = re.findall(
        r"(?m)^  (?:-\w, )?(--[a-z-]+)", text[text.index("Options:") :]
    )
    first = ["--against", "--episodes", "--out", "--until", "--max-cost", "--prices"]
    assert options[:10] == [*first, "--games", "--param", "--baselines", "--seed"]


def test_names_of_usual_length_stand_in_one_line(arena_here: Any) -> None:
    done = arena_here(
        *(
            "eval",
            "constant:0",
            "goofspiel",
            "-a",
            "ismcts:10",
            "-n",
            "3",
            "--baselines",
        )
    )
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["constant:0", "ismcts:10", "policy", "all"] in [row[:4] for row in rows]
    assert "ismcts:100 is a search, not a solver" in done.stdout
    assert "turns" in done.stdout
    assert "\u2026" not in done.stdout  # nothing was cut
    assert max(map(len, done.stdout.splitlines())) <= 120


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["rndom", "kuhn_poker"], "no policy 'rndom'; did you mean 'random'"),
        (["random", "kuhn"], "unknown game 'kuhn'"),
        (["kuhn_poker", "cfr"], "want a policy and then a game, got the game"),
        (
            ["random"],
            "want a policy and then a GAME, got 'random' alone; write: arena eval ra",
        ),
        (
            ["nim"],
            "want a policy and then a GAME, got 'nim' alone; write: arena eval random",
        ),
        (["random", "nim", "--csv", "--json"], "want one form of output, got --json"),
        (
            ["random", "-g", "nim", "-g", "kuhn_poker", "-p", "num_players=3"],
            "game 'nim-v0' has no parameter 'num_players'",
        ),
        (
            ["random", "-g", "nim", "-p", "nimm.num_players=3"],
            "want GAME.NAME=VALUE with a game among nim, got 'nimm.num",
        ),
        (["random", "kuhn_poker", "-n", "0"], "want num_episodes of at least 1, got 0"),
        (
            ["random", "kuhn_poker", "--prompt", "reply_format=x"],
            "unknown reply format 'x'",
        ),
        (
            ["random", "nim", "--timeout", "-1"],
            "want a timeout above 0 seconds, got -1",
        ),
        (
            ["random", "kuhn_poker", "-a", "minimax"],
            "policy 'minimax': want a game of perfect inform",
        ),
        (["random", "kuhn_poker", "--out", "pyproject.toml"], "pyproject.toml, line 1"),
    ],
)
def test_mistakes_are_one_sentence_and_status_2(
    arguments: list[str], sentence: str, arena_here: Any
) -> None:
    done = arena_here("eval", *arguments, cwd=str(Path(__file__).parents[3]))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {sentence}")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_a_full_disk_ends_with_status_1(tmp_path: Path) -> None:
    out = tmp_path / "log.jsonl"
    command = ["eval", "random", "kuhn_poker", "-n", "99", "--out", str(out)]
    done = subprocess.run(
        [sys.executable, "-m", "arena_trainers", *command],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: setrlimit(RLIMIT_FSIZE, (20_000, 20_000)),
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: [Errno 27] File too large")
    assert len(done.stderr.splitlines()) == 1
    size = out.stat().st_size
    assert len(list(EpisodeLog(out))) > 5
    assert 15_000 < size == out.stat().st_size <= 20_000


SMALL = """
suite: small
version: 1
notes: [One game.]
games: [{game: kuhn_poker, opponents: [random, self], scale: [-2, 2]}]
prompts: {plain: {reply_format: answer}}
num_seeds: 4
max_tokens: 9
"""


def test_a_submission_is_played_verified_and_shown(
    tmp_path: Path, arena_here: Any
) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)
    suite = ("--suite", str(tmp_path / "small.yaml"))
    out = str(tmp_path / "a.jsonl")
    done = arena_here(
        "bench", "board", "run", "cfr:10", *suite, "--out", out, "--name", "mine"
    )
    told = f"{out} is finished; check it: arena bench board verify {out} {' '.join(suite)}\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, told, "")
    unfinished = tmp_path / "b.jsonl"
    unfinished.write_text("".join(Path(out).read_text().splitlines(True)[:4]))
    done = arena_here("bench", "board", "verify", str(unfinished), out, *suite)
    assert done.stdout == f"{out}: 12 episodes of mine hold\n"
    assert (done.returncode, done.stderr.count("it is not finished")) == (1, 1)
    assert "| mine | " in arena_here("bench", "board", "page", out, *suite).stdout
    done = arena_here("bench", "board", "verify", out)
    assert done.returncode == 1
    assert "is refused: want suite ['standard', 1, " in done.stderr


def test_an_endpoint_that_is_down_leaves_a_submission_to_go_on_with(
    tmp_path: Path, arena_here: Any
) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)
    suite, out = ("--suite", str(tmp_path / "small.yaml")), tmp_path / "a.jsonl"
    dead = "api:m@http://127.0.0.1:9/v1#max_retries=0"
    done = arena_here("bench", "board", "run", dead, *suite, "--out", str(out))
    assert done.returncode == 1
    assert "episodes were lost" in done.stderr
    assert "the same command goes on" in done.stderr
    assert '"cell"' not in out.read_text()


def test_what_an_endpoint_needs_is_said_before_it_is_asked_and_its_budget_holds(
    arena_here, tmp_path
):
    prices = tmp_path / "prices.toml"
    prices.write_text("[m]\nprompt = 10\nreply = 100\n")
    with serving() as server:
        arguments = ("eval", f"api:m@{server.url}", "kuhn_poker", "--prices", prices)
        run = arena_here(*arguments, "--max-cost", "0.1", "--json")
        assert run.returncode == 0
        assert len(server.requests) <= 50  # 0.002 each
        expected, used = run.stderr.splitlines()[:2]
        assert expected.startswith("expects about ")
        assert f"used {len(server.requests)} calls" in used
        assert json.loads(run.stdout)["stops"]
        num = len(server.requests)
        refused = arena_here(*arguments, "--max-cost", "0.0001")
        assert (refused.returncode, len(server.requests)) == (2, num)
