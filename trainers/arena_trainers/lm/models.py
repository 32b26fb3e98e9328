"""Models by name: their folders, on this machine or from the Hugging Face hub.

Checks tell a language model from a reward model by its folder. Imports no torch.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from arena_envs.extras import import_extra
from arena_studio.outputs import reading_advice
from arena_trainers.lm import smollm2
from arena_trainers.lm.prompt_file import PROMPT_FILE

ADAPTER = "adapter_config.json"
CARD = "README.md"  # the model card
WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
_CLASSIFIER = "ForSequenceClassification"
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_TIMEOUT = 10  # seconds, of a question to the hub


def saved_model(folder: Path) -> Path:
    """The folder, which holds a configuration and weights.

    Raises:
        ValueError: it does not; says what it holds or lacks.
    """
    if (folder / "config.json").is_file():
        missing = _missing_weights(folder)
        if missing is not None:
            raise ValueError(
                f"want a folder with a saved model, got {str(folder)!r} with "
                f"config.json and without {missing}; save it again with "
                "model.save_pretrained(FOLDER)"
            )
        return folder
    problem = "without config.json"
    if (folder / ADAPTER).is_file():
        problem = f"with an adapter: merge it with arena data export {folder} --merged"
    elif any((folder / "model" / name).is_file() for name in ("config.json", ADAPTER)):
        problem = f"which is a run: its model is in {str(folder / 'model')!r}"
    elif rounds := sorted(folder.glob("round-*/model")):
        problem = (
            f"which is a run with rounds: its last model is in {str(rounds[-1])!r}"
        )
    elif models := role_folders(folder) or role_folders(folder / "model"):
        names = ", ".join(path.name for path in models)
        problem = f"with a model for each role: give {models[0].as_posix()}, or another of {names}"
    elif advice := reading_advice(folder):
        problem += f"; {advice}"
    raise ValueError(f"want a folder with a saved model, got {str(folder)!r} {problem}")


def role_folders(folder: Path) -> list[Path]:
    """The folders of adapters, or of whole models, in a model of several learners."""
    if any((folder / name).is_file() for name in ("config.json", ADAPTER)):
        return []
    folders = [file.parent for file in folder.glob(f"*/{ADAPTER}")]
    if (folder / PROMPT_FILE).is_file():  # else any folder of models
        folders += [file.parent for file in folder.glob("*/config.json")]
    return sorted(folders)


def are_adapters(roles: Mapping[Any, Mapping[str, Any]], has_rank: bool) -> bool:
    """Whether learners are adapters; `has_rank`: so are those without `lora_r`.

    Raises:
        ValueError: some are adapters, and others are whole models.
    """
    if not (has_rank or any("lora_r" in options for options in roles.values())):
        return False
    for name, options in roles.items():
        if "model" in options or not (has_rank or "lora_r" in options):
            raise ValueError(
                "want an adapter for each role or a whole model for each, got a whole "
                f"model in roles[{name!r}] beside adapters; give it lora_r: 8 in place "
                "of model, or leave every lora_r out"
            )
    return True


def _missing_weights(folder: Path) -> str | None:
    """The file that the weights of a folder lack, if any."""
    for index in folder.glob("*.index.json"):
        try:
            names = set(json.loads(index.read_bytes())["weight_map"].values())
            shards = sorted(str(name) for name in names)
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
            raise ValueError(
                f"want a weight_map of files in {str(index)!r}; save the model again "
                "with model.save_pretrained(FOLDER)"
            ) from None
        for shard in shards:
            if not (folder / shard).is_file():
                return shard
    if any(any(folder.glob(pattern)) for pattern in WEIGHTS):
        return None
    return "weights"


def adapter_base(name: str) -> str | None:
    """The base model of the adapter in a folder; None where the folder holds none.

    Args:
        name: a folder. One with a whole model holds no adapter.

    Returns:
        A folder or an id of the hub. The base of a run that was moved is looked for beside
        the adapter and one folder up: `RUN/start` is the base of `RUN/model`, or of
        `RUN/round-00/model`.

    Raises:
        ValueError: `adapter_config.json` names no base model, or its folder is not there.
    """
    folder = Path(name)
    file = folder / ADAPTER
    if not file.is_file() or (folder / "config.json").is_file():
        return None
    try:
        base = json.loads(file.read_bytes())["base_model_name_or_path"]
    except (ValueError, RecursionError, KeyError, TypeError):
        base = None
    if not isinstance(base, str) or not base:
        raise ValueError(
            f"want base_model_name_or_path in {str(file)!r}, which names no base "
            "model; write there the folder of the model that the adapter was trained on"
        )
    above = [parent / Path(base).name for parent in folder.absolute().parents[:2]]
    for place in (Path(base), *above):
        if (place / "config.json").is_file():
            return str(place)
    if _HUB_ID.fullmatch(base):
        return base
    raise ValueError(
        f"the adapter in {name!r} was trained on the model in {base!r}, which does not "
        f"exist; put it there, or write its new place into {str(file)!r}"
    )


def prompt_folder(name: str) -> Path:
    """The folder where a policy's `arena_prompt.json` is: of its adapter or its model."""
    return model_folder(name) if adapter_base(name) is None else Path(name)


