"""Replays of recorded episodes: files that are read, pages, sheets and steps."""

import base64
import gzip
import json
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

import arena_envs
from arena_envs.games.tic_tac_toe import TicTacToe
from arena_envs.trust import named_only
from arena_eval.rollouts import Rollout, TurnCredit, write_rollouts
from arena_eval.tournament import ScheduledEpisode, TournamentLog
from arena_studio.report import (
    BadLine,
    Recorded,
    packed,
    page_data,
    read_lines,
    replay_page,
)
from arena_studio.report import frames as report_frames
from arena_studio.report.episode_text import turn_lines
from arena_studio.report.episodes import answer_span, ending_text
from arena_studio.report.frames import frames_of
from arena_studio.report.sheet import sheet
from arena_studio.report.stepper import Stepper
from arena_wrappers import PromptOptions, PromptWrapper, ScriptedPolicy, play

ATTACK = "</script><img src=x onerror=alert(1)>{{ 7*7 }}"


@pytest.fixture(scope="module")
def episodes():
    """A showdown, a forfeit with an attack, and a game that everybody sees."""
    bets = [ScriptedPolicy(["<answer>bet</answer>"]) for _ in range(2)]
    found = play("kuhn_poker", bets, range(1))
    attack = [ScriptedPolicy([ATTACK]), ScriptedPolicy([""])]
    found += play(
        lambda: PromptWrapper(arena_envs.make("kuhn_poker"), "bare"), attack, range(1)
    )
    return found + play("tic_tac_toe", ["random"] * 2, range(1))


@pytest.fixture
def file(episodes, tmp_path):
    path = tmp_path / "step-1.jsonl"
    credit = TurnCredit("mars", [0.5, -0.25], 2.0, {"seat": 0}, 8, 0.5, 1.5)
    write_rollouts(path, [Rollout(e, [credit] * len(e.turns)) for e in episodes])
    return path


def recorded(episodes):
    return [
        Recorded(number, Rollout(e, [None] * len(e.turns)))
        for number, e in enumerate(episodes, 1)
    ]


def test_bad_lines_are_named_and_the_rest_is_read(file):
    lines = file.read_bytes().splitlines(keepends=True)
    older = json.dumps({**json.loads(lines[0]), "rules_version": 1}).encode()
    nan = json.dumps({**json.loads(lines[0]), "params": {"x": [float("nan")]}}).encode()
    bad = [b"\xff\xfe\n", older + b"\n", lines[1][:100] + b"\n", b"[]\n", nan + b"\n"]
    file.write_bytes(b"".join([lines[0], *bad, lines[2], lines[1][:50]]))
    found = list(read_lines(file))
    assert [line.line for line in found] == [*range(1, 9)]
    kinds = [isinstance(line, BadLine) for line in found]
    assert kinds == [False, *[True] * 5, False, True]
    assert "unknown field 'rules_version'" in found[2].reason
    assert found[2].text.startswith('{"game": "kuhn_poker-v0"')
    assert "params cannot be {'x': [nan]}" in found[5].reason
    assert [line.line for line in read_lines(file, 6, 1)] == [7]


def test_the_log_of_a_tournament_is_read(episodes, tmp_path):
    path = tmp_path / "results.jsonl"
    log = TournamentLog(path, {"games": ["kuhn_poker"]}, lambda episode: None)
    for episode in episodes:
        log.append(ScheduledEpisode(episode.game, ("a", "b"), episode.seed), episode)
    found = list(read_lines(path))
    assert [line.line for line in found] == [2, 3, 4]
    assert [line.rollout.episode for line in found] == episodes


def test_a_page_says_which_lines_are_no_episodes(file):
    with open(file, "a") as out:
        out.write(ATTACK)
    page = replay_page(read_lines(file), title="a < b", left=3)
    assert "<title>a &lt; b</title>" in page
    assert "Line 4: want an episode as JSON" in page
    assert ATTACK not in page
    assert "3 more lines of the file are not shown" in page


