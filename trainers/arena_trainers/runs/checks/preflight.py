"""Quick checks of `arena train` before it imports torch: they find most mistakes.

They take less than a second. The job checks everything again, with TRL's own checks.
"""

import difflib
import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from arena_envs import extras
from arena_envs.checks import did_you_mean, install_advice
from arena_envs.registry import split
from arena_trainers.engines.adapters import NO_ADAPTER, plays_adapters
from arena_trainers.engines.settings import by_server, check_server
from arena_trainers.lm import best_of
from arena_trainers.lm.models import (
    adapter_base,
    are_adapters,
    check_language_model,
    find_model,
)
from arena_trainers.matchmaking import make_matchmaker, matchmakers
from arena_trainers.matchmaking.by_name import names_matchmaker
from arena_trainers.options import Option, options_of, unknown_option
from arena_trainers.runs.checks.machine import machine_of
from arena_trainers.runs.folder import check_new
from arena_trainers.runs.launch import starts_server
from arena_trainers.runs.settings import JobConfig
from arena_trainers.train.assigners import curriculum_of, matchmaker_of
from arena_trainers.train.checks import (
    check_asynchronous,
    check_batches,
    check_dtype,
    check_ranges,
    check_save_steps,
    check_sequential,
    check_supported,
)
from arena_trainers.train.columns import load_functions
from arena_trainers.train.credit_check import check_credit
from arena_trainers.train.critics.exact_check import check_exact
from arena_trainers.train.games import GamePlan, check_used
from arena_trainers.train.listed_options import is_of_installed_versions, listed_options
from arena_trainers.train.settings import Draft
from arena_trainers.train.together import check_together
from arena_wrappers import Policy, RandomPolicy, make_policy
from arena_wrappers.policies import names_person

REQUIRED_PACKAGES = (
    "torch",
    "transformers",
    "trl",
    "accelerate",
    "datasets",
    "jinja2",
    "matplotlib",
    "scipy",
)
# by name in `report_to`: the packages of which one must be installed; without any, the trainer
# finds out by itself
REPORTERS: dict[str, list[str]] = json.loads(
    Path(__file__).with_name("reporters.json").read_text("utf-8")
)
TRACK_REPORTERS = ("tensorboard", "trackio")  # those of the extra `track`


EVALUATION_OPTIONS = (
    "do_eval",
    "do_predict",
    "eval_on_start",
    "eval_steps",
    "eval_strategy",
    "load_best_model_at_end",
    "metric_for_best_model",
    "save_strategy",
)  # that `check_evaluation` reads

OPTIMIZER_PACKAGES = {
    "adamw_torch_4bit": "torchao",
    "adamw_torch_8bit": "torchao",
    "adamw_8bit": "bitsandbytes",
    "adamw_bnb": "bitsandbytes",
    "ademamix": "bitsandbytes",
    "lion": "bitsandbytes",
    "paged": "bitsandbytes",
    "rmsprop_bnb": "bitsandbytes",
    "galore": "galore_torch",
    "apollo": "apollo_torch",
    "lomo": "lomo_optim",
    "adalomo": "lomo_optim",
    "grokadamw": "grokadamw",
    "schedule_free": "schedulefree",
}  # by how the name of the optimizer begins


def check(settings: Mapping[str, Any], folder: Path, *, resume: bool) -> None:
    """Checks all that can be checked without torch; writes nothing.

    Raises:
        ValueError: an option is unknown, of another type or out of range; a game, policy,
            estimator or model does not exist; or the folder is in use.
        ModuleNotFoundError: a package is missing; says how to install it.
    """
    job, draft = read_options(settings)
    for step in checks(job, draft, folder, resume=resume):
        step()
    if job.model != "tiny":
        check_language_model(job.model)
    check_columns(job, draft)  # last, because it imports the user's modules


