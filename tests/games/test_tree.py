"""Trees from files: our own games by hand, the format, and files of strangers."""

import pickle
import random
import re
from pathlib import Path
from typing import Any

import pytest

from arena_envs import make_game
from arena_envs.game import AnyGame
from arena_envs.games.kits.efg import MAX_NODES
from arena_envs.games.tree import FOLDER, KNOWN
from arena_envs.solvers import (
    expected_returns,
    information_states,
    minimax,
    nash_conv,
    uniform_table,
)
from arena_envs.trust import NotTrusted, named_only

NAMES = sorted(path.stem for path in FOLDER.glob("*.efg"))
HEAD = 'EFG 2 R "a game" { "one" "two" }\n'
MATCHING = (
    HEAD
    + """p "" 1 1 "here" { "left" "right" } 0
p "" 2 1 { "left" "right" } 0
t "" 1 "won" { 1, -1 }
t "" 2 "lost" { -1 1 }
p "" 2 1 0
t "" 2
t "" 1 "won" { 1, -1.0 }
"""
)


@pytest.mark.parametrize("name", NAMES)
def test_our_trees_keep_the_contract(name: str, check_contract: Any) -> None:
    check_contract(make_game("tree", file=name))


def table_of(game: AnyGame, choices: dict[str, Any]) -> Any:
    """The policy that plays probabilities by what a seat reads."""
    table = {}
    for (seat, key), state in information_states(game).items():
        text = game.observe(state, seat)
        (probabilities,) = (
            p for part, p in choices.items() if part in f"{seat} {text}"
        )
        table[seat, key] = probabilities
    return table


TRUST = {  # the trustee honours in 5 of 6 games: investing and simulating are worth 7/6
    "The trustee has chosen": [2 / 3, 1 / 3, 0],
    "the trustee honours": [1, 0],
    "the trustee betrays": [0, 1],
    "1 You are player_1": [5 / 6, 1 / 6],
}
OBEDIENT = {  # without advice both dare in 1 of 3 games
    "Do you advise": [0, 1],
    "stays silent": [1 / 3, 2 / 3],
    "advised to yield": [0, 1],
    "advised to dare": [1, 0],
}


@pytest.mark.parametrize(
    ("name", "choices", "values"),
    [
        ("trust", TRUST, (7 / 6, 2)),
        ("mediator", OBEDIENT, (10, 5, 5)),
    ],
)
def test_a_hand_computed_policy_is_an_equilibrium(
    name: str, choices: dict[str, Any], values: tuple[float, ...]
) -> None:
    game = make_game("tree", file=name)
    table = table_of(game, choices)
    assert expected_returns(game, table) == pytest.approx(values)
    assert nash_conv(game, table) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("name", "values"),
    [("entry", (2, 2)), ("agency", (3.2, 2.8)), ("bargaining", (5, 5))],
)
def test_backward_induction_gives_the_values_of_the_page(
    name: str, values: tuple[float, ...]
) -> None:
    assert minimax(make_game("tree", file=name)).returns == pytest.approx(values)
    assert {*NAMES} == KNOWN.keys()


def test_a_file_of_yours_is_read_with_its_texts(
    tmp_path: Path, check_contract: Any
) -> None:
    path = tmp_path / "mine.efg"
    path.write_text(MATCHING)
    game = make_game("tree", file=str(path))
    check_contract(game)
    assert (game.zero_sum, game.information) == (True, "imperfect")
    assert game.observe(0, 0) == 'You are player_0. You are at "here". Your turn.'
    assert "Node 1 is player_1 at its decision 1: left to node 2" in game.rules(0)
    (tmp_path / "mine.toml").write_text('rules = "Match it."\nsets."2.1" = "Guess."\n')
    game = make_game("tree", file=str(path))
    assert (
        game.observe(1, 1)
        == game.observe(4, 1)
        == "You are player_1. Guess. Your turn."
    )
    assert "Match it." in game.rules(1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("NFG 1", "line 1: want EFG, got NFG"),
        (HEAD, "line 1: want c or p or t, got the end of the file"),
        (HEAD + 't "open 1 { 1, 1 }', "line 2: want a closing quotation mark"),
        (HEAD + 'p "" 3 1 { "a" "b" } 0', "line 2: want a player from 1 to 2, got 3"),
        (HEAD + 'p "" 1 1 0', "line 2: want the actions of information set 1"),
        (HEAD + 'p "" 1 1 { "a" "A" } 0', "line 2: want one or more different actions"),
        (HEAD + 'p "" 1 1 { "a,b" } 0', "line 2: want an action without brackets"),
        (
            HEAD + 'c "" 1 { "a" 1/2 "b" 1/3 } 0',
            "line 2: want probabilities with the sum",
        ),
        (
            HEAD + 'c "" 1 { "a" 1/0 } 0',
            "line 2: want a probability with a denominator",
        ),
        (HEAD + 't "" 1 { 1e9999999, 0 }', "line 2: want a payoff such as 2"),
        (HEAD + 't "" 1 { 1 }', "line 2: want 2 payoffs, got 1"),
        (HEAD + 't "" 1 { 1 2 }\nt "" 1', "line 3: want the end of the file"),
        (MATCHING.replace("{ 1, -1.0 }", "{ 2, -2 }"), "line 8: want the payoffs of"),
        (
            HEAD + 'p "" 1 1 { "a" "b" } 0\n' * 2,
            "line 3: want perfect recall of player 1",
        ),
        (
            HEAD + "".join(f'c "" {n + 1} {{ "a" 1 }} 0\n' for n in range(300)),
            "line 203: want at most 20,000 nodes, 200 on a way",
        ),
        (HEAD + f'"{5_001 * "x"}"', "line 2: want a comment of at most 5000"),
        (HEAD + 't "\x1b[2J" 1 { 1 1 }', "line 2: want the name of a node"),
        (MATCHING.replace("1", "0"), "want a player from 1 to 2"),
    ],
)
def test_a_malformed_file_is_refused_with_its_line(
    text: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "bad.efg").write_text(text)
    with pytest.raises(ValueError, match=re.escape(message)):
        make_game("tree", file=str(tmp_path / "bad.efg"))


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("rules = 'a'\nroles = \n", "at line 2"),
        ("title = 'a'", "has no key 'title'"),
        ("[sets]\n'1.2' = 'a'", "no information set '1.2'"),
        ("[outcomes]\n3 = 'a'", "no outcome '3'"),
        ("roles = ['a']", "a list of 2 texts"),
        ("rules = 3", "want rules in"),
        ("a = " + "[" * 5000, "want TOML in"),
        (".".join(["a"] * 20_000) + " = 1", "want keys of one or two parts"),
    ],
)
def test_malformed_texts_are_refused(toml: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "bad.efg").write_text(MATCHING)
    (tmp_path / "bad.toml").write_text(toml)
    with pytest.raises(ValueError, match=re.escape(message)):
        make_game("tree", file=str(tmp_path / "bad.efg"))


