"""What the packages may import, and what the distribution says of itself."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "arena_envs": ROOT / "arena_envs",
    "arena_wrappers": ROOT / "wrappers" / "arena_wrappers",
    "arena_trainers": ROOT / "trainers" / "arena_trainers",
}
TRAINING = {"accelerate", "datasets", "matplotlib", "peft", "torch", "transformers"}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def modules(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imports(path: Path, nested: bool = True) -> Iterator[str]:
    """Names that a file imports; `nested`: in functions too."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree) if nested else tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def roots(path: Path, nested: bool = True) -> set[str]:
    return {name.split(".")[0] for name in imports(path, nested)}


@pytest.mark.parametrize("path", modules(PACKAGES["arena_envs"]), ids=relative)
def test_the_games_know_neither_wrappers_nor_trainers_nor_torch(path: Path) -> None:
    assert not roots(path) & {"arena_wrappers", "arena_trainers", "trl", *TRAINING}


@pytest.mark.parametrize(
    "path", modules(PACKAGES["arena_envs"] / "games")[1:], ids=relative
)
def test_a_game_imports_the_rules_and_no_other_game(path: Path) -> None:
    ours = {name for name in imports(path) if name.split(".")[0] == "arena_envs"}
    allowed = ("arena_envs.game.", "arena_envs.games._")
    assert [name for name in ours if not name.startswith(allowed)] == []


@pytest.mark.parametrize("path", modules(PACKAGES["arena_wrappers"]), ids=relative)
def test_the_wrappers_know_no_trainer_and_import_no_torch_at_once(path: Path) -> None:
    assert "arena_trainers" not in roots(path)
    assert not roots(path, nested=False) & {"trl", *TRAINING}


@pytest.mark.parametrize(
    "path", modules(PACKAGES["arena_trainers"] / "credit"), ids=relative
)
def test_credit_needs_nothing_but_numpy(path: Path) -> None:
    assert not roots(path) & {"arena_envs", "arena_wrappers", "trl", *TRAINING}


@pytest.mark.parametrize("folder", ["wrappers", "trainers"])
def test_a_folder_is_no_package(folder: str) -> None:
    assert not (ROOT / folder / "__init__.py").exists()
    assert folder not in {path.name for path in PACKAGES.values()}


@pytest.mark.parametrize("package", PACKAGES)
def test_types_are_published(package: str) -> None:
    assert (PACKAGES[package] / "py.typed").exists()


def test_the_version_is_the_same_everywhere() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == PROJECT["version"]
    assert f"## {PROJECT['version']}" in (ROOT / "CHANGELOG.md").read_text()


def test_constraints_fit_the_ranges_of_the_dependencies() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [Requirement(line) for line in lines if line and line[0] != "#"]
    versions = {pin.name.replace("_", "-"): next(iter(pin.specifier)) for pin in pins}
    assert "torch" in versions
    extras = PROJECT["optional-dependencies"].values()
    for line in [
        *PROJECT["dependencies"],
        *(line for extra in extras for line in extra),
    ]:
        requirement = Requirement(line)
        pin = versions.get(requirement.name.replace("_", "-"))
        if pin is not None:
            assert pin.operator == "=="
            assert requirement.specifier.contains(pin.version), line


def test_training_libraries_are_no_core_dependency() -> None:
    core = {Requirement(line).name for line in PROJECT["dependencies"]}
    assert core == {"gymnasium", "numpy", "pettingzoo", "pyyaml", "rich", "typer"}


def test_what_make_train_installs_evaluates_and_plays_tournaments() -> None:
    extras = PROJECT["optional-dependencies"]
    assert set(extras["eval"]) <= set(extras["train"])
