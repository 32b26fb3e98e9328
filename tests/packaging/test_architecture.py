"""What the packages may import, and what the distribution says of itself."""

import ast
import functools
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "arena_envs": ROOT / "arena_envs",
    "arena_credit": ROOT / "trainers" / "arena_credit",
    "arena_wrappers": ROOT / "wrappers" / "arena_wrappers",
    "arena_eval": ROOT / "trainers" / "arena_eval",
    "arena_studio": ROOT / "trainers" / "arena_studio",
    "arena_trainers": ROOT / "trainers" / "arena_trainers",
}
# Which packages of the project each package may import.
BELOW = {
    "arena_envs": set(),
    "arena_credit": {"arena_envs"},
    "arena_wrappers": {"arena_envs"},
    "arena_eval": {"arena_envs", "arena_credit", "arena_wrappers"},
    "arena_studio": {"arena_envs", "arena_credit", "arena_wrappers", "arena_eval"},
    "arena_trainers": set(PACKAGES) - {"arena_trainers"},
}
TRAINING = {"accelerate", "datasets", "matplotlib", "peft", "torch", "transformers"}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def modules(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@functools.cache
def imports(path: Path, nested: bool = True) -> tuple[str, ...]:
    """Names that a file imports; `nested`: in functions too."""
    return tuple(_imports(path, nested))


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements below a node; expressions, most of the tree, hold none."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield child
            yield from statements(child)


def _imports(path: Path, nested: bool) -> Iterator[str]:
    tree = parsed(path)
    for node in statements(tree) if nested else tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def roots(path: Path, nested: bool = True) -> set[str]:
    return {name.split(".")[0] for name in imports(path, nested)}


def test_imports_point_down() -> None:
    heavy = {"trl", *TRAINING}
    offenders = set()
    for package, root in PACKAGES.items():
        banned = set(PACKAGES) - BELOW[package] - {package}
        always = heavy if package == "arena_envs" else set()
        at_import = set() if package == "arena_trainers" else heavy
        paths = modules(root)
        assert paths
        for path in paths:
            names = roots(path) & (banned | always)
            names |= roots(path, nested=False) & at_import
            if names:
                offenders.add(f"{path.relative_to(ROOT)}: {', '.join(sorted(names))}")
    assert not offenders, "\n".join(sorted(offenders))


def test_a_game_imports_the_protocol_kits_shapes_and_no_other_game() -> None:
    games = [
        path
        for path in modules(PACKAGES["arena_envs"] / "games")
        if path.parts[-2:]
        != ("kits", "questions.py")  # bots of a family, which search as solvers do
    ]
    needed = "checks game games.kits hostile registry scenes.shapes talk trust"
    allowed = tuple(f"arena_envs.{name}." for name in needed.split())

    def other_games(path: Path) -> set[str]:
        own = f"arena_envs.games.{path.parent.name}."
        ours = {name for name in imports(path) if name.split(".")[0] == "arena_envs"}
        return {name for name in ours if not f"{name}.".startswith((*allowed, own))}

    assert games
    offenders = {path.stem: names for path in games if (names := other_games(path))}
    assert not offenders


def test_credit_needs_the_protocol_of_a_game_and_the_registry_alone() -> None:
    offenders = {
        path.stem: names
        for path in modules(PACKAGES["arena_credit"])
        if (
            names := {
                name
                for name in imports(path)
                if name.startswith("arena_envs.")
                and not name.startswith(("arena_envs.game.", "arena_envs.registry."))
            }
        )
    }
    assert not offenders


# What importing a package, or using its first name, must not need.
WITHOUT = {
    "arena_credit": {"gymnasium", "pettingzoo", "scipy", "torch"},
    "arena_eval": {"matplotlib", "scipy", "torch", "trl"},
    "arena_eval.tournament": {"matplotlib", "scipy", "torch", "trl"},
    "arena_studio.report": {"torch", "trl"},
    "arena_studio.web": {"torch", "trl"},
    "arena_trainers.cli.main": {"torch", "trl"},
}


@pytest.mark.parametrize("module", WITHOUT)
def test_a_package_imports_without_what_it_does_not_need(module: str) -> None:
    script = f"""
import importlib, sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {WITHOUT[module]!r}:
            raise ModuleNotFoundError(f"no module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
importlib.import_module({module!r})
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_estimators_work_without_gymnasium_and_pettingzoo() -> None:
    script = """
import sys
import arena_credit
assert not {"arena_envs", "gymnasium", "pettingzoo"} & {*sys.modules}
for name in ("gymnasium", "pettingzoo"):
    sys.modules[name] = None  # what imports it fails
assert "mars" in arena_credit.estimator_names()
arena_credit.audit
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_rooms_of_the_wrappers_import_those_before_them() -> None:
    root = PACKAGES["arena_wrappers"]
    order = ["prompts", "locks", "records", "policies", "play", "adapters"]
    rooms = {path.relative_to(root).with_suffix("").parts[0] for path in modules(root)}
    assert rooms == {"__init__", *order}
    offenders = {
        f"{path.relative_to(ROOT)} must not import {name}"
        for path in modules(root)
        if (room := path.relative_to(root).with_suffix("").parts[0]) in order
        for name in imports(path)
        if name.startswith("arena_wrappers.")
        and name.split(".")[1] not in order[: order.index(room) + 1]
    }
    assert not offenders, "\n".join(sorted(offenders))


def order_of_folders() -> list[str]:
    """The folders of `arena_trainers` in the order of CONTRIBUTING's table."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    _, _, table = text.partition("| Folder | Content |\n")
    table, _, _ = table.partition("\n\n")
    names = [name for row in table.splitlines() for name in row.split("|")[1].split()]
    return [name.strip("`,/") for name in names if name.count("/") == 1]


def test_the_folders_of_the_trainer_import_those_below_them() -> None:
    root, order = PACKAGES["arena_trainers"], order_of_folders()
    folders = {path.parent.name for path in root.glob("*/__init__.py")}
    assert folders
    assert folders <= set(order), "give the folder a row in CONTRIBUTING.md"
    offenders = {
        f"{path.relative_to(ROOT)} must not import {name}"
        for path in modules(root)
        if (folder := path.relative_to(root).parts[0]) in folders
        for name in imports(path)
        if name.startswith("arena_trainers.")
        and (imported := name.split(".")[1]) in folders
        and order.index(imported) < order.index(folder)
    }
    assert not offenders, "\n".join(sorted(offenders))


BASE = {
    "checkpoint",
    "finite",
    "inherited",
    "options",
    "processes",
    "terminal",
    "trial",
    "weight",
}  # modules below all folders


def test_only_base_modules_stand_beside_the_folders_of_the_trainer() -> None:
    root = PACKAGES["arena_trainers"]
    loose = {path.stem for path in root.glob("*.py")}
    assert loose == {"__init__", "__main__", *BASE}
    for name in BASE:
        found = {
            x for x in imports(root / f"{name}.py") if x.startswith("arena_trainers")
        }
        assert {x.split(".")[1] for x in found} <= BASE, name


def import_graph(package: str) -> dict[str, set[str]]:
    """Which modules of a package a module imports: in functions and under TYPE_CHECKING too."""
    root = PACKAGES[package]
    names = {path: module_name(path.relative_to(root.parent)) for path in modules(root)}
    known = set(names.values())
    return {
        name: {
            imported if imported in known else imported.rpartition(".")[0]
            for imported in imports(path)
        }
        & (known - {name})
        for path, name in names.items()
    }


@pytest.mark.parametrize("package", PACKAGES)
def test_no_modules_import_each_other_in_a_circle(package: str) -> None:
    graph = import_graph(package)
    assert graph
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


def module_name(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


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


def test_the_readme_cites_what_the_citation_file_says() -> None:
    """An owner fills in `CITATION.cff`; this names what the README's BibTeX then lacks."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    readme = (ROOT / "README.md").read_text()
    fields = dict(re.findall(r"^  (\w+) += \{+(.*?)\}+,?$", readme, re.MULTILINE))
    names = [
        author.get("name") or f"{author['family-names']}, {author['given-names']}"
        for author in citation["authors"]
    ]
    assert fields["author"] == " and ".join(names)
    assert fields["title"] == citation["title"]
    assert fields["version"] == str(citation["version"])
    assert fields["url"] == citation["repository-code"]


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
    assert core == {
        "gymnasium",
        "numpy",
        "packaging",
        "pettingzoo",
        "pyyaml",
        "rich",
        "typer",
    }


def test_what_make_train_installs_evaluates_and_plays_tournaments() -> None:
    extras = PROJECT["optional-dependencies"]
    assert set(extras["eval"]) <= set(extras["train"])