def read_options(settings: Mapping[str, Any]) -> tuple[JobConfig, Draft]:
    """The job's options, and the trainer's without the values that TRL derives.

    Raises:
        ValueError: an option is unknown or of another type, or the job's are out of range.
    """
    options, values = convert_settings(settings)
    job_options = {o.name for o in options_of(JobConfig).values()}
    job = JobConfig(
        **{name: value for name, value in values.items() if name in job_options}
    )
    return job, Draft({name: o.default for name, o in options.items()} | values)


def check_evaluation(draft: Draft) -> None:
    """Raises ValueError for TRL's evaluation, which needs a data set."""
    if draft.eval_strategy != "no":
        raise ValueError(
            f"want eval_strategy 'no', got {draft.eval_strategy!r}: arena train has no data set to "
            "evaluate on; to measure in training give --evaluate_every 10"
        )
    for name in ("do_eval", "do_predict", "eval_on_start", "eval_steps"):
        if value := getattr(draft, name, None):
            raise ValueError(
                f"{name} is {value}, and arena train has no data set to evaluate on; to measure in "
                "training give --evaluate_every 10"
            )
    for name in ("load_best_model_at_end", "metric_for_best_model"):
        if value := getattr(draft, name, None):
            raise ValueError(
                f"{name} is {value}, and arena train has no data set to evaluate on; leave it out: "
                "best/ in the run folder is the best model by --evaluate_every"
            )
    if draft.save_strategy == "best":
        raise ValueError(
            "want save_strategy steps, epoch or no, got best; leave it out: best/ in the run "
            "folder is the best model by --evaluate_every"
        )


def check_rows_options(settings: Mapping[str, Any]) -> None:
    """Checks the options of transformers that trainers of rows share with self-play."""
    options = listed_options()
    shared = {*EVALUATION_OPTIONS, "optim", "deepspeed", "use_liger_kernel"}
    values = {n: options[n].converted(v) for n, v in settings.items() if n in shared}
    draft = Draft({name: options[name].default for name in shared} | values)
    check_evaluation(draft)
    check_packages(draft)


def check_length(draft: Draft) -> None:
    """Raises ValueError for a number of epochs that `max_steps` would overrule."""
    default = listed_options()["num_train_epochs"].default
    if draft.num_train_epochs != default and draft.max_steps > 0:
        raise ValueError(
            f"num_train_epochs has no effect beside max_steps, which is {draft.max_steps}; "
            "give the length of the run as --max_steps N"
        )


def check_packages(draft: Draft) -> None:
    """Raises ValueError for an option of TRL whose package or file is missing."""
    optimizer = str(draft.optim)
    needed = [
        ("deepspeed", draft.deepspeed, "deepspeed"),
        ("use_liger_kernel", draft.use_liger_kernel, "liger_kernel"),
    ]
    for prefix, package in OPTIMIZER_PACKAGES.items():
        needed.append((f"optim {optimizer}", optimizer.startswith(prefix), package))
    for name, is_set, package in needed:
        if is_set and not extras.is_installed(package):
            raise ValueError(
                f"{name} needs the package {package!r}; pip install "
                f"{package.replace('_', '-')}, or leave it out"
            )
    if isinstance(draft.deepspeed, str) and not Path(draft.deepspeed).is_file():
        raise ValueError(
            f"want deepspeed as a file of its configuration, found none at {draft.deepspeed!r}; "
            "docs/scaling.md starts ZeRO by accelerate launch"
        )