HIDDEN = (
    HEAD
    + """c "" 1 { "left" 1/2 "right" 1/2 "never" 0 } 0
p "" 1 1 "here" { "left" "right" } 0
t "" 1 { 1, -1 }
t "" 2 { -1 1 }
p "" 1 2 "here" { "left" "right" } 0
p "" 2 1 { "left" "right" } 0
t "" 1
t "" 2
p "" 2 1 0
t "" 1
t "" 2
t "" 1
"""
)


@pytest.mark.parametrize("toml", ["", "[sets]\n'1.1' = 'same'\n'1.2' = 'same'"])
def test_a_seat_can_tell_its_sets_apart_also_where_names_or_texts_are_equal(
    tmp_path: Path, toml: str, check_contract: Any
) -> None:
    (tmp_path / "mine.efg").write_text(HIDDEN)
    (tmp_path / "mine.toml").write_text(toml)
    game = make_game("tree", file=str(tmp_path / "mine.efg"))
    check_contract(game)
    assert game.information_state(1, 0) != game.information_state(4, 0)
    assert game.observe(1, 0) != game.observe(4, 0)


def test_an_outcome_of_chance_that_never_comes_is_left_out(
    tmp_path: Path, check_contract: Any
) -> None:
    (tmp_path / "mine.efg").write_text(HIDDEN)
    game = make_game("tree", file=str(tmp_path / "mine.efg"))
    check_contract(game)
    assert game.chance_outcomes(0) == [(0, 0.5), (1, 0.5)]


def test_control_tokens_of_a_file_are_broken(tmp_path: Path) -> None:
    text = MATCHING.replace("a game", "<|im_end|>").replace("here", "</think>")
    (tmp_path / "bad.efg").write_text(text)
    game = make_game("tree", file=str(tmp_path / "bad.efg"))
    assert "<|im_end|>" not in game.rules(0)
    assert "</think>" not in game.observe(0, 0)


def test_a_large_file_is_refused_at_once(tmp_path: Path) -> None:
    labels = " ".join(f'"{n}"' for n in range(MAX_NODES + 10))
    ends = 't "" 1 { 1 1 }\n' * (MAX_NODES + 10)
    (tmp_path / "big.efg").write_text(HEAD + f'p "" 1 1 {{ {labels} }} 0\n' + ends)
    with pytest.raises(ValueError, match="at most 20,000 nodes"):
        make_game("tree", file=str(tmp_path / "big.efg"))


def test_a_strangers_text_names_trees_of_ours_only(tmp_path: Path) -> None:
    with named_only():
        make_game("tree", file="trust")
        with pytest.raises(NotTrusted, match="open a file"):
            make_game("tree", file=str(tmp_path / "theirs.efg"))
    with pytest.raises(ValueError, match="did you mean 'trust'"):
        make_game("tree", file="trusts")


def test_a_changed_file_of_the_same_name_is_another_game(tmp_path: Path) -> None:
    """What is remembered of the old one, such as draws and solutions, does not answer for it."""
    path = tmp_path / "game.efg"
    path.write_text(MATCHING)
    old = make_game("tree", file=str(path))
    assert old.resample(1, 1, random.Random(0)) in (1, 4)
    assert nash_conv(old, uniform_table(old)) == 0  # both sides are equally likely
    (tmp_path / "game.toml").write_text('rules = "Match."\n')
    with_texts = make_game("tree", file=str(path))
    path.write_text(MATCHING.replace('1 "won" { 1, -1.0 }', '3 "more" { 3, -3 }'))
    new = make_game("tree", file=str(path))
    assert len({old, with_texts, new, make_game("tree", file=str(path))}) == 3
    assert nash_conv(new, uniform_table(new)) == 1  # each gains a half
    assert old == pickle.loads(pickle.dumps(old))
