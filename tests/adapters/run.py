"""Makes the environments of the adapters, runs their tests, and writes what was found.

Run by `make adapters`. All frameworks are run, whichever fail. Results of those that pass go to
`results.json` beside this file and to `docs/adapters.md`. The failures are listed at the end,
and the exit status is 1. Environments that exist are used as they are.

    python tests/adapters/run.py sb3 rllib     # some frameworks; the others keep their results
"""

import argparse
import json
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MODULES = ROOT / "wrappers" / "arena_wrappers" / "adapters"
RESULTS = HERE / "results.json"


class Failed(Exception):
    """The tests of a framework failed."""


def python_of(environment: Path) -> Path:
    """The interpreter of an environment, which is made if it is missing."""
    python, made = environment / "bin" / "python", environment / ".made"
    if made.exists():
        return python
    venv.create(environment, with_pip=True, clear=True)
    wanted = HERE / "requirements" / f"{environment.name}.txt"
    pip = [str(python), "-m", "pip", "install", "--quiet"]
    # torch first and by itself: together with the rest, pip may choose a build with CUDA
    for line in wanted.read_text(encoding="utf-8").split():
        if line.startswith("torch=="):
            subprocess.run([*pip, line], check=True)
    subprocess.run([*pip, "-r", str(wanted), "-e", f"{ROOT}[chess]"], check=True)
    bare = wanted.with_suffix(".bare.txt")  # what wants a GPU to be installed
    if bare.exists():
        subprocess.run([*pip, "--no-deps", "-r", str(bare)], check=True)
    made.touch()
    return python


def run_tests(name: str, python: Path, distributions: list[str]) -> dict[str, Any]:
    """What the tests of a framework found, and the doctests of its adapter."""
    modules = [
        path for path in (MODULES / name, MODULES / f"{name}.py") if path.exists()
    ]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [
            *(str(python), "-m", "pytest", "-q", str(HERE / name), *map(str, modules)),
            *("-m", "slow or not slow", "-p", "no:cacheprovider"),
            *("-o", "junit_family=xunit1", f"--junitxml={report}"),
        ]
        done = subprocess.run(command, cwd=ROOT, check=False)
        if done.returncode:
            raise Failed("its tests failed: see above")
        suite = ElementTree.parse(report).getroot()[0].attrib
        learned = [
            element.attrib["value"]
            for element in ElementTree.parse(report).iter("property")
            if element.attrib["name"] == "learned"
        ]
    num_skipped = int(suite["skipped"])
    return {
        "versions": versions_of(python, distributions),
        "passed": int(suite["tests"]) - num_skipped,
        "skipped": num_skipped,
        "seconds": round(float(suite["time"])),
        "learned": "; ".join(dict.fromkeys(learned)) or "-",
    }


def versions_of(python: Path, distributions: list[str]) -> dict[str, str]:
    code = "import sys, importlib.metadata as m; print(*map(m.version, sys.argv[1:]))"
    command = [str(python), "-c", code, *distributions]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(zip(distributions, done.stdout.split(), strict=True))


def main() -> None:
    frameworks = tomllib.loads((HERE / "frameworks.toml").read_text(encoding="utf-8"))
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("names", nargs="*", help="of frameworks; all without any")
    parser.add_argument(
        "--environments", type=Path, default=ROOT / ".venv-adapters", help="folder"
    )
    args = parser.parse_args()
    if unknown := set(args.names) - set(frameworks):
        parser.error(f"want some of {', '.join(frameworks)}, got {sorted(unknown)}")
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}

    def run(name: str) -> None:
        told = frameworks[name]
        python = python_of(args.environments / told["environment"])
        results[name] = run_tests(name, python, told["distributions"])
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
        print(f"{name}: {results[name]}", flush=True)

    failed = failures(args.names or frameworks, run)
    build = [sys.executable, str(ROOT / "docs" / "build_adapters.py"), "--write"]
    subprocess.run(build, check=True)
    if failed:
        sys.exit("\n".join(f"{name} failed: {why}" for name, why in failed.items()))


def failures(names: Iterable[str], run: Callable[[str], None]) -> dict[str, str]:
    """Runs all frameworks; why each that fails does.

    Args:
        names: of the frameworks.
        run: makes the environment of a framework and runs its tests.
    """
    failed = {}
    for name in names:
        try:
            run(name)
        except (Failed, subprocess.CalledProcessError) as error:
            failed[name] = str(error)
            print(f"{name} failed: {error}", flush=True)
    return failed


if __name__ == "__main__":
    main()