def find_model(name: str, asks_hub: bool = True) -> Path | None:
    """The folder of a model, or None where it must be downloaded or converted first.

    A folder that exists comes before a model of a package, that before an id of the hub,
    and what has been downloaded before the network.

    Args:
        name: a folder, `"smollm2"` (see `arena_trainers.lm.smollm2`), or an id of the hub
            such as `"Qwen/Qwen3-0.6B"`.
        asks_hub: whether to ask the hub if it has a model that is not on this machine.

    Raises:
        ValueError: there is no such model, or the hub cannot be asked; says what would do.
    """
    if Path(name).is_dir():
        return saved_model(Path(name))
    if Path(name).is_file():
        # not opened: the file of a stranger may name it
        raise ValueError(
            f"want a folder with a saved model, got the file {name!r}; give its folder"
        )
    if name == smollm2.NAME:
        return smollm2.converted()
    if not _HUB_ID.fullmatch(name):
        raise ValueError(
            f"want a folder with a saved model, got {name!r}, which does not exist"
        )
    snapshot = _cached_snapshot(name)
    if snapshot is None and asks_hub and "config.json" not in _hub_files(name):
        raise ValueError(
            f"want a model of transformers, got {name!r}, which has no config.json on "
            "the hub; give another id, or a folder"
        )
    return snapshot


def model_folder(name: str) -> Path:
    """The folder of a model, downloaded or converted if need be; see `find_model`."""
    local_folder = find_model(name)
    if local_folder is not None:
        return local_folder
    if name == smollm2.NAME:
        return smollm2.convert()
    hub = import_extra("huggingface_hub", "train")
    # the top folder alone: others hold the same weights in other formats
    ignore_patterns = ["*/*"]
    if any(file.endswith(".safetensors") for file in _hub_files(name)):
        ignore_patterns += ["*.bin", "*.pth"]
    with _hub_errors(name):
        snapshot = hub.snapshot_download(name, ignore_patterns=ignore_patterns)
    return saved_model(Path(snapshot))


def _cached_snapshot(name: str) -> Path | None:
    """The snapshot in the hub's cache, if it is whole enough to load."""
    hub = import_extra("huggingface_hub", "train")
    file = hub.try_to_load_from_cache(name, "config.json")
    if not isinstance(file, str):
        return None
    try:
        return saved_model(Path(file).parent)
    except ValueError:
        return None


def _hub_files(name: str) -> list[str]:
    hub = import_extra("huggingface_hub", "train")
    with _hub_errors(name):
        info: Any = hub.HfApi().model_info(name, timeout=_TIMEOUT)
    return [file.rfilename for file in info.siblings or []]


