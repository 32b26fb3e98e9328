"""Reads the numbers that a reply gives to names, such as probabilities."""

import math
import re
import unicodedata
from collections.abc import Sequence

from arena_wrappers.prompts import after_reasoning

_CHANCE = (  # a fraction, a number, or percent
    r"(?:\\[dt]?frac\{?(?P<top>\d{1,6})\}?\{?(?P<under>\d{1,6})\}?"
    r"|(?P<over>\d{1,6})\s?/\s?(?P<below>\d{1,6})"
    r"|(?P<number>\d{0,3}\.\d{1,12}|\d{1,9})(?:[eE](?P<power>-\d{1,2})(?!\w))?)"
    r"(?P<percent>\s?(?:\\?%|percent\b))?"
)


_LINK = r"(?:[\s\"'`*_|:=~()\[\]{}\u2013\u2014\u2248$]|->?(?=\s)|->|\\[(\[,]"
_AFTER_NAME = _LINK + (
    r"|\b(?:is|has|have|gets|with|at|of|to|be|an?|the|probability|prob|chance|likelihood|card"
    r"|about)\b){0,12}"
)


_BEFORE_NAME = _LINK + (
    r"|\b(?:for|of|on|to|that|it|is|it's|an?|the|probability|prob|chance|likelihood|card|p)\b)"
    r"{0,12}"
)


_DENIED = re.compile(
    r"\b(?:not|never|no|cannot|neither)\b|n['\u2019]t\b", re.IGNORECASE
)


def read_distribution(reply: str, answers: Sequence[str]) -> dict[str, float] | None:
    """The probabilities that a reply gives to the answers; None if it cannot be read."""
    text = after_reasoning(reply)
    if not isinstance(text, str):
        return None
    text = unicodedata.normalize("NFKC", text).replace("\u2044", "/")
    chances = numbers_by_name(text, answers)
    if total := math.fsum(chances.values()):
        if len(chances) == 1 < len(answers):
            return _with_others(*chances.popitem(), answers)
        return {name: chances.get(name, 0.0) / total for name in answers}
    names = [name for name in answers if re.search(_place(name), text)]
    if len(names) != 1 or chances or _DENIED.search(text):
        return None
    return {name: float(name in names) for name in answers}


def _place(name: str) -> str:
    return rf"(?<![\w.]){re.escape(name)}(?!\w)"


def numbers_by_name(text: str, answers: Sequence[str]) -> dict[str, float]:
    """The last number beside each name: before the names if the text begins so, else after."""
    longest_first = sorted(answers, key=len, reverse=True)
    names = "|".join(map(_place, longest_first))
    tokens = [m["name"] for m in re.finditer(rf"(?P<name>{names})|{_CHANCE}", text)]
    is_before = len(tokens) > 1 and tokens[0] is None and tokens[-1] is not None
    name = rf"(?P<name>{names})"
    after = rf"{name}{_AFTER_NAME}(?<![\w.]){_CHANCE}"
    before = rf"(?<![\w./-]){_CHANCE}{_BEFORE_NAME}{name}"
    pairs = rf"{name},\s*{_CHANCE}"  # (J, 0.25), (K, 0.75)
    patterns = (before, after) if is_before else (after, before, pairs)
    readings = (
        {m["name"]: _chance(m) for m in re.finditer(each, text)} for each in patterns
    )
    return next(filter(None, readings), {})


def _chance(match: re.Match[str]) -> float:
    top, under = match["top"] or match["over"], match["under"] or match["below"]
    if top is not None:
        value = int(top) / int(under) if int(under) else 0.0
    else:
        value = float(match["number"]) * 10.0 ** int(match["power"] or 0)
    return value / 100 if match["percent"] else value


def _with_others(name: str, chance: float, answers: Sequence[str]) -> dict[str, float]:
    """A distribution by the probability of one answer; the others are equally likely."""
    chance = chance / 100 if 1 < chance <= 100 else min(chance, 1.0)
    other = (1 - chance) / (len(answers) - 1)
    return {each: chance if each == name else other for each in answers}
