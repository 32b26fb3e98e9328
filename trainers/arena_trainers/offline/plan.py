"""How a model that is trained on rows plays: its games, its prompts, its sampling."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from arena_envs import make_game
from arena_trainers.data import Origin, only_prompt, read_origin
from arena_trainers.lm.prompt_file import prompt_json, saved_options
from arena_trainers.offline.row_file import RowFacts
from arena_trainers.runs.settings import JobConfig, build_configs
from arena_trainers.runs.start import load_tokenizer, longest_replies
from arena_trainers.train.games import GamePlan
from arena_wrappers.prompts import PROMPT_OPTIONS
from arena_wrappers.records import params_of

_ADVICE = "make it with arena data EPISODES --select NAME --model {} --out FILE.parquet"


class Player:
    """What evaluation and `arena_prompt.json` need to know of the trained model.

    Prompt options are those of the rows, sampling those of the model's own
    `arena_prompt.json`. Where that file names no longest reply, it is that of the rows, or of
    random legal play if that is longer.

    Args:
        job: the model's settings.
        folder: of the given model; None for the tiny model.
        data: the file of rows.
        facts: of its rows.
        output_dir: the run folder.
        seed: of the run.

    Attributes:
        plans: the games of the rows; empty if the file names none.
        tokenizer: the model's.
        args: prompt and sampling options, as those of self-play.

    Raises:
        ValueError: the file names no games or prompts where they are needed, or the model has no
            tokenizer with a chat template.
    """

    def __init__(
        self,
        job: JobConfig,
        folder: Path | None,
        data: Path,
        facts: RowFacts,
        output_dir: Path,
        seed: int,
    ) -> None:
        origin, saved = read_origin(data), saved_options(job.model)
        settings = {**saved, **_prompt(origin, saved, job, data), "seed": seed}
        if origin is not None:
            settings["games"] = [without_defaults(game) for game in origin.games]
        given = str(output_dir)
        _, self.args = build_configs(settings, given)
        games = self.args.games if origin is not None else []
        self.plans = [GamePlan(spec, self.args) for spec in games]
        self.tokenizer = load_tokenizer(job, folder, self.plans, self.args.prompt)
        if "max_completion_length" not in settings:
            lengths = longest_replies(
                self.tokenizer, self.plans, self.args.reply_format
            )
            self.args.max_completion_length = max([facts.longest_reply, *lengths])

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

    Args:
        spec: `id`, `params` and `max_turns`.

    Raises:
        ValueError: the game is unknown.
    """
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
    """The prompt options of the rows; of the model where the file has none or several."""
    own = {name: saved[name] for name in PROMPT_OPTIONS if name in saved}
    if origin is not None and (len(origin.prompts) == 1 or not own):
        return dict(vars(only_prompt(origin)))
    if not own or (origin is None and job.model == "tiny"):
        raise ValueError(
            f"want a file that says which games and prompts its rows are of, got "
            f"{str(data)!r} without; {_ADVICE.format(job.model)}"
        )
    return own
