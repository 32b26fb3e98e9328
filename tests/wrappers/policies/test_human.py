"""A person at a terminal, whose lines are given by the test."""

import io
import sys
from collections.abc import Iterable
from itertools import pairwise

import pytest

import arena_envs
from arena_wrappers import HumanPolicy, RandomPolicy, ScriptedPolicy, make_policy, play
from arena_wrappers.play import final_state, replay


def sitting(lines: Iterable[str], shown: list[str], **options: object) -> HumanPolicy:
    typed = iter(lines)

    def read(prompt: str) -> str:
        shown.append(prompt)
        try:
            return next(typed)
        except StopIteration:
            raise EOFError from None

    return HumanPolicy(read=read, write=shown.append, **options)


def kuhn() -> arena_envs.GameEnv:
    return arena_envs.make("kuhn_poker")


@pytest.mark.parametrize("line", ["bet", " BET ", "2"])
def test_an_action_is_typed_as_text_or_number(line: str) -> None:
    shown: list[str] = []
    person = sitting([line] * 2, shown)
    (episode,) = play(kuhn, [person, RandomPolicy()], [0], on_error="raise")
    assert episode.turns[0].action == 1
    assert episode.turns[0].policy == "human"
    rules = arena_envs.make_game("kuhn_poker").rules(0)
    assert shown[:2] == ["\nA new game. You are player_0.", rules]
    assert shown[2].startswith("\nYou are player_0 and hold ")
    assert shown[3] == "1: pass  2: bet"
    assert replay(episode) == episode


def test_what_is_no_action_is_asked_again() -> None:
    shown: list[str] = []
    lines = ["", "3", "0", "-1", "fold", "\u00b2", "9" * 5000, "1"]
    person = sitting(lines, shown)
    always_pass = ScriptedPolicy(lambda request: request.wrap("pass"))
    (episode,) = play(kuhn, [person, always_pass], [0], on_error="raise")
    assert [turn.action for turn in episode.turns] == [0, 0]
    assert sum(line.startswith("Not a legal action") for line in shown) == 7


def test_actions_that_are_numbers_are_not_numbered() -> None:
    shown: list[str] = []
    person = sitting(["21", "1"] + ["20"] * 9, shown)
    seats = [person, *[RandomPolicy()] * 3]
    (episode,) = play(lambda: arena_envs.make("public_goods"), seats, [0])
    assert shown[3].startswith("Legal actions: 0, 1, 2, ")
    assert any(text.startswith("Not a legal action: '21'.") for text in shown)
    own = [turn.action for turn in episode.turns if turn.seat == 0]
    assert own == [1] + [20] * 9


def test_actions_that_hold_numbers_are_not_numbered() -> None:
    shown: list[str] = []
    person = sitting(["?", "4", "3", "guess 1", "guess 2"], shown)
    game = arena_envs.make_game(
        "guess_number", num_numbers=3, max_guesses=3, num_ranges=1
    )
    (episode,) = play(lambda: arena_envs.GameEnv(game), [person], [0])
    assert "Legal actions: guess 1, guess 2, guess 3." in shown
    todo = 'Type a legal action, or "rules". Ctrl-C stops.'
    assert f"No hints here. {todo}" in shown
    assert f"Not a legal action: '4'. {todo}" in shown
    assert "guess 3" in episode.turns[0].reply


@pytest.mark.parametrize(
    ("advisor", "hint"),
    [
        (
            None,
            'No hints here. Type a legal action or its number, or "rules". Ctrl-C stops.',
        ),
        (RandomPolicy(), " 50.0%  pass\n 50.0%  bet"),
        (ScriptedPolicy(lambda request: "bet", name="oracle"), "oracle says: bet"),
    ],
)
def test_a_question_mark_asks_the_advisor(advisor: object, hint: str) -> None:
    shown: list[str] = []
    person = sitting(["?", "rules", "bet", "bet"], shown, advisor=advisor)
    play(kuhn, [person, RandomPolicy()], [0], on_error="raise")
    assert hint in shown
    assert arena_envs.make_game("kuhn_poker").rules(0) in shown


def test_a_closed_input_ends_all_play_and_forfeits_nothing() -> None:
    shown: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        play(kuhn, [sitting([], shown), RandomPolicy()], range(5))
    assert sum("A new game" in line for line in shown) == 1


def test_a_person_plays_one_episode_at_a_time_and_reads_the_rules_once() -> None:
    shown: list[str] = []
    person = sitting(["bet", "pass"] * 9, shown)
    episodes = play(kuhn, [person, ScriptedPolicy(lambda r: r.wrap("bet"))], range(4))
    assert len(episodes) == 4
    starts = [i for i, line in enumerate(shown) if "A new game" in line]
    asked = [i for i, line in enumerate(shown) if line == "player_0> "]
    assert len(starts) == 4
    assert sum("Kuhn" in line for line in shown) == 1
    # the first question of each episode comes before the next one begins
    assert all(any(a < i < b for i in asked) for a, b in pairwise(starts))


def test_a_person_has_no_time_limit() -> None:
    with pytest.raises(ValueError, match="want no timeout for 'human', a person"):
        play(kuhn, [sitting([], []), RandomPolicy()], [0], timeout=5)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_string_human_reads_the_terminal_and_leaves_stdout_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal("fold\nbet\nbet\n"))
    (episode,) = play("kuhn_poker", ["human:Ada", "random"], [0], on_error="raise")
    assert episode.turns[0].policy == "human:Ada"
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "Not a legal action: 'fold'." in shown.err


def test_a_person_without_a_terminal_or_in_several_processes_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    with pytest.raises(ValueError, match="start it in a terminal"):
        make_policy("human")
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="needs a single process"):
        make_policy("human")


def test_the_final_state_comes_from_the_record() -> None:
    game = arena_envs.make_game("kuhn_poker")
    for episode in play(kuhn, RandomPolicy(), range(5)):
        state = final_state(episode, game)
        assert game.current_player(state) == arena_envs.TERMINAL
        assert list(game.returns(state)) == episode.returns


def test_a_hint_cannot_command_the_terminal() -> None:
    shown: list[str] = []
    advisor = ScriptedPolicy(lambda request: "\x1b[2Jpass\ud800")
    person = sitting(["?", *["pass"] * 2], shown, advisor=advisor)
    play(kuhn, [person, RandomPolicy()], [0], on_error="raise")
    (hint,) = [line for line in shown if line.startswith("scripted says: ")]
    assert hint == "scripted says: \ufffd[ 2Jpass\ufffd"


def test_in_a_language_game_a_message_is_typed_in_the_line_of_its_action() -> None:
    shown: list[str] = []
    person = sitting(["Half is fair", "Half is fair. offer 50"] + ["accept"] * 9, shown)
    accept = ScriptedPolicy(lambda request: request.wrap("accept"))
    (episode,) = play(
        lambda: arena_envs.make("bargaining"), [person, accept], [0], on_error="raise"
    )
    assert episode.turns[0].action == "Half is fair.\noffer 50"
    assert shown[2].startswith("Type your reply in one line. ")
    assert shown[4].startswith("For example: offer 0, offer 10")
    (refused,) = [text for text in shown if text.startswith("Not a legal action: ")]
    assert "'Half is fair'" in refused
    assert "Write an offer such as `offer" in refused
