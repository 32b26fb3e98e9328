"""Absolute paths of this machine in what a run publishes."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

# the folders of "/home/me/model", "lm:/home/me/model" and "noisy:0.1(lm:/home/me/model)"
_FOLDERS = re.compile(r"(?<![\w./~])/(?:[^/,#()]+/)+(?=[^/,#()])")


def local_folders(settings: Any) -> Iterator[str]:
    """The folders of the absolute paths in settings, such as `"/home/me/"`.

    Args:
        settings: a text, or lists and mappings of texts.
    """
    if isinstance(settings, str):
        yield from _FOLDERS.findall(settings)
    elif isinstance(settings, Mapping):
        for name, value in settings.items():
            yield from local_folders(name)
            yield from local_folders(value)
    elif isinstance(settings, list | tuple):
        for value in settings:
            yield from local_folders(value)


def without_folders(text: str, folders: Iterable[str]) -> str:
    """A text in which paths have their last part only.

    >>> without_folders("lm:/home/me/model", local_folders("lm:/home/me/model"))
    'lm:model'
    """
    for folder in sorted(set(folders), key=len, reverse=True):
        text = text.replace(folder, "")
    return text
