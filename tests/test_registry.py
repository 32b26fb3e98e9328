"""Registries: one grammar of strings, and one way to list, make and check plug-ins."""

import sys
from typing import Any

import pytest

from arena_credit import estimator_names
from arena_credit.by_name import estimators
from arena_envs import make_game
from arena_envs.bots import bots
from arena_envs.registration import games
from arena_envs.registry import (
    BrokenPromise,
    Expression,
    Registry,
    expression,
    imported,
    value_of,
)
from arena_trainers.curricula import curricula
from arena_trainers.data import select, selectors
from arena_trainers.matchmaking import matchmakers
from arena_trainers.offline.protocol import row_trainers
from arena_wrappers import make_policy, play
from arena_wrappers.policies import policies

REGISTRIES = [
    *(games, bots, policies, estimators()),
    *(matchmakers, curricula, selectors, row_trainers),
]

PLUG_INS = """
from arena_trainers.curricula import BaseCurriculum, Task
from arena_trainers.data.built_in.returns import wins
from arena_credit.estimators.turn_level import mars
from arena_trainers.matchmaking import BaseMatchmaker
from arena_wrappers import Reply

class Loud:
    name = "loud"
    def __init__(self, times: int = 1, *, word="bet"):
        self.reply = word * times
    def act(self, requests):
        return [Reply(r.wrap(self.reply)) for r in requests]

class Solo(BaseMatchmaker):
    def assign(self, starts, step, rng):
        return [("self",) * start.num_seats for start in starts]

class Nobody(BaseMatchmaker):
    policies = ("random",)
    def assign(self, starts, step, rng):
        return [("random",) * start.num_seats for start in starts]

class Short(BaseCurriculum):
    def __init__(self, *, max_turns=4):
        self.max_turns = max_turns
    def propose(self, step, rng):
        return Task(max_turns=self.max_turns)

not_callable = 3
"""


@pytest.fixture
def plug_ins(tmp_path, monkeypatch):
    (tmp_path / "registry_plug_ins.py").write_text(PLUG_INS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    sys.modules.pop("registry_plug_ins", None)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("minimax", Expression("minimax")),
        ("mcts:100", Expression("mcts", "100")),
        ("api:a@http://b:1/v1#t=2", Expression("api", "a@http://b:1/v1#t=2")),
        ('lm:"a (1), b:c"', Expression("lm", "a (1), b:c")),
        ("lm:bob's model", Expression("lm", "bob's model")),
        ("noisy:0.2(lm:'a)b')", Expression("noisy", "0.2", ("lm:'a)b'",))),
        (
            "wins(top=1e-3, games=[a, b], name='c, d')",
            Expression(
                "wins", options={"top": 1e-3, "games": ["a", "b"], "name": "c, d"}
            ),
        ),
        ({"mcts:5": None}, Expression("mcts", "5")),
        ({"wins": {"top": 1}}, Expression("wins", options={"top": 1})),
    ],
)
def test_strings_and_mappings_have_one_grammar(text, found):
    assert expression(text) == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "want a name, got ''"),
        (3, "want a name, got 3"),
        ("a(b", "want closed parentheses"),
        ("a(b)c", "nothing after them"),
        ("a:'b", "want closed parentheses and quotes"),
        ({"a": 1}, r"write NAME\(key=value\) or \{NAME: \{key: value\}\}"),
        ({"a": {}, "b": {}}, "want one name with its options"),
        ({}, "want a name, got"),
    ],
)
def test_other_strings_and_mappings_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        expression(text)


