"""The pages under docs/ are up to date."""

import json
import re
import runpy
import sys
from pathlib import Path

import pytest
import yaml

from build_credit import estimators_page
from build_reference import public_modules

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs" / "credit"
PAGES = [
    path
    for path in sorted((ROOT / "docs").rglob("*.md"))
    if path.parent.name not in ("games", "reference")
]


@pytest.mark.parametrize(
    "page",
    [
        "games",
        "smollm2",
        "language",
        "adapters",
        "options",
        "replies",
        "plugins",
        "papers",
        "glossary",
        "audit",
        pytest.param("board", marks=pytest.mark.slow),  # plays 14,400 episodes again
    ],
)
def test_a_page_is_what_its_script_writes(page, monkeypatch) -> None:
    """The script exits with a message where the page is out of date."""
    script = str(ROOT / "docs" / f"build_{page}.py")
    monkeypatch.setattr(sys, "argv", [script])
    runpy.run_path(script, run_name="__main__")


def test_the_page_of_the_estimators_is_up_to_date() -> None:
    """Write it with: python docs/build_credit.py --write"""
    measured = json.loads((DOCS / "cost.json").read_text())
    costs = {name: row["ms"] for name, row in measured.items()}
    assert (DOCS / "estimators.md").read_text() == estimators_page(costs)


GENERATED = {  # by a script that a test or the page's head names
    "adapters.md",
    "audit.md",
    "audit/details.md",
    "audit/reports.md",
    "board.md",
    "board-small.md",
    "openspiel.md",
    "options.md",
    "papers.md",
    "plugins.md",
    "replies.md",
    "self-play.md",
    "appendix/self-play-small.md",
    "smollm2.md",
    "terms.md",
    "textarena.md",
    *(f"credit/{name}.md" for name in ("README", "choose", "estimators", "games")),
    *(f"credit/{name}.md" for name in ("language", "report", "surprise")),
    "methods/README.md",
    "opponents/README.md",
}


def test_a_generated_page_says_what_wrote_it():
    for name in GENERATED:
        head = (ROOT / "docs" / name).read_text()[:800].lower()
        assert re.search("(written|made) by|wrote this page|written from", head), name


def test_the_site_leads_to_every_page():
    """Pages of single games are reached from the gallery."""
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    found = re.findall(r"[\w/.-]+\.md", json.dumps(site["nav"]))
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in PAGES}
    left_out = set(site["exclude_docs"].split())
    audit = {"audit.md", "audit/details.md", "audit/reports.md"}
    assert pages - set(found) - audit == {"decisions.md"} <= left_out
    assert [name for name in found if name not in pages and "/" not in name] == []


def test_generated_pages_stand_in_the_appendix():
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    *guide, appendix = site["nav"]
    assert [*appendix] == ["Appendix"]
    names = re.findall(r"[\w/.-]+\.md", json.dumps(guide))
    assert not GENERATED & {*names}
    written = {path.relative_to(ROOT / "docs").as_posix() for path in PAGES} - GENERATED
    assert written - {*names} == {
        "decisions.md",
        "glossary.md",
    }  # for developers; a table


def test_the_reference_has_every_module_that_lists_public_names():
    modules = set(public_modules())
    assert {"arena_envs", "arena_credit", "arena_wrappers.play"} <= modules
    assert not any(name.startswith("arena_envs.games") for name in modules)


@pytest.mark.slow
def test_the_moving_picture_is_what_its_script_draws(tmp_path):
    """Write it with: python docs/build_moving.py"""
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("resvg_py")
    from build_moving import IMAGE, draw

    draw(tmp_path / "game.gif")
    with image.open(tmp_path / "game.gif") as drawn, image.open(IMAGE) as shown:
        assert (drawn.n_frames, drawn.size) == (shown.n_frames, shown.size)
