"""Advantage functions of other packages, from their released source.

    pip download --no-deps -d wheels verl==0.9.1 trl==1.16.0   # and others of SUBJECTS
    python docs/audit/credit.py --wheels wheels [--json] [NAME ...]

A wheel is read, not installed: only the functions that are named below run, without their
decorators, with numpy, torch and each other. What a function expects of its trainer is an object with
those attributes alone. Credit that is on no index is written again in `formulas.py`.
"""

import ast
import itertools
import json
import logging
import math
import os
import re
import sys
import textwrap
import time
import zipfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch

sys.path[:0] = [str(Path(__file__).parents[2] / part) for part in (".", "trainers")]
sys.path.insert(0, str(Path(__file__).parent))

import formulas  # noqa: E402
from packaging.version import Version  # noqa: E402

from arena_credit import TurnBatch, audit  # noqa: E402

DOUBLE = torch.float64


class Wheel:
    """The released source of a package.

    Args:
        path: the wheel.
    """

    def __init__(self, path: Path) -> None:
        self.name, self.version = path.name.split("-")[:2]
        self._path, self._files = path, zipfile.ZipFile(path)

    def beside(self, name: str) -> "Wheel":
        """Another wheel of the folder."""
        return Wheel(next(self._path.parent.glob(f"{name}-*.whl")))

    def source(self, file: str) -> str:
        """The text of a file, by the end of its path."""
        found = [name for name in self._files.namelist() if name.endswith(file)]
        return self._files.read(min(found, key=len)).decode()

    def load(self, file: str, *names: str, **given: Any) -> SimpleNamespace:
        """Functions of a file, methods too; `given` are names that they use."""
        tree = ast.parse(self.source(file))
        space: dict[str, Any] = {
            **{"np": np, "torch": torch, "itertools": itertools},
            **{"defaultdict": defaultdict, "logger": logging.getLogger("audit")},
            **given,
        }
        future = "from __future__ import annotations\n"
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name in names:
                node.decorator_list = []
                text = future + ast.unparse(node)
                exec(compile(text, f"{self.name}/{file}", "exec"), space)
        return SimpleNamespace(**{name: space[name] for name in names})

    def lines(self, file: str, method: str, first: str, last: str) -> str:
        """The statements of a method from one that begins so to one that begins so, as text."""
        return lines_of(self.source(file), method, first, last)


def lines_of(source: str, method: str, first: str, last: str) -> str:
    """`Wheel.lines` of a source text."""
    texts = [ast.unparse(statement) for statement in method_of(source, method).body]
    start = next(i for i, text in enumerate(texts) if text.startswith(first))
    end = next(
        i for i, text in enumerate(texts) if i >= start and text.startswith(last)
    )
    return "\n".join(texts[start : end + 1])


