"""Recipes that name code: announced before it is imported, and imported by no dry run."""

import sys
from pathlib import Path

import pytest
import yaml

from arena_envs import trust
from arena_trainers.cli import train_request
from arena_trainers.runs.code import named_code

PLAIN = {"games": ["kuhn_poker"], "max_steps": 1}
OWN = "own_recipe_code"
NAMING = {
    "games": {"games": [f"{OWN}:wrap(kuhn_poker)"]},
    "warm_start_games": {"warm_start": {"games": [f"{OWN}:wrap(kuhn_poker)"]}},
    "credit": {"credit": f"{OWN}:credit"},
    "critic": {"critic": f"{OWN}:critic"},
    "curriculum": {"curriculum": {f"{OWN}:curriculum": {"speed": 1}}},
    "opponents": {"opponents": f"{OWN}:opponents"},
    "a policy of opponents": {"opponents": f"noisy:0.1({OWN}:Bot)"},
    "losses": {"losses": {f"{OWN}:term": {"weight": 1}}},
    "rewards": {"rewards": {f"{OWN}:part": {"weight": 1}}},
    "columns": {"columns": {"a": f"{OWN}:column"}},
    "agent": {"agent": f"{OWN}:agent"},
    "teacher": {"warm_start": {"teacher": f"{OWN}:Bot", "steps": 1}},
    "trainer": {"trainer": f"{OWN}:Trainer", "data": "rows.parquet"},
    "select": {"rounds": {"select": {f"{OWN}:select": {}}}},
    "source": {"games": [{"id": "questions", "params": {"source": f"{OWN}:tasks"}}]},
    "a quoted option": {"games": ['goal(kuhn_poker, at="\\x6fwn_recipe_code:end")']},
}

SHORT = ("games", "credit", "opponents", "teacher")  # that are no nightly tests


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    """Writes a recipe beside a module that fails when it is imported."""
    (tmp_path / f"{OWN}.py").write_text("raise RuntimeError('imported')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(trust, "_named_by_operators", set())  # of other tests

    def write(settings):
        Path("recipe.yaml").write_text(yaml.safe_dump(PLAIN | settings))
        return "recipe.yaml"

    return write


@pytest.mark.parametrize("settings", NAMING.values(), ids=NAMING)
def test_the_code_is_announced_before_it_is_imported(recipe, settings):
    request = train_request.Request(PLAIN | settings, Path("run"), recipe(settings))
    found = [path for path in named_code(request.settings) if path.startswith(OWN)]
    assert found
    assert train_request.imports_line(request).endswith(
        f"that this run imports: {', '.join(found)}"
    )


def test_the_announcement_comes_before_the_import(recipe, arena_here):
    settings = {"games": [f"{OWN}:Game"]}
    run = arena_here("train", recipe(settings), "--output-dir", "run")
    announced, _, failed = run.stderr.partition("\n")
    assert run.returncode == 2
    assert announced == f"recipe.yaml names code that this run imports: {OWN}:Game"
    assert "imported" in failed


def test_what_the_command_line_names_is_not_announced(recipe):
    request = train_request.read_request([recipe({}), "--credit", f"{OWN}:credit"])
    assert not train_request.imports_line(request)


def test_the_code_of_a_run_is_announced_where_it_resumes(recipe):
    request = train_request.Request(
        {"critic": f"{OWN}:critic"}, Path("a"), "a/config.yaml", resume=True
    )
    assert train_request.imports_line(request).startswith("a/config.yaml names code")


def test_embedded_recipes_are_not_announced():
    assert not train_request.imports_line(
        train_request.read_request(["spiral", "--output-dir", "run"])
    )


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(settings, marks=() if name in SHORT else pytest.mark.slow)
        for name, settings in NAMING.items()
    ],
    ids=NAMING,
)
def test_a_dry_run_imports_nothing_that_the_recipe_names(recipe, arena_here, settings):
    run = arena_here("train", recipe(settings), "--dry-run")
    assert run.returncode == 2
    assert "RuntimeError" not in run.stdout + run.stderr
    assert OWN not in sys.modules


def test_a_dry_run_imports_the_code_that_an_operator_allows(recipe, arena_here):
    file = recipe({"games": [f"{OWN}:Game"]})
    for arguments in ((file, "--allow-code"), ("--games", f"{OWN}:Game")):
        run = arena_here("train", *arguments, "--dry-run")
        assert "RuntimeError: imported" in run.stderr


def test_code_of_models_is_announced():
    named = named_code({"model_init_kwargs": '{"trust_remote_code": true}', "beta": 0})
    assert named == ["trust_remote_code"]
    assert named_code({"trust_remote_code": False}) == []


def test_help_imports_nothing_that_the_recipe_names(recipe, arena_here):
    file = recipe(NAMING["trainer"])
    run = arena_here("train", file, "--help-all")
    assert run.returncode == 2
    assert "--allow-code" in run.stderr
