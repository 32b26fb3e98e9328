"""Writes the copy of TRL's options, `arena_trainers/train/options.json`, for the installed TRL.

Importing TRL takes seconds, so that help and preflight read the copy. Run
`python docs/build_trl_options.py --write` after a change of TRL or transformers. Without `--write` it
compares, and fails if the copy is out of date.
"""

import json
import sys

from arena_trainers.train.config import training_options
from arena_trainers.train.listed_options import LIST, installed_versions

FIELDS = ("name", "types", "choices", "default", "help", "source")


def copy() -> str:
    """The whole copy: the versions, and a line for each option."""
    lines = [
        json.dumps({name: getattr(option, name) for name in FIELDS})
        for option in training_options().values()
        if option.source == "trl"
    ]
    versions = json.dumps(installed_versions())
    options = ",\n".join(lines)
    return f'{{"made_with": {versions},\n"options": [\n{options}\n]}}\n'


if __name__ == "__main__":
    if "--write" in sys.argv:
        LIST.write_text(copy(), encoding="utf-8")
    elif LIST.read_text(encoding="utf-8") != copy():
        sys.exit(f"{LIST} is out of date: python docs/build_trl_options.py --write")