def checks(
    job: JobConfig, draft: Draft, folder: Path, *, resume: bool
) -> list[Callable[[], object]]:
    """The checks before the model and the user's modules; each step may raise."""

    def check_seats() -> None:
        check_opponents(draft)
        check_used(draft, games_of(draft))
        check_policies(job.warm_start_teacher or [])
        teachers = [(term or {}).get("teacher") for term in draft.losses.values()]
        check_policies([name for name in teachers if isinstance(name, str)])
        for plan in games_of(draft):
            opponents = [] if plan.opponent is None else [plan.opponent]
            check_policies(plan.seats or opponents)
            for seat, learns in enumerate(plan.learners):
                if learns and int in map(type, draft.roles) and seat not in draft.roles:
                    raise ValueError(
                        f"want roles for seat {seat} of {plan.id}, which learns"
                    )

    def check_folder() -> None:
        if not resume and os.environ.get("RANK", "0") == "0":
            check_new(folder)

    return [
        lambda: extras.require(REQUIRED_PACKAGES, "train"),
        lambda: check_reporters(draft.report_to),
        draft.check_own,
        lambda: check_batches(draft),
        lambda: check_evaluation(draft),
        lambda: check_length(draft),
        lambda: check_packages(draft),
        lambda: check_ranges(draft),
        lambda: check_supported(draft),
        lambda: check_asynchronous(draft),
        lambda: check_sequential(draft),
        lambda: check_together(draft, suppliers=job.columns, is_adapted=job.lora_r > 0),
        check_seats,
        lambda: curriculum_of(draft, games_of(draft)),
        lambda: matchmaker_of(draft, games_of(draft)),
        lambda: check_exact(draft, games_of(draft)),
        lambda: check_save_steps(draft),
        lambda: check_lora(job, draft),
        lambda: check_machine(job, draft),
        check_folder,
        lambda: None if starts_server(job, draft) else check_server(draft),
    ]


def check_machine(job: JobConfig, draft: Draft) -> None:
    """Raises ValueError for a machine whose server plays nothing, or whose processes are refused."""
    machine = machine_of(job.machine)
    if machine.server and not by_server(draft):
        raise ValueError(
            f"want a run whose server plays on a machine with server: {machine.server}, got "
            "one that plays in its processes; give --use_vllm true --vllm_mode server"
        )
    if not machine.split:
        return
    refused = {
        "vLLM in the processes": (
            draft.use_vllm and not by_server(draft),
            "--vllm_mode server, and server in machine",
        ),
        "a supervised start": (job.warm_start_steps > 0, "--warm_start steps=0"),
        "roles": (bool(draft.roles), "split: false"),
    }
    for part, (is_set, words) in refused.items():
        if is_set:
            raise ValueError(
                f"want no {part} with split in machine, as FSDP2 has not been tested with it; "
                f"give {words}"
            )


def games_of(draft: Draft) -> list[GamePlan]:
    """The games of the options, which are built once."""
    attributes = vars(draft)
    if "plans" not in attributes:
        attributes["plans"] = [GamePlan(spec, draft) for spec in draft.games]
    return list(attributes["plans"])


def check_columns(job: JobConfig, draft: Draft) -> None:
    """Imports functions and finds reward models that supply columns; checks the estimator.

    Raises:
        ValueError: a function or the estimator does not exist, or lacks a column.
    """
    plans = games_of(draft)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the job gives the same warnings
        columns = load_functions(job.columns)
        check_credit(draft, [plan.game for plan in plans], columns)


def check_opponents(draft: Draft) -> None:
    """Checks the policies of `opponents`, which may name a matchmaker.

    Raises:
        ValueError: a policy, a model or a matchmaker does not exist.
    """
    opponents = draft.opponents
    if names_matchmaker(opponents):
        check_policies(make_matchmaker(opponents).policies)
        return
    try:
        check_policies(opponents)
    except ValueError as error:
        near = difflib.get_close_matches(str(opponents), matchmakers.names(), n=1)
        if not near:
            raise
        raise ValueError(f"{error}, or the matchmaker {near[0]!r}") from error


def check_policies(strings: str | Sequence[str]) -> None:
    """Checks policy strings, without loading a model.

    Raises:
        ValueError: a policy or a model does not exist, or a policy is a person.
    """
    for string in {strings} if isinstance(strings, str) else {*strings}:
        if names_person(string):
            raise ValueError(
                f"want no person in training, got {string!r}: a step plays many "
                "episodes; measure the trained model with arena eval lm:RUN/model GAME "
                "--against human --no-baselines"
            )
        if string != "self":
            make_policy(string, _STAND_INS)


