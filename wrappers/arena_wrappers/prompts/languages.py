"""Languages of prompts, and the translation of a game's texts.

A language is a JSON file in `phrases`, with the words of this package and of some games. It holds
the sentences of `Language`, by name, and under `games`, by the module of a game, each English phrase
of its texts with its translation. `{name}` in a phrase stands for some words in one line, which keep
their form but for `words`, and `{message}` for a quotation. A phrase that starts with `~` is a
regular expression of what stays as it is.
"""

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from arena_envs.game import AnyGame
from arena_wrappers.prompts.formats import FORMATS

FOLDER = Path(__file__).with_name("phrases")
MESSAGE = r'"(?:[^"\\\n]|\\.)*"'  # as `arena_envs.hostile.quoted` writes it


@dataclass(frozen=True)
class Language:
    """The sentences of prompts in one language.

    Attributes:
        name: "en", "de" and so on.
        legal: the line of legal actions; `{}` stands for them.
        samples: the same in language games.
        example: what stands before the example of a reply.
        greeting: the message of the example.
        again: the request for another reply; `{fault}` stands for what was wrong.
        faults: what was wrong, by the reason of an `InvalidReply`; empty: its detail.
        formats: by reply format: how to reply where actions are listed, and in language games.
        games: phrases with their translations, by module.
    """

    name: str = "en"
    legal: str = "Legal actions: {}."
    samples: str = "For example: {}."
    example: str = "For example:"
    greeting: str = "Hello!"
    again: str = "{fault} Reply again."
    faults: Any = None
    formats: Any = None
    games: Any = None

    def format_of(self, reply_format: str, is_listed: bool) -> str:
        """How to reply."""
        if self.formats:
            text: str = self.formats[reply_format][0 if is_listed else 1]
            return text
        shape = FORMATS[reply_format]
        return shape.instruction if is_listed else shape.free_instruction

    def translated(self, game: AnyGame, text: str) -> str:
        """A text of a game in this language.

        Raises:
            ValueError: the file has no phrase for it.
        """
        if self.name == "en":
            return text
        stem = type(game).__module__.removesuffix(".game").rpartition(".")[2]
        if stem not in self.games:
            stems = ", ".join(sorted(self.games))
            raise ValueError(
                f"language {self.name!r} has no prompts of {stem}; it has those of "
                f"{stems}. Take language='en', or add the phrases of the game to the "
                "language's file."
            )
        phrases, words = _phrases(self.name, stem)
        parts, place = [], 0
        while place < len(text):
            matches = ((p.match(text, place), to) for p, to in phrases)
            match, target = next((m for m in matches if m[0]), (None, None))
            if match is None:
                raise ValueError(
                    f"language {self.name!r} lacks a phrase of {stem} for "
                    f"{text[place:][:80]!r}; add it to the language's file"
                )
            parts.append(_put(target, match, words) + match["blank"])
            place = match.end()
        return "".join(parts)


def _put(target: str | None, match: re.Match[str], words: dict[str, str]) -> str:
    if target is None:
        return match["kept"]

    def value(field: re.Match[str]) -> str:
        text = match[field[1]]
        if field[1] != "message":
            for word, translation in words.items():
                text = re.sub(rf"\b{word}\b", translation, text)
        return text

    return re.sub(r"\{(\w+)\}", value, target)


@lru_cache
def _phrases(
    name: str, stem: str
) -> tuple[list[tuple[re.Pattern[str], str | None]], Any]:
    """Patterns of a game's phrases with their translations, and single words."""
    translations = dict(find_language(name).games[stem])
    words = translations.pop("words", {})
    patterns: list[tuple[re.Pattern[str], str | None]] = []
    for phrase, target in translations.items():
        if phrase.startswith("~"):
            pattern, target = f"(?P<kept>{phrase[1:]})", None
        else:
            pattern = re.escape(phrase).replace(
                r"\{message\}", f"(?P<message>{MESSAGE})"
            )
            pattern = re.sub(r"\\\{(\w+)\\\}", r'(?P<\1>[^"\n]*?)', pattern)
            pattern += r"(?=\n|\Z)" if phrase.endswith("}") else ""
        patterns.append((re.compile(rf"{pattern}(?P<blank>\s+|\Z)"), target))
    return patterns, words


@lru_cache
def languages() -> tuple[str, ...]:
    """The languages that have a file."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.json")))


@lru_cache
def find_language(name: str) -> Language:
    """A language, from its file."""
    if name == "en":
        return Language()
    return Language(name, **json.loads((FOLDER / f"{name}.json").read_text("utf-8")))
