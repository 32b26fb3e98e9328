"""How a model that learns from rows plays: its games, prompts and sampling."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from arena_envs import make_game
from arena_envs.trust import named_only
from arena_trainers.data import Origin, only_prompt, read_origin
from arena_trainers.lm.chat import chat_of
from arena_trainers.lm.prompt_file import prompt_json, saved_options
from arena_trainers.runs.checks.lengths import longest_replies
from arena_trainers.runs.settings import JobConfig, build_configs
from arena_trainers.runs.start import load_tokenizer
from arena_trainers.train.games import GamePlan
from arena_wrappers.prompts import PROMPT_OPTIONS
from arena_wrappers.records import params_of


class RowPlayer:
    """The games, prompts and sampling of the trained model, for evaluation and `arena_prompt.json`.

    Prompt options are those of the rows, sampling those of the model's own
    `arena_prompt.json`. Where that file names no longest reply, it is that of the rows, or of
    random legal play if that is longer. Rows of no game have the prompt options of the model,
    or the defaults.

    Args:
        job: the model's settings.
        path: the file of rows.
        folder: the run folder.
        model: folder of the model; None for the tiny one.
        seed: of the run.

    Attributes:
        plans: the games of the rows; empty if the file names none.
        tokenizer: the model's.
        args: prompt and sampling options, as those of self-play.

    Raises:
        NotTrusted: the file of rows names code or another file, see `arena_envs.trust`.
        ValueError: the file names no games or prompts where the tiny model needs them, or the
            model has no tokenizer with a chat template.
    """

    @named_only()
    def __init__(
        self, job: JobConfig, path: Path, folder: Path, model: Path | None, seed: int
    ) -> None:
        origin, saved = read_origin(path), saved_options(job.model)
        settings = {**saved, **_prompt(origin, saved, job, path), "seed": seed}
        if origin is not None:
            settings["games"] = [without_defaults(game) for game in origin.games]
        _, self.args = build_configs(settings, str(folder))
        games = self.args.games if origin is not None else []
        self.plans = [GamePlan(spec, self.args) for spec in games]
        self.tokenizer = load_tokenizer(job, model, self.plans, self.args.prompt)
        self.chat = chat_of(self.tokenizer, self.args)
        self._has_length = "max_completion_length" in settings

    def fit_replies(self, longest: int) -> None:
        """Makes room for the longest reply of the rows, in tokens, unless the model has a limit."""
        if not self._has_length:
            lengths = longest_replies(self.chat, self.plans, self.args.reply_format)
            self.args.max_completion_length = max([longest, *lengths])

    @property
    def policy_options(self) -> dict[str, Any]:
        """Arguments of `LMPolicy`."""
        return {"prompt": self.args.prompt, **self.args.sampling_options}

    def prompt_json(self) -> str:
        """The content of `arena_prompt.json`."""
        chat = {"chat_template_kwargs": self.args.chat_template_kwargs or {}}
        return prompt_json(self.args.prompt, {**self.args.sampling_options, **chat})


def without_defaults(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A game without parameters that have its default, so that its name stays short.

    Records hold all parameters.

    Raises:
        NotTrusted: the file of rows names code, see `arena_envs.trust`.
        ValueError: the game is unknown.
    """
    with named_only():
        defaults = params_of(make_game(spec["id"]))
    params = {
        name: value
        for name, value in spec.get("params", {}).items()
        if name not in defaults or value != defaults[name]
    }
    others = {name: value for name, value in spec.items() if name != "params"}
    return {**others, "params": params} if params else others


def _prompt(
    origin: Origin | None, saved: dict[str, Any], job: JobConfig, data: Path
) -> dict[str, Any]:
    """The prompt options of the rows; of the model where the file has none or several.

    Rows of no game have the defaults where the model has none.
    """
    model_options = {name: saved[name] for name in PROMPT_OPTIONS if name in saved}
    if origin is not None and (len(origin.prompts) == 1 or not model_options):
        return dict(vars(only_prompt(origin)))
    if job.model == "tiny":
        raise ValueError(
            "want a file that says which games and prompts its rows are of, for the words of "
            f"the tiny model, got {str(data)!r} without; name a model with --model PATH, or make "
            "the file with arena data select EPISODES --by NAME --out FILE.parquet"
        )
    return model_options