def _stand_in(model: str) -> RandomPolicy:
    """A policy in place of a language model, whose folder is found but not loaded."""
    check_language_model(adapter_base(model) or model)
    return RandomPolicy()


_STAND_INS: dict[str, Callable[..., Policy]] = {
    "lm": _stand_in,
    "best_of": partial(best_of.load, loads=False),
}


def check_lora(job: JobConfig, args: Draft) -> None:
    """Refuses an adapter without its package, or none for vLLM or half precision.

    Raises:
        ValueError: only some roles have a rank, a role's model is missing or of another size,
            roles lack their agent, or vLLM would have to play learners or snapshots of all
            weights.
        ModuleNotFoundError: peft is missing; says how to install it.
    """
    is_adapted = are_adapters(args.roles, job.lora_r > 0)
    check_dtype(args, is_adapted)
    if is_adapted:
        extras.require(["peft"], "train")
    else:
        matchmaker = None
        if names_matchmaker(args.opponents):
            matchmaker = make_matchmaker(args.opponents)
        if (args.roles and args.use_vllm) or plays_adapters(args, matchmaker):
            raise ValueError(NO_ADAPTER)
    if args.agent is None and str in map(type, args.roles):
        raise ValueError(
            "roles by name need agent; give it, as in --agent planner_worker"
        )
    check_sizes(job, args)


def check_sizes(job: JobConfig, args: Draft) -> None:
    """Raises ValueError for models of roles that are missing or plainly of another size."""
    sizes: dict[str, Any] = {}
    for start in dict.fromkeys(args.learner_starts(job.model)):
        if start not in ("tiny", job.model):
            check_language_model(start)
        for name, got in _sizes_of(start, job).items():
            if got != (want := sizes.setdefault(name, got)):
                raise ValueError(
                    f"want models of one architecture and size in roles, got {start!r} "
                    f"with {name} {got} instead of {want}"
                )


def _sizes_of(start: str, job: JobConfig) -> dict[str, Any]:
    """The sizes of a model by their names in `config.json`, as far as they are known."""
    if start == "tiny":
        return {"hidden_size": job.hidden_size, "num_hidden_layers": job.num_layers}
    config = None
    with suppress(ValueError, RecursionError):  # else the run finds out
        folder = find_model(start, asks_hub=False)
        config = folder and json.loads((folder / "config.json").read_bytes())
    names = ("model_type", "hidden_size", "num_hidden_layers", "vocab_size")
    return (
        {n: config[n] for n in names if n in config} if isinstance(config, dict) else {}
    )


def convert_settings(
    settings: Mapping[str, Any],
) -> tuple[dict[str, Option], dict[str, Any]]:
    """Every option, and the given values, converted to the types of their options."""
    options = {**options_of(JobConfig), **listed_options()}
    exact = is_of_installed_versions()
    values = {}
    for name, value in settings.items():
        option = options.get(name)
        if option is None:
            if exact:
                raise unknown_option(name, options)
            continue  # another version of TRL may have it; the job asks TRL itself
        try:
            values[name] = option.converted(value)
        except ValueError:
            if exact or option.source == "arena":
                raise
    return options, values


def check_reporters(report_to: str | Sequence[str] | None) -> None:
    """Raises ValueError for a name in `report_to` that is unknown or lacks its package."""
    names = split(report_to) if isinstance(report_to, str) else report_to
    for name in names or ():
        if name in ("none", "all"):  # "all" that are installed
            continue
        if name not in REPORTERS:
            if not is_of_installed_versions():
                continue
            hint = did_you_mean(str(name), [*REPORTERS, "all", "none"])
            raise ValueError(f"unknown report_to {name!r}; {hint}")
        packages = REPORTERS[name]
        if packages and not any(map(extras.is_installed, packages)):
            package = packages[0].replace(".", "-")
            todo = (
                install_advice("track")
                if name in TRACK_REPORTERS
                else f"pip install {package}"
            )
            raise ValueError(
                f"report_to={name!r} needs the package {packages[0]!r}; {todo}"
            )
