"""Builds the distribution and looks for what packing and installing can break.

Run by `make wheel`, by a Python that needs no packages. The sdist holds no tests, pages or their
data. The wheel is built from the sdist and installed in a fresh environment
with the extras of games and solvers, away from the sources. It has to hold: the packages of the project
and nothing else at the top level, every file of the checkout's packages (modules, recipes,
skeletons, `py.typed`), entry points, the command `arena`, doctests, and the part of
`tests/quick.txt` that needs no other extra, golden files included. The other tests would run
the same files as `make test`, which runs them on the sources.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXTRAS = "chess,solve"
MAX_BYTES = 4_000_000  # of sdist and wheel
PACKAGES = {
    "arena_credit",
    "arena_envs",
    "arena_eval",
    "arena_studio",
    "arena_trainers",
    "arena_wrappers",
}
SOURCES = (ROOT / "arena_envs", *ROOT.glob("*ers/arena_*"))
LEFT_OUT = (
    "tests/packaging",  # of the sources
    "tests/trainers",  # of the extra train
    "tests/wrappers/prompts/test_formats",  # long, and of no file that a wheel may lack
)
PIP = ("-m", "pip", "--disable-pip-version-check")
QUICKLY = ("--quiet", "--no-compile", "-c", ROOT / "constraints.txt")
HEAVY = ("accelerate", "datasets", "matplotlib", "peft", "torch", "transformers", "trl")

PLAY = f"""
import sys
import arena_envs, arena_trainers, arena_wrappers
for module in (arena_envs, arena_trainers, arena_wrappers):
    if not module.__file__.startswith(sys.prefix):
        sys.exit(f"want the installed package, got {{module.__file__}}")
make = lambda: arena_envs.make("kuhn_poker")
episodes = arena_wrappers.play(make, arena_wrappers.RandomPolicy(), range(3))
if len(episodes) != 3:
    sys.exit(f"want 3 episodes, got {{len(episodes)}}")
heavy = sorted(set({HEAVY}) & set(sys.modules))
if heavy:
    sys.exit(f"want no training library after importing and playing, got {{heavy}}")
from importlib.metadata import distribution
names = {{point.name for point in distribution("arena-envs").entry_points}}
if not {{"arena", "best_of", "lm", "vllm"}} <= names:
    sys.exit(f"want the entry points arena, best_of, lm and vllm, got {{sorted(names)}}")
for name in ("random", "api:m@http://localhost:1/v1"):
    arena_wrappers.make_policy(name)
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tools = install_tools(folder / "tools")
        wheel = build(tools, folder / "dist")
        check_contents(wheel)
        (sdist,) = (folder / "dist").glob("*.tar.gz")
        check_sdist(sdist)
        python = install(tools, folder / "env", wheel)
        run(python, "-I", "-c", PLAY, cwd=folder)
        for arguments in (["--help"], ["new-game", "probe"]):  # it has its skeletons
            arena = python.with_name("arena")
            run(arena, *arguments, cwd=folder, stdout=subprocess.DEVNULL)
        test(python, folder / "away")
        shutil.rmtree(ROOT / "dist", ignore_errors=True)
        shutil.copytree(folder / "dist", ROOT / "dist")
    sys.stdout.write(f"the wheel works: {ROOT / 'dist' / wheel.name}\n")


def install_tools(folder: Path) -> Path:
    """The interpreter of an environment with pip and what builds the distribution."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    needs = ("build", *project["build-system"]["requires"])
    run(python, *PIP, "install", *QUICKLY, *needs, cwd=folder)
    return python


def build(tools: Path, dist: Path) -> Path:
    """The wheel, built from the sdist that is built from this checkout."""
    options = ("--no-isolation", "--outdir", dist)
    run(tools, "-m", "build", *options, cwd=ROOT, stdout=subprocess.DEVNULL)
    (wheel,) = dist.glob("*.whl")
    return wheel


def check_sdist(sdist: Path) -> None:
    """Raises SystemExit if the sdist holds more than builds the wheel, or is large."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = project["tool"]["hatch"]["build"]["targets"]["sdist"]["only-include"]
    with tarfile.open(sdist) as archive:
        tops = {name.split("/")[1] for name in archive.getnames() if "/" in name}
    if others := tops - {*wanted, ".gitignore", "PKG-INFO"}:
        sys.exit(f"want no {', '.join(sorted(others))} in {sdist.name}")
    for file in sdist.parent.iterdir():
        if file.stat().st_size > MAX_BYTES:
            sys.exit(
                f"want at most {MAX_BYTES:,} bytes of {file.name}, got {file.stat().st_size:,}"
            )


def check_contents(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    tops = {top for top in tops if not top.endswith(".dist-info")}
    if tops != PACKAGES:
        sys.exit(f"want top-level names {sorted(PACKAGES)}, got {sorted(tops)}")
    wanted = {
        path.relative_to(package.parent).as_posix()
        for package in SOURCES
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    if missing := sorted(wanted - set(names)):
        sys.exit(f"missing in the wheel: {missing}")


def install(tools: Path, folder: Path, wheel: Path) -> Path:
    """The interpreter of a fresh environment with the wheel and what its tests need."""
    venv.create(folder)
    python = folder / "bin" / "python"
    needs = (f"{wheel}[{EXTRAS}]", "pytest", "pytest-xdist", "hypothesis")
    run(tools, *PIP, "--python", python, "install", *QUICKLY, *needs, cwd=folder)
    run(tools, *PIP, "--python", python, "check", cwd=folder)
    return python


def test(python: Path, folder: Path) -> None:
    no_bytecode = shutil.ignore_patterns("__pycache__")  # it names the sources
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=no_bytecode)
    shutil.copy(ROOT / "pyproject.toml", folder)  # pytest's settings
    quick = (ROOT / "tests" / "quick.txt").read_text().split()
    quick = [word for word in quick if not word.startswith(LEFT_OUT)]
    run(python, "-m", "pytest", "-q", "-n", "2", *quick, cwd=folder)
    packages = ("arena_envs", "arena_wrappers", "arena_credit")
    # adapters cannot be imported without their frameworks
    doctests = ("-q", "--doctest-ignore-import-errors", "--pyargs")
    run(python, "-m", "pytest", *doctests, *packages, cwd=folder)


def run(*command: object, cwd: Path, stdout: int | None = None) -> None:
    words = [str(word) for word in command]
    # bytecode of what is imported is written, as pip compiles nothing
    unset = ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH")
    env = {k: v for k, v in os.environ.items() if k not in unset}
    result = subprocess.run(words, cwd=cwd, env=env, stdout=stdout, check=False)
    if result.returncode:
        sys.exit(f"exit status {result.returncode}: {' '.join(words)[:200]}")


if __name__ == "__main__":
    main()
