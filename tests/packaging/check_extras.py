"""Installs each extra alone in an environment of its own, and takes its first steps there.

    python tests/packaging/check_extras.py             # all extras; takes gigabytes
    python tests/packaging/check_extras.py web eval    # some; "none" is the package alone
    python tests/packaging/check_extras.py --write     # and notes the versions that worked together

With `--write`, `constraints/EXTRA.txt` gets the versions of the environment in which all steps passed.

Run by `make extras`. The tests run with many extras at once, so they cannot see what one extra lacks.
An environment has the wheel and its extra; it is removed after its steps. Two run at a time.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.cookiejar import CookieJar
from pathlib import Path
from socket import create_server

ROOT = Path(__file__).parents[2]
CONSTRAINTS = ROOT / "constraints"
EXAMPLES = ROOT / "tests" / "adapters"
NONE = "none"  # the package without an extra
# packages that an extra itself pins to another version than constraints.txt
PINNED_OTHERWISE = {"rllib": ("gymnasium",)}
ELSEWHERE = {"dev": "make test", "vllm": "make engine"}  # have environments already
TYPED = "1\n" * 200  # to whatever asks: the first legal action
MAX_SECONDS = 900  # of a step

Step = (
    str | Callable[[Path], None]
)  # a command, code as "python: ...", or a function of `bin`


class Failed(Exception):
    """A step failed; the message ends with what it wrote."""


def check_web(bin: Path) -> None:
    """A visitor of `arena serve web` sees the games and plays one to its end."""
    with create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    home = f"http://127.0.0.1:{port}"
    browser = urllib.request.build_opener(
        urllib.request.HTTPCookieProcessor(CookieJar())
    )

    def asked(path: str, body: dict[str, object] | None = None) -> dict[str, object]:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Origin": home, "Content-Type": "application/json"}
        request = urllib.request.Request(home + path, data, headers)
        with browser.open(request, timeout=60) as answer:
            found: dict[str, object] = json.load(answer)
            return found

    command = [str(bin / "arena"), "serve", "web", "--port", str(port)]
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
        try:
            _enter(server, lambda: asked("/api/visit", {}))
            play_on(asked)
        finally:
            server.terminate()
            server.wait()


def _enter(server: "subprocess.Popen[bytes]", visit: Callable[[], object]) -> None:
    """Begins a visit as soon as the server listens."""
    began = time.monotonic()
    while server.poll() is None and time.monotonic() - began < 60:
        try:
            visit()
            return
        except urllib.error.URLError:
            time.sleep(0.2)
    raise Failed(f"arena serve web does not answer, exit status {server.poll()}")


def play_on(asked: Callable[..., dict[str, object]]) -> None:
    """Plays Kuhn poker to its end; `asked` gives the server's answers."""
    games = asked("/api/games")
    ids = [game["id"] for game in games["games"]]  # type: ignore[attr-defined]
    if "kuhn_poker-v0" not in ids or "chess-v0" in ids or not games["missing"]:
        raise Failed(f"want all games but chess, and a note of it, got {games}")
    opponents = asked("/api/games/kuhn_poker-v0")["opponents"]
    seats = ["person", opponents[-1]]
    view = asked("/api/tables", {"game": "kuhn_poker-v0", "seats": seats})
    began = time.monotonic()
    while not view["done"] and time.monotonic() - began < 60:
        path = f"/api/tables/{view['table']}"
        if view["yours"]:
            reply = {"text": view["legal"][0], "turn": view["turn"]}
            view = asked(f"{path}/reply", reply)
        else:
            time.sleep(0.2)
            view = asked(path)
    if not view["done"]:
        raise Failed(f"the game did not end: {view}")


def of_example(adapter: str, call: str) -> str:
    """A step of the example that the adapter's page shows."""
    path = str(EXAMPLES / adapter / "example.py")
    example = f"types.SimpleNamespace(**runpy.run_path({path!r}))"
    return f"python: import runpy, types; print({example}.{call})"


STEPS: dict[str, Sequence[Step]] = {
    NONE: [
        "arena games",
        "arena play tic_tac_toe --against minimax",
        "arena show kuhn_poker",
        "arena new-game probe",
        "arena check probe:Probe",
    ],
    "chess": ["arena check chess -n 2", "arena play chess --max-turns 4"],
    "cleanrl": [of_example("cleanrl", "nash_conv(1)")],
    "eval": [
        "arena eval mcts:5 connect_four --against random -n 2",
        "arena bench tournament random first -g kuhn_poker -n 5 --out cup",
        "arena report cup",
    ],
    "gem": [of_example("gem", "main(20)")],
    "inspect": [
        of_example("inspect", "self_play(2)"),
        f"inspect eval {EXAMPLES}/inspect/example.py@against_cfr --model mockllm/model --limit 2",
    ],
    "mcp": [
        "python: from arena_wrappers.adapters.mcp import make_server; make_server('cfr')"
    ],
    "mmlu": ["python: import lm_eval"],
    "notebook": ["python: import ipykernel, nbformat"],
    "openenv": ["arena serve openenv kuhn_poker --seat 0 --export space"],
    "openspiel": ["python: import arena_wrappers.adapters.openspiel"],
    "questions": [
        "python: import arena_envs; arena_envs.make_game('questions', source='reasoning:gsm_symbolic')"
    ],
    "render": [
        "python: import arena_envs; e = arena_envs.make('nim', render_mode='rgb_array'); "
        "e.reset(seed=0); e.render().shape"
    ],
    "report": ["python: import arena_studio.report.page, arena_studio.report.charts"],
    "rllib": [of_example("rllib", "CONFIG.build_algo().train()")],
    "sb3": [of_example("sb3", "nash_conv(1024)")],
    "smollm2": [
        "arena eval lm:smollm2 kuhn_poker --against cfr -n 2",
        "arena train smollm2 --max_steps 1 --warm_start steps=1 --output-dir run",
    ],
    "solve": ["arena solve kuhn_poker"],
    "textarena": [of_example("textarena", "main()")],
    "torchrl": [
        of_example("torchrl", "main(20)"),
        of_example("torchrl", "nash_conv(1)"),
    ],
    "track": [
        f"arena train --max_steps 1 --warm_start steps=5 --report_to {name} --output-dir {name}"
        for name in ("tensorboard", "trackio")
    ],
    "train": [
        "arena train --max_steps 1 --warm_start steps=5 --output-dir run",
        "arena eval lm:run/model kuhn_poker --against cfr -n 2",
        "arena report run",
    ],
    "verifiers": ["python: import arena_wrappers.adapters.verifiers"],
    "web": [check_web],
}


