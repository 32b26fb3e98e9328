"""`arena replay` prints recorded episodes, steps through them and writes pages."""

import sys
from dataclasses import replace

import pytest

import arena_envs
from arena_eval.rollouts import Rollout, TurnCredit, read_rollouts, write_rollouts
from arena_eval.tournament import ScheduledEpisode, TournamentLog
from arena_studio.report import read_lines
from arena_trainers.cli import main as cli
from arena_trainers.cli.replay import step_through
from arena_wrappers import PromptWrapper, ScriptedPolicy, play


def show(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["arena", "replay", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    return stopped.value.code


@pytest.fixture
def path(tmp_path):
    """Two bets and an invalid reply, with the credit of the first turn."""
    policies = [ScriptedPolicy(["bet"]), ScriptedPolicy(["\x1b[2J\ud800 no"])]
    episodes = play(
        lambda: PromptWrapper(arena_envs.make("kuhn_poker"), "bare"), policies, range(3)
    )
    credit = TurnCredit("mars", 0.25, 2.0, {"seat": 0}, 8, 0.5, 1.5)
    path = tmp_path / "step-1.jsonl"
    write_rollouts(path, [Rollout(e, [credit, None]) for e in episodes])
    return path


def test_a_turn_shows_prompt_reply_reward_and_credit(path, monkeypatch, capfd):
    assert show(monkeypatch, path, "-n", 1) == 0
    page = capfd.readouterr().out
    assert "You are player_0 and hold" in page
    assert "reply     bet" in page
    assert "advantage +0.250, weight 2.000 by mars; pool: seat 0 (8 values" in page
    assert "reward    -2.5 (game -2, format -0.5)" in page
    assert "player_1 forfeits" in page
    assert page.endswith("2 more: --first 2 shows the next ones\n")


def test_what_a_model_wrote_does_not_move_the_cursor(path, monkeypatch, capfd):
    assert show(monkeypatch, path) == 0
    page = capfd.readouterr().out
    assert "\x1b" not in page
    assert r"\x1b[2J\ud800 no" in page


def test_the_rules_are_shown_in_full_prompts_only(path, monkeypatch, capfd):
    show(monkeypatch, path, "-n", 1)
    assert "system" not in capfd.readouterr().out
    show(monkeypatch, path, "-n", 1, "--full")
    assert "  system    " in capfd.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["no_such.jsonl"],
            "found none at 'no_such.jsonl'; give a file such as runs/first/",
        ),
        (["{path}", "--first", "9"], "want --first of at most the number of lines in"),
        (["{junk}"], "line 1: want an episode as JSON, got 'junk"),
        (["{path}", "--seen-by", "player_1"], "want --seen-by with --figure only, got"),
        (["{empty}"], "/empty holds no episodes; give another FILE"),
    ],
)
def test_a_file_that_cannot_be_shown_is_refused(
    arguments, message, path, monkeypatch, capfd
):
    junk = path.with_name("junk")
    junk.write_text("junk\n")
    empty = path.with_name("empty")
    empty.write_text("\n")
    named = [a.format(path=path, junk=junk, empty=empty) for a in arguments]
    assert show(monkeypatch, *named) == 2
    error = capfd.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_what_is_left_is_counted_by_lines_without_reading_them(
    path, monkeypatch, capfd
):
    with open(path, "a") as file:
        file.write("junk\n" * 40)
    assert show(monkeypatch, path, "-n", 2) == 0
    assert capfd.readouterr().out.endswith("41 more: --first 3 shows the next ones\n")


def test_advantages_of_tokens_are_all_shown(path, monkeypatch, capfd, tmp_path):
    (first, *_) = read_rollouts(path)
    credited = first.credit[0]
    assert credited is not None
    credit = [replace(credited, advantage=[0.5, -0.25]), None]
    other = tmp_path / "step-2.jsonl"
    write_rollouts(other, [Rollout(first.episode, credit)])
    assert show(monkeypatch, other) == 0
    assert "advantages per token +0.500 -0.250" in capfd.readouterr().out


def test_bad_lines_are_named_and_the_rest_is_shown(path, monkeypatch, capfd):
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([lines[0], "junk\n", *lines[1:]]))
    assert show(monkeypatch, path) == 0
    page = capfd.readouterr().out
    assert "--- line 2 is no episode: want an episode as JSON" in page
    assert "--- line 4: kuhn_poker-v0" in page
    out = path.with_name("replay.html")
    assert show(monkeypatch, path, "--page", out, "-n", 3) == 0
    printed = capfd.readouterr()
    assert "line 2 is no episode" in printed.err
    wanted = "2 episodes\n1 more: --first 4 shows the next ones\n"
    assert printed.out == f"{out}: {wanted}"
    assert out.read_text().startswith("<!doctype html>")