def method_of(source: str, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef:
    """The first function of this name."""
    for node in ast.walk(ast.parse(source)):
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if is_function and node.name == name:
            return node
    raise ValueError(f"want a function {name}, got none in the source")


class Subject(NamedTuple):
    """An advantage function as released.

    Attributes:
        package: of the wheel; or of the source, where it is on no index.
        source: where the function stands.
        signature: as in `arena_credit.audit`.
        make: the function, from the wheel.
        about: its options, and what it computes.
        version: of the source, where it is on no index.
    """

    package: str
    source: str
    signature: str
    make: Callable[[Wheel], Callable[..., Any]]
    about: str
    version: str = ""


# verl and SkyRL: token-level rewards, mask, index
CORE, TORCH = "verl/trainer/ppo/core_algos.py", "verl/utils/torch_functional.py"
PPO = "skyrl/backends/skyrl_train/utils/ppo_utils.py"


def verl(name: str, about: str, **options: Any) -> Subject:
    """An estimator of verl."""
    function = f"compute_{name}_advantage"

    def make(wheel: Wheel) -> Callable[..., Any]:
        sums = wheel.load(TORCH, "masked_sum")
        means = wheel.load(TORCH, "masked_mean", masked_sum=sums.masked_sum)
        whiten = wheel.load(
            *(TORCH, "masked_var", "masked_whiten"), masked_mean=means.masked_mean
        )
        groups = wheel.load(
            "verl/utils/groupwise.py",
            *("_resolve_device", "_to_1d_numpy_object_array"),
            *("as_torch_index", "group_mean_std"),
            os=SimpleNamespace(getenv=lambda name: None, environ=()),
            get_device_name=lambda: "cpu",
        )
        loaded = wheel.load(
            *(CORE, function),
            verl_F=whiten,
            as_torch_index=groups.as_torch_index,
            group_mean_std=groups.group_mean_std,
        )
        found = getattr(loaded, function)
        return lambda **given: found(**given, **options)

    return Subject("verl", f"{CORE}:{function}", "verl", make, about)


def skyrl(name: str, about: str, **options: Any) -> Subject:
    """An estimator of SkyRL."""

    def make(wheel: Wheel) -> Callable[..., Any]:
        log = SimpleNamespace(logger=logging.getLogger("audit"))
        sys.modules.setdefault("loguru", log)  # type: ignore[arg-type]  # it only warns
        mean = wheel.load("skyrl_train/utils/torch_utils.py", "masked_mean")
        loaded = wheel.load(
            *(PPO, "masked_var", "masked_whiten", name), masked_mean=mean.masked_mean
        )
        return lambda **given: getattr(loaded, name)(**given, **options)

    return Subject("skyrl", f"{PPO}:{name}", "verl", make, about)


# TRL: the statements of the trainer's method that make advantages of rewards
def trl(
    trainer: str, first: str, about: str, unsloth: bool = False, **options: Any
) -> Subject:
    """The advantages of a trainer of TRL, by its own statements; `unsloth`: as that edits them."""
    file, method = (
        f"trl/trainer/{trainer}_trainer.py",
        "_generate_and_score_completions",
    )

    def make(wheel: Wheel) -> Callable[..., Any]:
        released = wheel.beside("trl") if unsloth else wheel
        nanstd = released.load("trl/trainer/utils.py", "nanstd").nanstd
        source = released.source(file)
        if unsloth:
            source = edited_by_unsloth(source, method, wheel, released.version)
        lines = lines_of(source, method, first, "advantages = torch.nan_to_num")
        code = compile(lines, file, "exec")

        def function(rewards: torch.Tensor, num_generations: int) -> torch.Tensor:
            given = SimpleNamespace(
                reward_weights=torch.ones(1, dtype=DOUBLE),
                **{"reward_funcs": [None], "beta": 0.0, "reward_clip_range": None},
                **options,
            )
            space = {
                **{"self": given, "torch": torch, "nanstd": nanstd, "device": "cpu"},
                **{"num_generations": num_generations},
                "rewards_per_func": rewards[:, None],
            }
            exec(code, space)
            return space["advantages"]

        return function

    return Subject(
        "unsloth" if unsloth else "trl", f"{file}:{method}", "trl", make, about
    )


def edited_by_unsloth(source: str, method: str, wheel: Wheel, version: str) -> str:
    """A method of TRL after unsloth's edits of its text."""
    name = f"grpo_trainer_{method}"
    edit = wheel.load(
        *("unsloth/models/rl_replacements.py", name),
        **{"re": re, "os": os, "textwrap": textwrap, "Version": Version},
        trl_version=Version(version),
        _warn_once=lambda *_: None,
    )
    text = ast.get_source_segment(source, method_of(source, method))
    return textwrap.dedent(getattr(edit, name)(method, f"    {text}"))


def trl_async() -> Subject:
    """The advantages of TRL's asynchronous rollout loop, by its own statements."""
    file = "trl/experimental/async_grpo/async_rollout_worker.py"
    method = "_score_group"

    def make(wheel: Wheel) -> Callable[..., Any]:
        lines = wheel.lines(file, method, "scored_mask =", "if scored_mask.any()")
        code = compile(lines, file, "exec")

        def function(rewards: torch.Tensor, num_generations: int) -> Any:
            space = {"np": np, "rewards": rewards.numpy()}
            exec(code, space)
            return space["advantages"]

        return function

    return Subject("trl", f"{file}:{method}", "trl", make, "default: z-score")


GRPO = {"multi_objective_aggregation": "sum_then_normalize"}
UNSCORABLE = "unscorable_mask ="


# ms-swift, tinker-cookbook, ART, SkyRL's agents: returns of a group
def swift(estimator: str, about: str, **options: Any) -> Subject:
    """An estimator of ms-swift."""
    file = "swift/rl_core/advantage.py"

    def make(wheel: Wheel) -> Callable[..., Any]:
        found = wheel.load(file, "compute_advantages", nanstd=None).compute_advantages
        return lambda rewards, num_generations: found(
            rewards[:, None],
            torch.ones(1, dtype=DOUBLE),
            num_generations,
            advantage_estimator=estimator,
            **options,
        )[0]

    return Subject("ms_swift", f"{file}:compute_advantages", "trl", make, about)


def of_list(package: str, file: str, name: str, about: str, **options: Any) -> Subject:
    """A function of the list of a group's returns."""

    def make(wheel: Wheel) -> Callable[..., Any]:
        more = ("normalize_advantages",) if package == "skyrl" else ()
        found = getattr(wheel.load(file, *more, name), name)
        return lambda rewards, num_generations: np.asarray(
            found(rewards.tolist(), **options)
        )

    return Subject(package, f"{file}:{name}", "trl", make, about)


def tinker() -> Subject:
    """The advantages of tinker-cookbook."""
    file, name = "tinker_cookbook/rl/data_processing.py", "compute_advantages"

    def make(wheel: Wheel) -> Callable[..., Any]:
        found = getattr(wheel.load(file, name), name)

        def function(rewards: torch.Tensor, num_generations: int) -> torch.Tensor:
            group = SimpleNamespace(get_total_rewards=rewards.tolist)
            return found([group])[0]

        return function

    return Subject("tinker_cookbook", f"{file}:{name}", "trl", make, "minus the mean")


def openrlhf(estimator: str, about: str, no_std_norm: bool = False) -> Subject:
    """An estimator of OpenRLHF, whose reward stands at the end of an episode."""
    file = "openrlhf/trainer/ppo_utils/experience_maker.py"
    names = ("compute_advantages_and_returns", "get_cumulative_returns")

    def make(wheel: Wheel) -> Callable[..., Any]:
        reward = wheel.load("openrlhf/models/utils.py", "compute_reward")
        loaded = wheel.load(
            *(file, *names),
            compute_reward=reward.compute_reward,
            apply_length_penalties=lambda experiences, args: None,
        )

        def function(
            token_level_rewards: torch.Tensor, response_mask: torch.Tensor, index: Any
        ) -> torch.Tensor:
            keys = list(dict.fromkeys(index))
            rows = [i for key in keys for i in np.flatnonzero(index == key)]
            advantage = SimpleNamespace(
                **{"estimator": estimator, "gamma": 1.0, "no_std_norm": no_std_norm}
            )
            args = SimpleNamespace(
                algo=SimpleNamespace(advantage=advantage),
                rollout=SimpleNamespace(n_samples_per_prompt=len(rows) // len(keys)),
                reward=SimpleNamespace(clip_range=None),
            )
            maker = SimpleNamespace(
                strategy=SimpleNamespace(args=args),
                kl_ctl=SimpleNamespace(value=0.0),
                advantage_estimator=estimator,
            )
            maker.get_cumulative_returns = lambda *a: loaded.get_cumulative_returns(
                maker, *a
            )
            mask = response_mask[rows]
            experience = SimpleNamespace(
                index=list(range(len(rows))),
                rewards=token_level_rewards[rows].sum(-1),
                kl=torch.zeros_like(mask),
                action_mask=mask,
                info={},
            )
            (made,) = loaded.compute_advantages_and_returns(maker, [experience])
            found = torch.zeros_like(mask)
            found[rows] = made.advantages.to(mask.dtype)
            return found

        return function

    return Subject("openrlhf", f"{file}:{names[0]}", "verl", make, about)


def skyrl_stepwise(name: str, about: str, **options: Any) -> Subject:
    """The step-wise advantages of SkyRL's trainer: a row is a turn, which is one token here."""
    file, method = "skyrl/train/trainer.py", "compute_advantages_and_returns"

    class Batch(dict[str, Any]):
        metadata: dict[str, Any]

        def to(self, device: str) -> "Batch":
            return self

    def make(wheel: Wheel) -> Callable[..., Any]:
        estimator = skyrl(name, about).make(wheel)
        accepted = ("token_level_rewards", "response_mask", "index")

        def of_last_steps(**given: Any) -> Any:
            return estimator(**{key: given[key] for key in accepted}, **options)

        algorithm = SimpleNamespace(
            **{"advantage_estimator": name, "gamma": 1.0, "lambd": 1.0},
            grpo_norm_by_std=True,
        )
        cfg = SimpleNamespace(
            generator=SimpleNamespace(step_wise_trajectories=True),
            trainer=SimpleNamespace(algorithm=algorithm),
        )
        compute = wheel.load(
            *(file, method),
            ppo_utils=SimpleNamespace(compute_advantages_and_returns=of_last_steps),
            logger=SimpleNamespace(info=lambda text: None),
        ).compute_advantages_and_returns

        def function(
            token_level_rewards: torch.Tensor, response_mask: torch.Tensor, index: Any
        ) -> torch.Tensor:
            trajectory, place = torch.nonzero(response_mask, as_tuple=True)
            rewards = token_level_rewards[trajectory, place][:, None]
            data = Batch(
                rewards=rewards, response_mask=torch.ones_like(rewards), values=None
            )
            is_last = place == response_mask.sum(1)[trajectory] - 1
            data.metadata = {
                "is_last_step": is_last.tolist(),
                "uids": index[trajectory].tolist(),
                "avg_response_length": 1.0,
            }
            compute(SimpleNamespace(cfg=cfg, all_metrics={}), data)
            advantages = torch.zeros_like(token_level_rewards)
            advantages[trajectory, place] = data["advantages"][:, 0].double()
            return advantages

        return function

    return Subject("skyrl", f"{file}:{method}", "verl", make, about)


# CoMLRL: the returns of the replies to one prompt, and the turns of an agent
def comlrl(mode: str, about: str, normalize: bool = True) -> Subject:
    """An `advantage_mode` of CoMLRL's trainers, with its own statements around it."""
    file, method = (
        "comlrl/trainers/reinforce/magrpo.py",
        "_compute_loss_with_gradients",
    )

    def make(wheel: Wheel) -> Callable[..., Any]:
        first = "advantages = self._compute_advantages"
        lines = wheel.lines(file, method, first, "if self.args.advantage_normalization")
        code = compile(lines, file, "exec")
        compute = wheel.load(file, "_compute_advantages")._compute_advantages
        trainer = SimpleNamespace(
            advantage_mode=mode,
            args=SimpleNamespace(advantage_normalization=normalize),
        )
        trainer._compute_advantages = lambda returns: compute(trainer, returns)

        def function(rewards: torch.Tensor, num_generations: int) -> torch.Tensor:
            space = {"self": trainer, "effective_returns": rewards}
            exec(code, space)
            return space["advantages"]

        return function

    return Subject("comlrl", f"{file}:{method}", "trl", make, about)


def comlrl_iac(about: str, normalize: bool = True) -> Subject:
    """CoMLRL's actor-critic with exact values; the target of a turn is r + V(next turn)."""
    file, method = "comlrl/trainers/actor_critic/ac_base.py", "_prepare_advantages"

    def make(wheel: Wheel) -> Callable[..., Any]:
        prepare = wheel.load(file, method, List=list)._prepare_advantages
        trainer = SimpleNamespace(
            args=SimpleNamespace(advantage_normalization=normalize)
        )

        def function(turns: TurnBatch) -> Any:
            order = np.lexsort((turns.turn, turns.seat, turns.episode))
            value = np.asarray(turns.value)
            same = np.diff(turns.episode[order]) == 0
            same &= np.diff(turns.seat[order]) == 0
            target = np.array(turns.reward)
            target[order[:-1]] += value[order[1:]] * same
            samples = [
                SimpleNamespace(
                    metadata={"adv_target": torch.tensor([t])},
                    old_value=torch.tensor([v]),
                    returns=torch.zeros(1, dtype=torch.float64),
                )
                for t, v in zip(target, value, strict=True)
            ]
            for seat in np.unique(turns.seat):
                rows = np.flatnonzero(turns.seat == seat)
                prepare(trainer, [samples[row] for row in rows])
            return np.array([float(s.normalized_advantage[0]) for s in samples])

        return function

    return Subject("comlrl", f"{file}:{method}", "turns", make, about)


def formula(
    function: Callable[..., Any], package: str, version: str, about: str
) -> Subject:
    """A function of `formulas.py`, whose docstring says where the original stands."""
    source = f"formulas.py:{function.__name__}"
    return Subject(package, source, "episodes", lambda wheel: function, about, version)


PRIME = "0.8.0 (559b447)"
ONE = SimpleNamespace(gamma=1.0)
PLAIN: dict[str, Any] = {"norm_adv_by_std_in_grpo": True}
SUBJECTS = {
    "trl-grpo": trl(
        "grpo", UNSCORABLE, "default: z-score", scale_rewards="group", **GRPO
    ),
    "trl-grpo-no-scale": trl(
        "grpo", UNSCORABLE, "scale_rewards='none'", scale_rewards="none", **GRPO
    ),
    "trl-rloo": trl("rloo", UNSCORABLE, "default", normalize_advantages=False),
    "trl-rloo-normalized": trl(
        "rloo", UNSCORABLE, "normalize_advantages=True", normalize_advantages=True
    ),
    "verl-grpo": verl("grpo_outcome", "default: z-score"),
    "verl-grpo-no-std": verl(
        "grpo_outcome", "norm_adv_by_std_in_grpo=False", norm_adv_by_std_in_grpo=False
    ),
    "verl-grpo-vectorized": verl("grpo_vectorized_outcome", "default: z-score"),
    "verl-grpo-passk": verl("grpo_passk_outcome", "best minus second", config=PLAIN),
    "verl-rloo": verl("rloo_outcome", "default"),
    "verl-rloo-vectorized": verl("rloo_vectorized_outcome", "default"),
    "verl-opo": verl("opo_outcome", "baseline weighted by length"),
    "verl-gpg": verl(
        "gpg_outcome", "minus the mean, by the share of rewards that are not 0"
    ),
    "verl-reinforce-plus-plus": verl(
        "reinforce_plus_plus_outcome", "whitened over the batch", config=ONE
    ),
    "verl-reinforce-plus-plus-baseline": verl(
        "reinforce_plus_plus_baseline_outcome", "minus the mean, then whitened"
    ),
    "skyrl-grpo": skyrl("compute_grpo_outcome_advantage", "default: z-score"),
    "skyrl-rloo": skyrl("compute_rloo_outcome_advantage", "default"),
    "skyrl-maxrl": skyrl("compute_maxrl_advantage", "divided by the mean"),
    "skyrl-reinforce-plus-plus": skyrl(
        "compute_reinforce_plus_plus_outcome_advantage", "whitened", gamma=1.0
    ),
    "skyrl-agent-grpo": of_list(
        "skyrl",
        "skyrl_agent/integrations/tinker/tinker_train.py",
        "compute_advantages_grpo",
        "minus the mean, then normalized",
    ),
    "openrlhf-rloo": openrlhf("rloo", "default"),
    "openrlhf-reinforce": openrlhf("reinforce", "whitened over the batch"),
    "openrlhf-reinforce-baseline": openrlhf(
        "reinforce_baseline", "minus the mean, then whitened"
    ),
    "openrlhf-group-norm": openrlhf("group_norm", "z-score"),
    "openrlhf-dr-grpo": openrlhf("dr_grpo", "minus the mean"),
    "ms-swift-grpo": swift("grpo", "default: z-score"),
    "ms-swift-grpo-no-scale": swift(
        "grpo", "scale_rewards='none'", scale_rewards="none"
    ),
    "ms-swift-rloo": swift("rloo", "scale_rewards='none'", scale_rewards="none"),
    "ms-swift-rloo-scaled": swift("rloo", "scale_rewards='group'"),
    "tinker-cookbook": tinker(),
    "openpipe-art": of_list(
        "openpipe_art",
        "art/tinker_native/data.py",
        "compute_advantages",
        "default: z-score",
    ),
    "openpipe-art-no-normalize": of_list(
        "openpipe_art",
        "art/tinker_native/data.py",
        "compute_advantages",
        "normalize_advantages=False",
        normalize_advantages=False,
    ),
    "trl-async": trl_async(),
    "unsloth-grpo": trl(
        "grpo",
        UNSCORABLE,
        "TRL's default after its edits; multi-turn rows too",
        unsloth=True,
        scale_rewards="group",
        **GRPO,
    ),
    "skyrl-stepwise-grpo": skyrl_stepwise(
        "compute_grpo_outcome_advantage", "step-wise, default: z-score of last steps"
    ),
    "skyrl-stepwise-rloo": skyrl_stepwise(
        "compute_rloo_outcome_advantage", "step-wise, last steps alone"
    ),
    "comlrl-magrpo": comlrl("mean", "default: z-score"),
    "comlrl-marloo": comlrl("rloo", "default: normalized, so a z-score"),
    "comlrl-maremax": comlrl("max", "default: normalized, so a z-score"),
    "comlrl-magrpo-plain": comlrl("mean", "advantage_normalization=False", False),
    "comlrl-marloo-plain": comlrl("rloo", "advantage_normalization=False", False),
    "comlrl-maremax-plain": comlrl("max", "advantage_normalization=False", False),
    "comlrl-iac": comlrl_iac("default: exact critic, TD error, z-score"),
    "comlrl-iac-plain": comlrl_iac("advantage_normalization=False", False),
    "prime-rl-grpo": formula(
        formulas.prime_rl_grpo, "prime-rl", PRIME, "default: minus the mean"
    ),
    "prime-rl-max-rl": formula(
        formulas.prime_rl_max_rl, "prime-rl", PRIME, "divided by the mean"
    ),
    "prime-rl-rae": formula(
        formulas.prime_rl_rae, "prime-rl", PRIME, "minus a running mean"
    ),
    "prime-rl-rae-by-end": formula(
        formulas.prime_rl_rae_by_end,
        "prime-rl",
        PRIME,
        "groups of one, scored as they end",
    ),
    "prime-rl-3282": formula(
        formulas.turn_credit_final,
        "prime-rl",
        "pull request 3282",
        "turn_credit: scores are what was paid so far, the return is the reward",
    ),
    "prime-rl-3282-no-final": formula(
        formulas.turn_credit,
        "prime-rl",
        "pull request 3282",
        "turn_credit without a final reward",
    ),
    "verifiers-1554": formula(
        formulas.verifiers_1554,
        "verifiers",
        "pull request 1554",
        "returns-to-go, z-scored over all steps",
    ),
    "at-grpo": formula(
        formulas.at_grpo,
        "PettingLLMs",
        "a054fb1",
        "z-score of what the turn was paid, by turn",
    ),
    "mars-released": formula(
        formulas.mars_released,
        "MARS",
        "released",
        "turn rewards whitened, added up, centred, whitened again",
    ),
    "verl-7244": formula(
        formulas.verl_7244,
        "verl",
        "issue 7244",
        "z-scores by turn, added up; the issue warns of it",
    ),
}


def audited(name: str, wheel: Wheel | None) -> dict[str, Any]:
    """What was found about a subject; its wheel, or None for a formula."""
    subject, began = SUBJECTS[name], time.process_time()
    make: Callable[[Any], Callable[..., Any]] = subject.make  # None: a formula
    found = audit(make(wheel), subject.signature)  # type: ignore[arg-type]
    seconds = round(time.process_time() - began, 1)
    return {
        "package": subject.package.replace("_", "-"),
        "version": wheel.version if wheel else subject.version,
        "source": subject.source,
        "about": subject.about,
        "worst": found.worst,
        "rows": {
            row.game: row.error
            or {
                batch: [
                    v.kind,
                    round(v.cosine, 3),
                    round(v.factor, 3),
                    rounded(row.noise.get(batch)),
                ]
                for batch, v in row.verdicts.items()
            }
            for row in found.rows
        },
        "counterexample": found.counterexample,
        "cpu_seconds": seconds,
    }


def rounded(noise: float | None) -> float | None:
    """To three digits; None where there is none, or where the gradient points away."""
    if noise is None or not math.isfinite(noise):
        return None
    return float(f"{noise:.3g}")


def main() -> None:
    """Audits the subjects that are named, or all."""
    torch.set_num_threads(1)
    words = iter(sys.argv[1:])
    names, folder, as_json = [], Path("wheels"), False
    for word in words:
        if word == "--wheels":
            folder = Path(next(words))
        elif word == "--json":
            as_json = True
        else:
            names.append(word)
    wheels = {w.name: w for w in map(Wheel, sorted(folder.glob("*.whl")))}
    rows = {}
    for name in names or SUBJECTS:
        wheel = wheels.get(SUBJECTS[name].package)
        if wheel is None and not SUBJECTS[name].version:
            print(
                f"{name}: no wheel of {SUBJECTS[name].package} in {folder}",
                file=sys.stderr,
            )
            continue
        row = rows[name] = audited(name, None if SUBJECTS[name].version else wheel)
        kinds = [
            v[0] for g in row["rows"].values() if isinstance(g, dict) for v in [g["2"]]
        ]
        errors = sorted({g for g in row["rows"].values() if isinstance(g, str)})
        print(
            name,
            row["version"],
            row["worst"],
            f"{row['cpu_seconds']} s",
            file=sys.stderr,
        )
        print("   batches of two:", ", ".join(kinds), *errors, file=sys.stderr)
        if len(names) == 1 and (shown := row["counterexample"]):
            print(f"   reversed in {shown[0]}, batch {shown[1]}", file=sys.stderr)
            for line in shown[2]:
                print("    ", *line, file=sys.stderr)
    if as_json:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