def test_a_page_loads_nothing_and_runs_only_its_own_script(file):
    page = replay_page(read_lines(file), title="x")
    assert "default-src 'none'" in page
    assert "unsafe-inline" not in page
    assert len(re.findall("<script", page)) == 2  # data, and ours
    assert not re.findall(
        r"""(?:src|href)=|url\(|@import""", page.replace("default-src", "")
    )
    assert "http://www.w3.org/2000/svg" in page
    assert page.count("http") == page.count("http-equiv") + page.count(
        "http://www.w3.org"
    )


def test_the_data_of_a_page_hold_the_record(file, episodes):
    text = replay_page(read_lines(file), title="x")
    packed = re.search(r'id="data">([^<]*)<', text)[1]
    data = json.loads(gzip.decompress(base64.b64decode(packed)))
    assert len(data["episodes"]) == len(episodes)
    for shown, episode in zip(data["episodes"], episodes, strict=True):
        assert shown["returns"] == list(episode.returns)
        assert len(shown["frames"]) == len(episode.turns) + 1
        assert [t["reply"] for t in shown["turns"]] == [t.reply for t in episode.turns]
        for given, turn in zip(shown["turns"], episode.turns, strict=True):
            prompt = [data["texts"][number] for _, number in given["messages"]]
            assert prompt == [message["content"] for message in turn.messages]
            assert given["credit"]["tokens"] == [0.5, -0.25]
            assert given["credit"]["advantage"] == 0.125
    first = data["episodes"][0]["turns"][0]
    assert first["reply"][slice(*first["parsed"])] == "bet"
    assert data["episodes"][1]["turns"][0]["invalid"] == "illegal"


def test_no_page_holds_numbers_that_browsers_cannot_read(episodes):
    data = page_data(recorded(episodes[:1]))
    data["episodes"][0]["params"]["x"] = float("inf")
    with pytest.raises(ValueError, match="not JSON compliant"):
        packed(data)


def test_equal_pictures_are_stored_once(episodes):
    data = page_data(recorded(episodes[2:]))
    for views in data["episodes"][0]["frames"]:
        assert len(set(views)) == 1  # everybody sees the board
    assert len(data["pictures"]) == len(episodes[2].turns) + 1
    assert len(set(data["elements"])) == len(data["elements"])


def test_a_seat_sees_less_than_all(episodes):
    frames = frames_of(episodes[0])
    assert frames.viewers == ["all", "player_0", "player_1"]
    everything, first, second = frames.scenes[0]
    assert len({repr(scene) for scene in (everything, first, second)}) == 3
    assert frames.scenes[-1][1].shapes == frames.scenes[-1][0].shapes  # a showdown


class Outdated(TicTacToe):
    """Rules of a plug-in, which fit no record."""

    def initial_state(self):
        raise KeyError("board")


def test_errors_of_a_plug_in_are_shown_and_those_of_our_scenes_raise(
    episodes, monkeypatch
):
    later = replace(episodes[2], game=f"{__name__}:Outdated", final_state=None)
    with named_only(allow_code=True):
        assert frames_of(later).fault == "KeyError: 'board'"

    def broken(*_):
        raise ValueError("a bug of a scene")

    monkeypatch.setattr(report_frames, "scene_of", broken)
    with pytest.raises(ValueError, match="a bug of a scene"):
        frames_of(episodes[2])


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"game": "kuhn_poker-v7"}, "unknown game 'kuhn_poker-v7'; did you mean"),
        ({"game": "own_module:Game"}, "would import the module 'own_module'"),
        ({"params": {"num_players": 9}}, "want an integer num_players from 2 to 4"),
        ({"actions": [7]}, "action 0: 7 is not possible in this game"),
        ({"actions": []}, "the record ends too early: action 0 is missing"),
    ],
)
def test_an_episode_without_a_replay_shows_its_prompts(change, fault, file):
    line = json.loads(file.read_text().splitlines()[0])
    file.write_text(json.dumps({**line, **change}) + "\n")
    (found,) = read_lines(file)
    frames = frames_of(found.rollout.episode)
    assert fault in frames.fault
    assert frames.viewers == ["prompt"]
    prompt = line["turns"][0]["messages"][-1]["content"]
    assert frames.scenes[0][0].shapes[0].said[0].words == prompt
    assert len(frames.scenes) == len(line["turns"]) + 1
    assert page_data([found])["episodes"][0]["fault"] == frames.fault
    assert f"no replay: {frames.fault}" in Stepper([found]).screen()