@contextmanager
def _hub_errors(name: str) -> Iterator[None]:
    """Turns errors of the hub and of the network into a refusal; others, as of a disk, stay."""
    errors = import_extra("huggingface_hub.errors", "train")
    # the base is of the client's package, which differs by version
    http_error: Any = errors.HfHubHTTPError.__bases__[0]
    hub_errors = (
        http_error,
        errors.LocalEntryNotFoundError,
        ConnectionError,
        TimeoutError,
    )
    try:
        yield
    except hub_errors as error:
        raise _hub_error(name, error) from error


def _hub_error(name: str, error: Exception) -> ValueError:
    kinds = {cls.__name__ for cls in type(error).__mro__}
    if "GatedRepoError" in kinds:
        why = "the hub wants you to accept its terms and to log in: hf auth login"
    elif "RepositoryNotFoundError" in kinds:
        why = "the hub knows no such model, or it is private"
    elif "OfflineModeIsEnabled" in kinds:
        why = "HF_HUB_OFFLINE is set, and it has not been downloaded"
    else:
        why = f"the hub does not answer ({type(error).__name__})"
    return ValueError(
        f"want a model as a folder or an id of the Hugging Face hub, got {name!r}: there "
        f"is no such folder, and {why}; download it with {download_of(name)}, or give "
        "a folder with a saved model"
    )


def download_of(name: str) -> str:
    """The command that downloads a model; recipes name their folders `models/NAME`."""
    base = name.removeprefix("models/")
    if base == name:
        return f"`hf download {name}`"
    owner = "Qwen" if base.startswith("Qwen") else "OWNER"
    return f"`hf download {owner}/{base} --local-dir {name}`"


def check_reward_model(name: str) -> None:
    """Checks what can be known of a reward model without loading or downloading it.

    Raises:
        ValueError: there is no such model, or it is no reward model.
    """
    if adapter_base(name) is not None:
        raise ValueError(
            f"want a reward model with all its weights, got an adapter in {name!r}; "
            "train it without lora_r"
        )
    folder = find_model(name)
    if folder is not None:
        check_reward_folder(folder)


def check_language_model(name: str) -> None:
    """Raises ValueError if a model is a reward model, which gives no replies.

    Args:
        name: a folder or an id of the hub; one that must be downloaded is not checked.
    """
    folder, kind = find_model(name), ""
    if folder is not None:
        with suppress(ValueError, RecursionError, LookupError, TypeError):
            config: Any = json.loads((folder / "config.json").read_bytes())
            kind = str(config["architectures"][0])
    if kind.endswith(_CLASSIFIER):
        raise ValueError(
            f"want a language model, got the reward model {name!r} ({kind}), which "
            f"gives no replies; choose replies with best_of:4(lm:PATH, reward:{name}), "
            f"or judge turns with columns: {{rewards.judge: {{reward: {name}}}}}"
        )


def check_reward_folder(folder: Path) -> None:
    """Raises ValueError unless `config.json` is of a sequence classifier with one output."""
    try:
        config: Any = json.loads((folder / "config.json").read_bytes())
        kinds = [str(kind) for kind in config.get("architectures") or ["another kind"]]
        labels = config.get("id2label")
        num_outputs = len(labels) if labels else 2  # by default of transformers
    except (ValueError, RecursionError, TypeError, AttributeError):
        raise ValueError(
            "want the configuration of a reward model in "
            f"{str(folder / 'config.json')!r}, which cannot be read; make one with "
            "arena train --trainer reward --data PAIRS.parquet"
        ) from None
    if not kinds[0].endswith(_CLASSIFIER):
        raise ValueError(
            f"want a reward model in {str(folder)!r}, got {kinds[0]}; make one with "
            "arena train --trainer reward --data PAIRS.parquet"
        )
    if num_outputs != 1:
        raise ValueError(
            f"want a reward model with one output in {str(folder)!r}, got "
            f"{num_outputs}; make one with arena train --trainer reward --data "
            "PAIRS.parquet"
        )
