"""The base model of a run, and its licence."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from arena_trainers.lm import smollm2
from arena_trainers.lm.card_file import read_card
from arena_trainers.lm.models import CARD

_LICENCE_KEYS = ("license", "license_name", "license_link")  # the hub's keys


class BaseModel(NamedTuple):
    """A base model: its names and its licence.

    Attributes:
        name: as the user gave it; `"tiny"` for one made on the spot.
        hub_id: its id on the Hugging Face hub, if it is known.
        licence: the hub's keys of the licence that it states; empty if it states none, or
            `unknown`.
    """

    name: str
    hub_id: str | None
    licence: Mapping[str, str]


def base_model(name: str, folder: Path | None) -> BaseModel:
    """The base model of a run, by its name and the model card in its folder.

    A folder that another run wrote hands on that run's own base model.

    Args:
        name: the option `model`.
        folder: where its files are; None for the tiny model.
    """
    if folder is None:
        return BaseModel(name, None, {})
    if name == smollm2.NAME:
        return BaseModel(name, smollm2.HUB_ID, {"license": smollm2.LICENCE})
    stated, _ = read_card(folder / CARD)
    licence = {
        key: value for key in _LICENCE_KEYS if isinstance(value := stated.get(key), str)
    }
    if licence.get("license") == "unknown":  # the hub's name for none
        licence = {}
    hub_id: object = stated.get("base_model") if Path(name).is_dir() else name
    is_id = isinstance(hub_id, str) and not Path(hub_id).is_absolute()
    return BaseModel(name, str(hub_id) if is_id else None, licence)