def main() -> None:
    """Checks the extras that are named, or all."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("extras", nargs="*", help="names of extras; all without any")
    parser.add_argument(
        "--write", action="store_true", help="note the versions in constraints/"
    )
    parser.add_argument("--wheel", type=Path, help="that was built; else it is built")
    args = parser.parse_args()
    extras = args.extras or [*STEPS]
    if unknown := {*extras} - {*STEPS}:
        parser.error(
            f"want some of {', '.join(STEPS)}, got {', '.join(sorted(unknown))}"
        )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = args.wheel or build(folder / "dist")
        with ThreadPoolExecutor(2) as pool:
            faults = list(
                pool.map(
                    lambda extra: fault(extra, wheel, folder, writes=args.write), extras
                )
            )
    failed = {extra: why for extra, why in zip(extras, faults, strict=True) if why}
    if failed:
        sys.exit(
            "\n".join(f"extra {extra!r} alone: {why}" for extra, why in failed.items())
        )
    sys.stdout.write(f"work alone: {', '.join(extras)}\n")


def build(dist: Path) -> Path:
    """The wheel of this checkout."""
    run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "-q",
            "--no-deps",
            "-w",
            str(dist),
            str(ROOT),
        ]
    )
    (wheel,) = dist.glob("arena_envs-*.whl")
    return wheel


def fault(extra: str, wheel: Path, folder: Path, *, writes: bool = False) -> str:
    """Why the steps of an extra fail in an environment of its own; "" if they do not."""
    began = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(dir=folder) as name:
            bin = installed(Path(name) / "env", extra, wheel)
            here = Path(name) / "here"
            here.mkdir()
            for step in STEPS[extra]:
                take(step, bin, here)
            if writes:
                write_versions(extra, bin)
    except Failed as error:
        return str(error)
    sys.stdout.write(f"{extra}: {time.monotonic() - began:.0f} s\n")
    sys.stdout.flush()
    return ""


def installed(environment: Path, extra: str, wheel: Path) -> Path:
    """The `bin` of a fresh environment with the wheel and one extra."""
    run([sys.executable, "-m", "venv", "--without-pip", str(environment)])
    pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python")]
    constraints = environment.with_name("constraints.txt")
    constraints.write_text(constraints_of(extra), encoding="utf-8")
    pip += ["install", "-q", "--disable-pip-version-check"]
    pip += ["--no-compile", "-c", str(constraints)]
    if needs_torch(extra):
        run(
            [*pip, "torch"]
        )  # by itself: with the rest, pip may choose a build with CUDA
    run([*pip, str(wheel) if extra == NONE else f"{wheel}[{extra}]"])
    return environment / "bin"


def constraints_of(extra: str) -> str:
    """The text of constraints.txt without the packages that an extra pins otherwise."""
    others = PINNED_OTHERWISE.get(extra, ())
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return "\n".join(x for x in lines if x.partition("==")[0] not in others) + "\n"


def write_versions(extra: str, bin: Path) -> None:
    """Writes the versions of an environment in which all steps of an extra passed."""
    listing = run(
        [
            sys.executable,
            "-m",
            "pip",
            "--python",
            str(bin / "python"),
            "freeze",
            "--exclude",
            "arena-envs",
        ]
    )
    of_extra = "" if extra == NONE else f" with the extra {extra}"
    line = f"# Versions that worked together in arena-envs{of_extra}: written by {Path(__file__).name}\n"
    (CONSTRAINTS / f"{extra}.txt").write_text(line + listing, encoding="utf-8")


def needs_torch(extra: str) -> bool:
    """Whether an extra installs torch, by its own name or within another."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = project["optional-dependencies"].get(extra, [])
    return any(
        re.match(r"torch\b|torchrl|sb3|arena-envs\[train\]", line) for line in lines
    )


def take(step: Step, bin: Path, here: Path) -> None:
    """Takes a step; raises Failed."""
    if not isinstance(step, str):
        step(bin)
    elif step.startswith("python: "):
        run([str(bin / "python"), "-c", step.removeprefix("python: ")], here)
    else:
        command, *words = step.split()
        run([str(bin / command), *words], here)


def run(command: Sequence[str], cwd: Path | None = None) -> str:
    """What a command printed; raises Failed with the end of what it wrote.

    Bytecode of what it imports is written, as pip compiles nothing.
    """
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=env,
            input=TYPED,
            capture_output=True,
            text=True,
            timeout=MAX_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"over {MAX_SECONDS} s: {' '.join(command)}") from None
    if done.returncode:
        wrote = f"{done.stdout[-1500:]}\n{done.stderr[-1500:]}"
        raise Failed(f"exit status {done.returncode}: {' '.join(command)}\n{wrote}")
    return done.stdout


if __name__ == "__main__":
    main()