def test_one_episode_is_drawn(path, monkeypatch, capfd):
    out = path.with_name("replay.svg")
    assert (
        show(monkeypatch, path, "--figure", out, "--first", 2, "--seen-by", "all") == 0
    )
    assert capfd.readouterr().out == f"{out}: the episode of line 2\n"
    assert out.read_text().startswith("<svg ")
    assert show(monkeypatch, path, "--figure", out, "--page", out) == 2
    assert "want --page or --figure, got both" in capfd.readouterr().err
    assert show(monkeypatch, path, "--figure", path.with_name("game.png")) == 2
    assert "want --figure as a file .svg" in capfd.readouterr().err


def test_the_first_line_of_a_tournament_is_not_counted(
    path, tmp_path, monkeypatch, capfd
):
    log = TournamentLog(tmp_path / "results.jsonl", {}, lambda episode: None)
    for rollout in read_rollouts(path):
        log.append(
            ScheduledEpisode("kuhn_poker", ("a", "b"), rollout.episode.seed),
            rollout.episode,
        )
    svg, page = tmp_path / "o.svg", tmp_path / "o.html"
    assert show(monkeypatch, log.path, "--figure", svg) == 0
    assert capfd.readouterr().out == f"{svg}: the episode of line 2\n"
    assert show(monkeypatch, log.path, "-n", 2) == 0
    shown = capfd.readouterr().out
    assert "--- line 3: " in shown
    assert shown.endswith("1 more: --first 4 shows the next ones\n")
    for first, count in ((1, 3), (4, 1)):
        assert show(monkeypatch, log.path, "--page", page, "--first", first) == 0
        assert capfd.readouterr().out == f"{page}: {count} episodes\n"
        assert "more lines" not in page.read_text()


def test_a_missing_template_engine_is_named_with_its_extra(path, monkeypatch, capfd):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert show(monkeypatch, path, "--page", path.with_name("replay.html")) == 2
    assert "pip install '.[report]'" in capfd.readouterr().err
    assert not path.with_name("replay.html").exists()


def test_keys_step_through_turns_until_the_reader_quits(path, capsys):
    keys = iter(["\x1b[C", "\x1b[B", "q"])
    step_through(list(read_lines(path)), full=False, read_key=lambda: next(keys))
    shown = capsys.readouterr().out
    assert shown.count("turn 0 of 2") == 2
    assert shown.count("turn 1 of 2") == 1
    assert "\x1b[2J\ud800" not in shown

    def closed() -> str:
        raise EOFError

    step_through(list(read_lines(path)), full=False, read_key=closed)


def test_blank_lines_are_skipped(path, monkeypatch, capfd):
    with open(path, "a") as file:
        file.write("\n \n")
    assert show(monkeypatch, path, "-n", 3) == 0
    page = capfd.readouterr().out
    assert "no episode" not in page
    assert "more: --first" not in page


def test_an_unknown_game_is_mentioned_once(path, monkeypatch, capfd):
    path.write_text(path.read_text().replace("kuhn_poker-v0", "kuhn_pokr-v0"))
    assert show(monkeypatch, path) == 0
    printed = capfd.readouterr()
    assert "reply     bet" in printed.out
    assert printed.err.startswith("note: no replay, the prompts only: ")
    assert "kuhn_pokr" in printed.err
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize("option", ["--page", "--figure"])
def test_only_files_of_its_own_are_overwritten(option, path, monkeypatch, capfd):
    foreign, link = path.with_name("foreign"), path.with_name("link")
    foreign.write_text("<!doctype html><svg />\n")
    link.symlink_to(path)
    before = path.read_bytes()
    for out, message in (
        (path, "is the file of episodes itself; give another OUT"),
        (link, "is the file of episodes itself; give another OUT"),
        (path.parent, "want a file to write, got"),
        (
            path.parent / "no" / "x",
            f"no folder '{path.parent / 'no'}'; make it, or give",
        ),
        (foreign, "exists and was not written by arena replay; give another OUT"),
    ):
        assert show(monkeypatch, path, option, out) == 2
        assert message in capfd.readouterr().err
    assert path.read_bytes() == before
    assert foreign.read_text() == "<!doctype html><svg />\n"
    for _ in range(2):
        assert show(monkeypatch, path, option, path.with_name("own.svg")) == 0
