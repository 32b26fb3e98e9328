"""What a contributor finds around the code: decisions, changelog, versions."""

import re
import runpy
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]


def test_each_decision_has_a_link_that_leads_somewhere():
    page = ROOT / "docs" / "decisions.md"
    _, _, text = page.read_text().partition("\n## ")
    lines = [line for line in text.splitlines() if line.startswith("- ")]
    assert lines
    for line in lines:
        link = re.search(r"\[\w+\]\((\S+)\)$", line)
        assert link, line
        assert (page.parent / link[1]).exists(), line


def test_the_newest_version_of_the_changelog_is_the_packages() -> None:
    """After "Unreleased", versions follow from the newest to the oldest, each once."""
    text = (ROOT / "CHANGELOG.md").read_text()
    first, *others = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert first == "Unreleased"
    form = r"(\d+)\.(\d+)\.(\d+)(?: - \d{4}-\d\d-\d\d)?"
    found = [re.fullmatch(form, title) for title in others]
    assert all(found), others
    versions = [tuple(map(int, match.groups())) for match in found if match]
    assert versions == sorted(set(versions), reverse=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert ".".join(map(str, versions[0])) == project["version"]


def test_the_workflow_covers_every_python_that_the_package_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [
        label.rpartition(" :: ")[2]
        for label in project["classifiers"]
        if re.search(r":: 3\.\d+$", label)
    ]
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    matrices = [
        job["strategy"]["matrix"]["python"]
        for job in workflow["jobs"].values()
        if "strategy" in job
    ]
    assert matrices == [named, named]


def test_what_takes_long_runs_every_night() -> None:
    """Each by one command: a target of the Makefile."""
    workflow = yaml.safe_load((ROOT / ".github/workflows/nightly.yml").read_text())
    job = workflow["jobs"]["nightly"]
    targets = job["strategy"]["matrix"]["target"]
    assert sorted(targets) == [
        "adapters",
        "blocks",
        "browser",
        "engine",
        "scale",
        "slow",
    ]
    assert job["steps"][-1] == {"run": "make ${{ matrix.target }}"}
    makefile = (ROOT / "Makefile").read_text()
    assert all(f"\n{target}:" in makefile for target in targets)


def test_each_extra_takes_its_first_steps_alone_every_night() -> None:
    """The two of the README do so before each merge, too."""
    script = runpy.run_path(str(ROOT / "tests" / "packaging" / "check_extras.py"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {script["NONE"], *project["optional-dependencies"]}
    assert {*script["STEPS"], *script["ELSEWHERE"]} == extras
    workflow = yaml.safe_load((ROOT / ".github/workflows/nightly.yml").read_text())
    job = workflow["jobs"]["extras"]
    assert {*job["strategy"]["matrix"]["extra"]} == {*script["STEPS"]}
    last = {"run": "python tests/packaging/check_extras.py ${{ matrix.extra }}"}
    assert job["steps"][-1] == last
    named = {
        *re.findall(r"pip install '\.\[(\w+)\]'", (ROOT / "README.md").read_text())
    }
    merge = re.search(r'extras ARGS="([\w ]+) --wheel', (ROOT / ".ci/run").read_text())
    assert merge
    assert {*merge[1].split()} <= named


def test_no_block_of_the_documentation_runs_the_tests() -> None:
    """`make blocks` runs the blocks: one of them must not run it again."""
    script = runpy.run_path(str(ROOT / "tests" / "packaging" / "check_docs.py"))
    run = [b for page in script["PAGES"] for b in script["blocks"](page) if b.runs]
    assert run
    targets = r"make (docs|extras|blocks|quick|test|slow|engine|scale|adapters|browser|mutants)"
    assert not [b.page for b in run if re.search(targets, b.code)]


def test_the_files_of_the_quick_tests_exist():
    names = (ROOT / "tests" / "quick.txt").read_text().split()
    assert all((ROOT / name).exists() for name in names if not name.startswith("--"))


def test_each_planted_fault_stands_once_in_its_file():
    faults = tomllib.loads((ROOT / "tests" / "mutants" / "faults.toml").read_text())
    for fault in faults["fault"]:
        assert (ROOT / fault["file"]).read_text().count(fault["old"]) == 1, fault
        assert all((ROOT / path).exists() for path in fault["tests"]), fault


def test_one_tag_builds_what_a_release_has_and_publishes_only_when_an_owner_allows_it():
    text = (ROOT / ".github/workflows/release.yml").read_text()
    jobs = yaml.safe_load(text)["jobs"]
    commands = [step.get("run", "") for step in jobs["build"]["steps"]]
    assert {"make wheel", "make docs"} <= set(commands)
    assert "attest-build-provenance" in text
    owner = (ROOT / "RELEASE.md").read_text()
    for job, variable in (("package", "PUBLISH_PACKAGE"), ("site", "PUBLISH_SITE")):
        assert jobs[job]["if"] == f"vars.{variable} == 'true'"
        assert f"`{variable}`" in owner


# Everything at the top level; what a command left behind is not part of the project.
TOP_LEVEL = """
.ci .github .gitignore .pre-commit-config.yaml CHANGELOG.md CITATION.cff CONTRIBUTING.md LICENSE
Makefile README.md RELEASE.md SECURITY.md arena_envs benchmarks conftest.py constraints constraints.txt
docs environments mkdocs.yml notebooks pyproject.toml tests trainers wrappers
"""


def test_nothing_else_stands_at_the_top_level() -> None:
    """Two folders of training runs once did: models, optimizers and pages, unnoticed."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True
    )
    if listed.returncode:
        pytest.skip("no checkout of git")
    names = {path.partition("/")[0] for path in listed.stdout.split("\0") if path}
    assert names == {*TOP_LEVEL.split()}