@pytest.mark.parametrize(
    ("reply", "options", "part"),
    [
        ("<think>bet</think> <answer> bet</answer>", {}, " bet"),
        ("bet, so <answer>bet</answer>.", {}, "bet"),
        ("bet", {"parsing": "strict"}, None),
        ("<answer>a</answer><answer>b</answer>", {"parsing": "strict"}, None),
        ("<think>a", {}, None),
        (r"\boxed{x{y}z}", {"reply_format": "boxed"}, "x{y}z"),
        ("I [raise]", {"reply_format": "bracket"}, "raise"),
        ("<think>hm</think>\nbet", {"reply_format": "bare"}, "\nbet"),
        ("", {"reply_format": "bare"}, None),
        ("<think>hm</think>\nHi.\nAction: bet \n", {}, "Hi.\nAction: bet"),
        ("<answer>a</answer> no, <answer>b</answer>", {}, "b"),
    ],
)
def test_the_part_of_a_reply_that_was_read_is_found(reply, options, part):
    span = answer_span(reply, PromptOptions(**options))
    assert (None if span is None else reply[slice(*span)]) == part


def test_outcomes_are_a_few_words(episodes):
    words = [ending_text(episode) for episode in episodes]
    assert words[0] in ("player_0 ahead", "player_1 ahead")
    assert words[1] == "player_0 forfeits"
    assert ending_text(replace(episodes[0], lost="no reply", returns=[])) == "lost"


def test_an_agents_calls_are_shown_with_their_advantages():
    (episode,) = play("kuhn_poker", "agent:planner_worker(random)", range(1))
    credit = TurnCredit("matpo", 0.25, calls=[-0.5, 0.25])
    text = "\n".join(turn_lines(episode.turns[0], credit, False))
    first, second = (call.text for call in episode.turns[0].generations)
    assert f"  planner   {first}\n  worker    {second}\n  reply" in text
    assert "call 1 advantage -0.500; call 2 advantage +0.250 by matpo" in text


def test_a_sheet_has_every_turn_as_the_viewer_saw_it(episodes):
    drawn = sheet(episodes[0], "player_0")
    texts = [e.text for e in ElementTree.fromstring(drawn).iter() if e.text]
    assert "0: player_0 bet" in texts
    assert "1: player_1" in texts
    assert "1: player_1 bet" in sheet(episodes[0])
    assert texts.count("?") == len(episodes[0].turns)  # until the showdown
    assert "?" not in sheet(episodes[0])
    with pytest.raises(
        ValueError, match="want a viewer of all, player_0, player_1, got"
    ):
        sheet(episodes[0], "player_7")


def test_steps_go_through_turns_and_episodes(episodes):
    junk = BadLine(4, "want an episode\x1b", "junk")
    stepper = Stepper([*recorded(episodes), junk])
    assert "[1 of 4] line 1: kuhn_poker-v0" in stepper.screen()
    assert "turn 0 of 2, seen by all" in stepper.screen()
    for key, turn in (
        ("\x1b[D", 0),
        ("\x1b[C", 1),
        (" ", 2),
        ("n", 2),
        ("p", 1),
        ("0", 0),
    ):
        stepper.press(key)
        assert stepper.turn == turn
    stepper.press("v")
    assert "seen by player_0" in stepper.screen()
    assert "[?]" in stepper.screen()
    assert "reply     <answer>bet" in stepper.screen()
    stepper.press("v")
    assert "seen by player_1" in stepper.screen()
    assert "reply     hidden from player_1" in stepper.screen()
    assert "<answer>" not in stepper.screen()
    stepper.press("$")
    assert "returns: " in stepper.screen()
    for number in (1, 2, 3, 3):
        stepper.press("j")
        assert stepper.number == number
    assert r"line 4 is no episode: want an episode\x1b" in stepper.screen()
    stepper.press("v")
    stepper.press("x")
    stepper.press("k")
    assert stepper.number == 2
    assert not stepper.is_over
    stepper.press("q")
    assert stepper.is_over
