"""Plants the small faults of `faults.toml` one by one, and looks whether the tests find them.

    python tests/mutants/run.py            # all, in some minutes
    python tests/mutants/run.py --match kuhn

Works in a copy of the tracked files. Runs the same tests without a fault, too: a test that
fails anyway finds nothing. Ends with status 1 if a fault lives.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FAULTS = Path(__file__).with_name("faults.toml")
FAILED = (
    1,
    2,
)  # a test failed, or could not be collected; 4 and 5 are mistakes in the call
FOLDERS = ("", "wrappers", "trainers")  # where the packages are


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--match", default="", help="only faults with this in name or file"
    )
    parser.add_argument("--root", type=Path, default=ROOT, help="checkout to look at")
    options = parser.parse_args()
    faults = [
        fault
        for fault in tomllib.loads(FAULTS.read_text(encoding="utf-8"))["fault"]
        if options.match in fault["name"] + fault["file"]
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = copy_of(options.root.resolve(), Path(name) / "copy")
        alive = [fault["name"] for fault in faults if not dies(folder, fault)]
        tests = sorted({path for fault in faults for path in fault["tests"]})
        if tests and run_tests(folder, tests) != 0:
            sys.exit(f"want tests that pass without a fault, got a failure in {tests}")
    sys.stdout.write(f"{len(faults) - len(alive)} of {len(faults)} faults were found\n")
    if alive:
        sys.exit(f"these live: {'; '.join(alive)}")


def copy_of(root: Path, folder: Path) -> Path:
    """A copy of the files that git tracks, as they are now."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True
    )
    for path in filter(None, listed.stdout.split("\0")):
        if (root / path).exists():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / path, folder / path)
    return folder


def dies(folder: Path, fault: dict[str, Any]) -> bool:
    """Whether a test fails with this fault; the copy is sound again afterwards."""
    path = folder / fault["file"]
    sound = path.read_text(encoding="utf-8")
    if sound.count(fault["old"]) != 1:
        sys.exit(
            f"{fault['name']}: want `old` once in {fault['file']}; mend faults.toml"
        )
    path.write_text(sound.replace(fault["old"], fault["new"]), encoding="utf-8")
    found = run_tests(folder, fault["tests"]) in FAILED
    path.write_text(sound, encoding="utf-8")
    sys.stdout.write(f"{'found' if found else 'LIVES'}  {fault['name']}\n")
    sys.stdout.flush()
    return found


def run_tests(folder: Path, paths: list[str]) -> int:
    """pytest's exit status; 1 where a test failed."""
    places = os.pathsep.join(str(folder / name) for name in FOLDERS)
    options = ("-x", "-q", "-p", "no:cacheprovider", "--no-header")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *paths],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": places, "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return done.returncode


if __name__ == "__main__":
    main()
