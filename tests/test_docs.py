"""The pages under docs/ are up to date."""

import json
import re
import subprocess
import sys
from pathlib import Path

import yaml

from arena_trainers import credit
from arena_trainers.credit import by_name
from build_credit import estimators_page
from build_reference import public_modules

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs" / "credit"


def test_the_pages_of_the_games_are_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "docs" / "build_games.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_page_of_the_pretrained_model_is_that_of_its_results() -> None:
    command = [sys.executable, str(ROOT / "docs" / "build_smollm2.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_page_of_the_language_games_is_that_of_its_results() -> None:
    command = [sys.executable, str(ROOT / "docs" / "build_language.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_page_of_the_estimators_is_up_to_date() -> None:
    """Write it with: python docs/build_credit.py --write"""
    measured = json.loads((DOCS / "cost.json").read_text())
    costs = {name: row["ms"] for name, row in measured.items()}
    assert (DOCS / "estimators.md").read_text() == estimators_page(costs)
    assert set(by_name.estimators.built_in) <= set(costs)


def test_the_package_names_every_estimator_once() -> None:
    rows = [row for row in credit.__doc__.splitlines() if row[:3] == "| `"]
    cells = [row.split("|")[1] for row in rows]
    named = sorted(name for cell in cells for name in re.findall("`(.+?)`", cell))
    assert named == sorted(by_name.estimators.built_in)


def test_the_page_of_the_adapters_is_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "docs" / "build_adapters.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_page_of_the_options_is_that_of_their_declarations() -> None:
    command = [sys.executable, str(ROOT / "docs" / "build_options.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_site_leads_to_every_page():
    """Pages of single games are reached from the gallery."""
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    found = re.findall(r"[\w/.]+\.md", json.dumps(site["nav"]))
    pages = {
        path.relative_to(ROOT / "docs").as_posix()
        for path in (ROOT / "docs").rglob("*.md")
        if path.parent.name not in ("games", "reference")
    }
    left_out = set(site["exclude_docs"].split())
    assert pages - set(found) == {"decisions.md"} <= left_out
    assert [name for name in found if name not in pages and "/" not in name] == []


def test_the_reference_has_every_module_that_lists_public_names():
    modules = set(public_modules())
    assert {"arena_envs", "arena_trainers.credit", "arena_wrappers.play"} <= modules
    assert not any(name.startswith("arena_envs.games") for name in modules)