def test_values_are_yaml_with_all_numbers():
    given = ["1", "-2.5", "1e-6", ".5", "true", "null", "{a: [1]}", "text"]
    found = [1, -2.5, 1e-6, 0.5, True, None, {"a": [1]}, "text"]
    assert list(map(value_of, given)) == found
    for text, reason in (("2026-99-99", "month must be"), (4_000 * "9", "digits")):
        with pytest.raises(ValueError, match=f"want a value such as.*{reason}"):
            value_of(text)


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda registry: registry.kind)
def test_every_registry_lists_its_names_and_knows_them(registry):
    assert registry.names() == sorted(registry.names())
    assert all(map(registry.knows, registry.names()))
    assert not registry.knows("nobody_s_name")


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda registry: registry.kind)
def test_every_registry_suggests_a_name(registry):
    near = registry.names()[0]
    with pytest.raises(ValueError, match=f"{registry.kind} .*; did you mean '{near}'"):
        registry.make(near + "x")


def test_a_module_names_a_plug_in_wherever_plug_ins_are_named(plug_ins):
    loud: Any = make_policy("registry_plug_ins:Loud(word=pass)")
    assert loud.reply == "pass"
    with pytest.raises(ValueError, match="no option 'wrod'; did you mean 'word'"):
        make_policy("registry_plug_ins:Loud(wrod=pass)")
    assert matchmakers.make({"registry_plug_ins:Solo": {}}).max_live == 0
    short: Any = curricula.make("registry_plug_ins:Short(max_turns=3)")
    assert short.max_turns == 3
    played = play("kuhn_poker", "random", range(4))
    assert select("registry_plug_ins:wins", played).rows == select("wins", played).rows
    assert "registry_plug_ins:mars" not in estimator_names()
    assert estimators().find("registry_plug_ins:mars") is estimators().find("mars")


def test_a_missing_module_or_name_is_told(plug_ins):
    with pytest.raises(
        ValueError, match=r"no policy 'mtcs'; did you mean 'mcts'\? Nor is there"
    ):
        make_policy("mtcs:ten")
    with pytest.raises(ValueError, match="did you mean 'Loud'"):
        make_policy("registry_plug_ins:Lout")
    with pytest.raises(ValueError, match=r"of a function or class, got .* which is 3"):
        matchmakers.make("registry_plug_ins:not_callable")


def test_a_registry_checks_promises(plug_ins):
    matchmakers.check(lambda: matchmakers.make("registry_plug_ins:Solo"))
    with pytest.raises(BrokenPromise, match="broken promise 'a learner'"):
        matchmakers.check(lambda: matchmakers.make("registry_plug_ins:Nobody"))
    selectors.check(selectors.find("wins"))
    with pytest.raises(TypeError, match="there is no check of a bot"):
        bots.check(bots.make("first"))


def test_a_game_takes_parameters_in_its_string():
    three = make_game("kuhn_poker", num_players=3)
    assert make_game("kuhn_poker(num_players=3)") == three
    assert games.make({"kuhn_poker": {"num_players": 3}}) == three


def test_a_built_in_that_needs_an_extra_names_it():
    registry: Registry[object] = Registry(
        "thing", "", {"a": "arena_absent.module:a"}, extra="eval"
    )
    with pytest.raises(ModuleNotFoundError, match=r"install '\.\[eval\]'"):
        registry.make("a")


def test_a_module_of_the_working_directory_hides_no_other(tmp_path, monkeypatch):
    """The directory is searched once, and last."""
    (tmp_path / "found_here.py").write_text("value = 7")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", before := list(sys.path))
    first = before[0]
    assert [imported("found_here:value", "a value") for _ in range(2)] == [7, 7]
    assert sys.path[0] == first
    assert sys.path.count(str(tmp_path)) == 1
    assert sys.path[-1] == str(tmp_path)


def test_a_name_without_an_object_is_refused():
    with pytest.raises(ValueError, match="want a value, got 'json:no_such'"):
        imported("json:no_such", "a value")


def test_an_entry_point_of_this_project_names_the_extra_that_it_needs(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # as if it were not installed
    monkeypatch.delitem(sys.modules, "arena_trainers.lm.policy", raising=False)
    with pytest.raises(ImportError, match=r"'torch'; .*pip install '\.\[train\]'"):
        make_policy("lm:runs/first/model")
