"""The push of a trained model to the Hugging Face hub."""

from pathlib import Path
from typing import Any

from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError
from transformers import Trainer, TrainingArguments
from transformers.trainer_utils import HubStrategy

# the base is of the client's package, which differs by version; the others are OSError
HUB_ERRORS: Any = (OSError, HfHubHTTPError.__bases__[0])


def check_push(args: TrainingArguments) -> None:
    """Checks that the model can be pushed; asks the hub who is logged in.

    Raises:
        ValueError: `push_to_hub` is set, and nobody is logged in, the hub does not answer,
            or another option does not fit.
    """
    if args.hub_token is not None:
        raise ValueError(
            "want no hub_token, as config.yaml would hold it; log in with `hf auth "
            "login`, or set the environment variable HF_TOKEN"
        )
    if not args.push_to_hub:
        return
    strategy = HubStrategy(args.hub_strategy).value
    if strategy != "end":
        raise ValueError(
            f"want hub_strategy 'end', got {strategy!r}: the model is pushed with its "
            "card when the run ends; leave hub_strategy out"
        )
    try:
        HfApi().whoami()
    except HUB_ERRORS as error:
        raise ValueError(
            f"push_to_hub needs the Hugging Face hub: {_first_line(error)}; log in "
            "with `hf auth login`, or leave push_to_hub out"
        ) from error


def push_model(folder: Path, trainer: Trainer) -> str:
    """Pushes `model/` with its card; returns a line that says where it is.

    If that fails, the line says why, and how to push it by hand.
    """
    repo = str(trainer.hub_model_id)
    try:
        HfApi().upload_folder(
            repo_id=repo,
            folder_path=folder / "model",
            commit_message="Add the model of an arena-envs run",
            revision=trainer.args.hub_revision,
            ignore_patterns=[
                "training_args.bin"
            ],  # a pickle with paths of this machine
        )
    except HUB_ERRORS as error:
        return (
            f"warning: the model was not pushed: {_first_line(error)}; push it with: "
            f"hf upload {repo} {folder / 'model'}"
        )
    return f"the model and its card are on the hub: {repo}"


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
