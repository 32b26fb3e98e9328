r"""Written answers: where a reply has its answer, and which number, choice or text an answer is.

A reply is hostile text; no function here raises. `answer_of` finds the answer, and the rest
compares it with the right one:

- `is_equal_number`: numbers as people and models write them, with Unicode, LaTeX and units;
- `letter_of`: a choice by its text or its letter;
- `plain_text`: any other text.

What denies, bounds or hedges a number, such as "not 5", "5 or more", "≠5" or "about 5", is no
number. Neither are formulas: "5!", "√5", "2*1". Powers ("10^3") and quotients ("84/2") are.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

from arena_envs.game import fold
from arena_envs.games.kits.number_words import ONES, TENS
from arena_envs.talk import to_closing_brace

LETTERS = "ABCDEFGHIJ"
MAX_READ = 1000  # characters of an answer that are read as a number or a choice

_DASHES = re.compile("[\u2010-\u2015\u2212\ufe58\ufe63\uff0d]")
_FORMAT = re.compile("[\u00ad\u200b-\u200f\u2060\ufe0e\ufe0f\ufeff]")
_RAISED = re.compile("[\u207b\u2070\u00b9\u00b2\u00b3\u2074-\u2079]+")
_VULGAR = re.compile("[\u00bc-\u00be\u2150-\u215e\u2189]")


def boxed(text: str) -> str:
    r"""What the last `\boxed{...}` of a text holds; empty without one."""
    _, mark, after = text.rpartition("\\boxed{")
    return (mark and to_closing_brace(after)) or ""


def _normal(text: str) -> str:
    """The text with one spelling of digits, signs, fractions and letters of any width."""
    text = _RAISED.sub(lambda m: "^" + unicodedata.normalize("NFKC", m[0]), text)
    text = _VULGAR.sub(lambda m: f" {unicodedata.normalize('NFKC', m[0])} ", text)
    text = _FORMAT.sub("", unicodedata.normalize("NFKC", text)).replace("\u2044", "/")
    text = "".join(
        str(unicodedata.decimal(c)) if c.isdecimal() and not c.isascii() else c
        for c in text
    )
    return _DASHES.sub("-", text)


_WRAPPER = re.compile(
    r"\\(?:text(?:bf|it|rm)?|math(?:rm|bf|it|sf)|mbox|operatorname|boldsymbol|boxed)\*?"
    r"\s*\{([^{}]*)\}"
)
_FRACTION = re.compile(r"\\[dtc]?frac\s*(\{[^{}]*\}|\d)\s*(\{[^{}]*\}|\d)")
_SYMBOLS = {
    r"\\[()\[\]]|\\left(?![a-z])|\\right(?![a-z])|\\!": "",
    r"\\[,;:> ]|\\q?quad(?![a-z])|(?<=\w)~(?=\S)": " ",
    r"\{,\}": ",",
    r"\^\s*\{?\s*\\(?:circ|degree)\s*\}?|\\degree(?![a-z])": "\u00b0",
    r"\\(?:cdot|times)(?![a-z])": "*",
    r"\\([%$#&_])": r"\1",
    r"=>|->|\u2192|\u21d2|\\(?:implies|to|rightarrow)(?![a-z])": "=",
}


def without_latex(text: str) -> str:
    r"""A short text without the commands of LaTeX that only set type.

    >>> without_latex(r"\frac{1}{2}\,\text{cm}"), without_latex(r"\boxed{\text{A}}")
    ('(1)/(2) cm', 'A')
    """
    for _ in range(4):  # commands within commands
        text = _WRAPPER.sub(r"\1", text)
    for pattern, symbol in _SYMBOLS.items():
        text = re.sub(pattern, symbol, text)
    return _FRACTION.sub(lambda m: f"({m[1].strip('{}')})/({m[2].strip('{}')})", text)


_MARKS = " \t\n\r*_`'\"\u201c\u201d\u2018\u2019"
_PAIRS = {"(": ")", "[": "]", "{": "}", "<": ">"}


def _bare(text: str) -> str:
    """The text without Markdown, quotes and brackets around all of it."""
    text = re.sub(r"\*\*|__|`", "", text).strip(_MARKS)
    while len(text) > 1 and _PAIRS.get(text[0]) == text[-1]:
        inside = text[1:-1]
        if any(bracket in inside for bracket in (text[0], text[-1])):
            break
        text = inside.strip(_MARKS)
    return text


_DENIAL = re.compile(
    r"\b(?:not|no|never|nor|neither|none|cannot|without|but|except|unless|if|or|other|isn|aren"
    r"|doesn|don|can|wasn|wrong|incorrect|false|could|might|may"
    r"|anything|everything|impossible|unlikely)\b"
    r"|n['\u2019]t\b|\u4e0d",
    re.IGNORECASE,
)
_BOUND = re.compile(
    r"\b(?:than|least|most|more|less|fewer|about|around|approx\w*|roughly|nearly|almost|circa|ca"
    r"|between|over|under|above|below|beyond|half|halves|quarters?|twice|double|triple|square|"
    r"squared|root|cubed?|factorial|log|ln|sin|cos|tan|opposite|inverse|plus|times|divided|and"
    r"|minus|negative|pi|until|per|to|up|down|is|are|was|maybe|perhaps|possibly|dozens?|\w+ths?"
    r"|hundreds?|thousands?|[mb]illions?|trillions?)\b",
    re.IGNORECASE,
)
_OPERATOR = re.compile(
    r"[-+*/^!?<>|~\\&\u00b1\u2213\u221a\u2260\u2264\u2265\u2248\u2030]"
)
_VERB = re.compile(
    r"(?<!\w)(?:is|are|was|were|be|equals?|has|have|had|gets?|got|gives?|makes?|leaves?|total|of"
    r"|exactly|only|just|answer|result|costs?|needs?|earns?|pays?|say|think|pick|choose|guess"
    r"|ist|est|es)\Z",
    re.IGNORECASE,
)

_WHOLE = r"(?:[1-9]\d{0,2}(?:[, \u00a0]\d{3})+(?!\d)|\d{1,40})"
_NUM = rf"(?:{_WHOLE}(?:\.\d{{1,40}})?|\.\d{{1,40}})"
_COMMA = r"(?:\d{1,40},\d{1,40}|[1-9]\d{0,2}(?:\.\d{3})+(?:,\d{1,40})?)"  # 1.250,5
_SIGN = r"(?:[-+]\s?)?"
_ANY = rf"\(?\s*{_SIGN}{_NUM}\s*\)?"
_VALUES = (  # in the order in which they are tried
    rf"(?P<mixed>{_SIGN}\d{{1,20}}(?:\s+|(?=\())\(?\d{{1,20}}\)?\s*/\s*\(?\d{{1,20}}\)?)",
    rf"(?P<quotient>{_SIGN}{_ANY}\s*/\s*{_ANY})",
    rf"(?P<power>{_SIGN}(?:{_NUM}\s*[*x\u00d7\u00b7]\s*(?=10\b))?\d{{1,4}}\s*\^"
    r"\s*[({]?\s*-?\d{1,2}\s*[)}]?)",
    rf"(?P<scientific>{_SIGN}{_NUM}[eE][-+]?\d{{1,3}})",
    rf"(?P<decimal>{_SIGN}{_NUM}\.?)",
    rf"(?P<comma>{_SIGN}{_COMMA})",
    rf"(?P<negated>-\s?\(\s*{_SIGN}{_NUM}\s*\))",
)
_SCALES = {"hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9}
_SCALES |= {"trillion": 10**12}
_SCALE = rf"(?:\s+(?P<scale>{'|'.join(_SCALES)})\b)?"
_VALUE = re.compile(
    rf"(?<![\w.,])(?P<sign>(?:minus|negative)\s+)?(?:{'|'.join(_VALUES)})"
    rf"(?![.,]?\d){_SCALE}",
    re.IGNORECASE,
)
_SIZES = {word: number for number, word in enumerate(ONES)}
_SIZES |= {word: 10 * number for number, word in enumerate(TENS, 2)}
_WORD = rf"(?:{'|'.join(sorted((*_SIZES, *_SCALES), key=len, reverse=True))})"
_IN_WORDS = re.compile(
    rf"\b(?P<sign>(?:minus|negative)\s+)?(?P<words>{_WORD}(?:(?:\s+and)?[\s-]+{_WORD})*)\b",
    re.IGNORECASE,
)

_METRIC = {"milli": "m", "centi": "c", "kilo": "k"}
_POWERS = {
    "milli": Fraction(1, 1000),
    "centi": Fraction(1, 100),
    "kilo": Fraction(1000),
}
_UNITS: dict[str, tuple[str, Fraction]] = {  # dimension, and size in its base unit
    **{name: ("time", Fraction(1)) for name in ("s", "sec", "second")},
    **{name: ("time", Fraction(60)) for name in ("min", "minute")},
    **{name: ("time", Fraction(3600)) for name in ("h", "hr", "hour")},
    **{"day": ("time", Fraction(86400)), "week": ("time", Fraction(604800))},
    **{name: ("money", Fraction(1)) for name in ("$", "dollar", "usd")},
    **{name: ("money", Fraction(1, 100)) for name in ("\u00a2", "cent")},
    **{name: ("euros", Fraction(1)) for name in ("\u20ac", "euro", "eur")},
}
for _dimension, _short, _names in (
    ("length", "m", ("meter", "metre")),
    ("mass", "g", ("gram", "gramme")),
    ("volume", "l", ("liter", "litre")),
):
    for _name in (_short, *_names):
        _UNITS[_name] = _dimension, Fraction(1)
        for _prefix, _letter in _METRIC.items():
            _first = _letter if _name == _short else _prefix
            _UNITS[f"{_first}{_name}"] = _dimension, _POWERS[_prefix]
_LETTERS_OF_UNITS = frozenset("CFKNJWVAL")  # without a conversion
_WORDS = r"(?!(?:because|since)\b)[^\W\d_]+(?:-[^\W\d_]+)*"
_UNIT = re.compile(
    rf"(?:\s*(?:(?P<percent>%|per\s?cent\b)|(?P<symbol>\u00b0\s?[CFK]?(?![^\W_])|[$\u20ac\u00a3\u00a5\u00a2])"
    rf"|(?P<words>{_WORDS}(?:\^-?\d)?(?:(?:\s*/\s*|\s+){_WORDS}(?:\^-?\d)?){{0,4}})))?",
    re.IGNORECASE,
)
_TAIL = re.compile(
    r"(?:\s*\((?P<aside>[^()]*)\))?[\s.,;:!)\]}'\"]{0,6}(?:(?<=[\s,;.])(?:because|since)\b.*)?",
    re.DOTALL,
)
_IS_ANSWER = re.compile(
    r"\s+(?:is|would be|must be)\s+(?:(?:the|my|our)\s+)?(?:(?:final|correct|right)\s*)*"
    r"(?:answer|choice|option)?\W*\Z",
    re.IGNORECASE,
)


class Quantity(NamedTuple):
    """A number with its unit: in percent, or the dimension and the size of a known unit."""

    value: Fraction
    is_percent: bool = False
    dimension: str = ""
    size: Fraction = Fraction(1)


def quantity_of(text: str, decimal_comma: bool = False) -> Quantity | None:
    """The only number of a text with its unit; None if there is none, or several.

    Args:
        text: any text.
        decimal_comma: whether "12,5" is a number; else it may be two.
    """
    if len(text) > MAX_READ:
        return None
    text = without_latex(_normal(boxed(text) or first_sentence(text)))
    if text.count("$") != 1 or not re.search(r"\$\s*[-.\d]", text):
        text = text.replace("$", "")
    text = _IS_ANSWER.sub("", _bare(text))
    text = re.sub(r"\A#+\s*", "", text)
    has_digits = re.search(r"\d", text)
    place = (_VALUE if has_digits else _IN_WORDS).search(text)
    if place is None or not _may_precede(text[: place.start()]):
        return None
    value = _value_of(place, decimal_comma)
    if value is None:
        return None
    return _with_unit(value, text[: place.start()], text[place.end() :])


def _may_precede(before: str) -> bool:
    """Whether words before a number leave it the answer, such as "Ann has" or "x =".

    A minus sign, a bound and a denial do not; nor does what ends in no verb.
    """
    before = re.sub(r"(?<=\w)-(?=\w)", "", before).rstrip(
        " \t\n*_'\"([$\u20ac\u00a3\u00a5"
    )
    if any(each.search(before) for each in (_DENIAL, _OPERATOR, _DIGIT)):
        return False
    if _BOUND.search(_COPULA.sub("", before)):
        return False
    return not before or before[-1] in ":=#" or bool(_VERB.search(before))


_DIGIT = re.compile(r"\d")
_COPULA = re.compile(r"\b(?:is|are|was)\b", re.IGNORECASE)


def _value_of(place: re.Match[str], decimal_comma: bool) -> Fraction | None:
    """The value of a match of `_VALUE` or `_IN_WORDS`; None for a division by 0."""
    groups = place.groupdict()
    if (words := groups.get("words")) is not None:
        value: Fraction | None = _number_in_words(words)
    else:
        kind, text = next((k, v) for k, v in groups.items() if v and k in _READERS)
        value = (
            None
            if kind == "comma" and not decimal_comma and "," in text
            else (_READERS[kind](re.sub(r"\s*([-+])\s*", r"\1", text)))
        )
    if value is None:
        return None
    scale = _SCALES[groups["scale"].lower()] if groups.get("scale") else 1
    return value * scale * (-1 if groups["sign"] else 1)


def _decimal(text: str) -> Fraction:
    return Fraction(re.sub(r"[,\s()]", "", text).rstrip("."))


def _mixed(text: str) -> Fraction | None:
    sign, whole, top, bottom = re.findall(r"\A[-+]?|\d+", text)[:4]
    if not int(bottom):
        return None
    return (int(whole) + Fraction(int(top), int(bottom))) * (-1 if sign == "-" else 1)


def _quotient(text: str) -> Fraction | None:
    sign = -1 if re.match(r"-\(", text) else 1
    top, bottom = (
        _decimal(part) for part in text.removeprefix("-" * (sign < 0)).split("/")
    )
    return sign * top / bottom if bottom else None


def _power(text: str) -> Fraction | None:
    front, _, exponent = text.partition("^")
    *factor, base = re.split(
        r"[*x\u00d7\u00b7]", front.lstrip("-+"), flags=re.IGNORECASE
    )
    power = int(re.sub(r"[(){}\s]", "", exponent))
    if power < 0 and not int(base):
        return None
    value = Fraction(int(base)) ** power * (_decimal(factor[0]) if factor else 1)
    return -value if text.startswith("-") else value


def _comma(text: str) -> Fraction:
    return Fraction(text.replace(".", "").replace(",", "."))


def _negated(text: str) -> Fraction:
    return -_decimal(text[1:])


_READERS = {
    "mixed": _mixed,
    "quotient": _quotient,
    "power": _power,
    "scientific": _decimal,
    "comma": _comma,
    "decimal": _decimal,
    "negated": _negated,
}


def _number_in_words(text: str) -> Fraction | None:
    """The number of English words; None where they name none, as "five six" does."""
    total, part, last = 0, 0, 10**15
    for word in re.findall(r"[a-z]+", text.lower()):
        if word == "and":
            continue
        if word in _SCALES:
            scale = _SCALES[word]
            if scale == 100:
                part = (part or 1) * 100
            else:
                total, part = total + (part or 1) * scale, 0
            last = scale
        else:
            size = _SIZES[word]
            if (part % 100 and (part % 10 or size > 9)) or (part and last == 1):
                return None
            part, last = part + size, 1 if size < 20 else 10
    return Fraction(total + part)


def _with_unit(value: Fraction, before: str, after: str) -> Quantity | None:
    """The quantity of a value by what follows it; None where that leaves it in doubt."""
    unit = _UNIT.match(after)
    remainder = after[unit.end() :] if unit else after
    tail = _TAIL.fullmatch(remainder)
    if tail is None or (
        re.search(r"[!?]", remainder.partition("because")[0])
        and not (unit and unit["words"] and "?" not in remainder)
    ):
        return None
    if aside := tail["aside"]:
        inside = quantity_of(aside)
        if _DENIAL.search(aside) or (inside is not None and inside.value != value):
            return None
    words = unit["words"] if unit else None
    symbol = unit["symbol"] if unit else None
    if unit and unit["percent"]:
        return Quantity(value, is_percent=True)
    if words is None:
        money = re.search(r"[$\u20ac]\s*\Z", before)
        unit_size = _UNITS.get((money and money[0].strip()) or symbol or "")
        return Quantity(value, False, *unit_size) if unit_size else Quantity(value)
    is_attached = not after[:1].isspace()
    return _named_unit(value, words, is_attached)


def _named_unit(value: Fraction, words: str, is_attached: bool) -> Quantity | None:
    """The quantity of a value and the words after it; None if these are no unit."""
    first, *others = re.split(r"\s*/\s*|\s+", words)
    name, _, power = first.partition("^")
    unit_size = (
        _UNITS.get(name) or _UNITS.get(name.lower())
        if len(name) > 1
        else _UNITS.get(name)
    )
    unit_size = unit_size or _UNITS.get(
        name.lower().removesuffix("s") if len(name) > 2 else name
    )
    is_letter = len(name) == 1 and not unit_size and name not in _LETTERS_OF_UNITS
    is_word = (
        len(name) == 1 and not name.isascii() and unicodedata.category(name) == "Lo"
    )
    if is_letter and not is_word:
        return None
    if is_attached and not unit_size and not is_word and name not in _LETTERS_OF_UNITS:
        return None
    if _DENIAL.search(words) or _BOUND.search(words) or name.lower() in ("of", "x"):
        return None
    if unit_size is None or others:
        return Quantity(value)
    dimension, size = unit_size
    exponent = int(power or 1)
    return Quantity(value, False, dimension + f"^{power}" * bool(power), size**exponent)


def number_of(text: str) -> Fraction | None:
    r"""The only number of a text, exactly; None if there is none, or several.

    >>> number_of("$1,250.50"), number_of(r"\boxed{\frac{1}{2}} cups"), number_of("3 or 4")
    (Fraction(2501, 2), Fraction(1, 2), None)
    """
    quantity = quantity_of(text)
    return None if quantity is None else quantity.value


def is_equal_number(right: Quantity, answer: Quantity) -> bool:
    """Whether an answer is the right number.

    Percent may be written as such, as a fraction, or without its sign. Units count where both
    are known: 12 cm is 120 mm and not 12 m.
    """
    if right.is_percent != answer.is_percent and answer.value != right.value:
        percent, plain_number = (right, answer) if right.is_percent else (answer, right)
        return percent.value / 100 == plain_number.value
    if right.dimension and answer.dimension:
        sizes = [each.value * each.size for each in (right, answer)]
        return right.dimension == answer.dimension and sizes[0] == sizes[1]
    return right.value == answer.value


def plain_text(text: str) -> str:
    """A text as it is compared with others, without case, marks around and blanks in formulas."""
    text = _normal(boxed(text) or text)
    for _ in range(4):  # as wrappers may stand in each other
        text = _WRAPPER.sub(r"\1", text)
    # sizes and spaces of LaTeX, which change no value
    text = re.sub(r"\\[dt]frac", r"\\frac", text)
    text = fold(re.sub(r"\\(?:left|right)(?![a-z])|\\[,;!]", "", text))
    # blanks around marks, then those between a number and a letter that stands alone, as in 3 π
    text = re.sub(r"\s*([^\w\s])\s*", r"\1", text)
    text = re.sub(r"(?<=\d)\s+(?=[^\W\d_](?![^\W\d_]))", "", text)
    return text.strip(" .$*_`\"'") or text


_LABELLED = re.compile(
    r"\A(?P<open>[(\[{]?)\s*(?P<letter>[A-Ja-j])(?!\w)"
    r"(?P<mark>\s+-(?=\s)|\s*[)\]}.:,;]*)\s*(?P<text>.*)\Z",
    re.DOTALL,
)
_LEAD = re.compile(
    r"\A(?:(?:so|thus|therefore|hence|ok|okay)[,\s]+)?"
    r"(?:(?:i|we)\s+(?:would\s+|will\s+|'ll\s+)?(?:pick|choose|select|say|think|go with|answer)\s*"
    r"(?:that\s+|it\s+is\s+|it's\s+)?"
    r"|(?:it\s+is|it's)\s+)?"
    r"(?:(?:the|my|our)\s+)?(?:(?:final|correct|right|best)\s+)*"
    r"(?:(?:answer|choice|option|letter)s?\s*(?:is|=|:)?[\s:=]*)*",
    re.IGNORECASE,
)


def letter_of(
    choices: Sequence[str],
    answer: str,
    *,
    texts_first: bool = False,
    strict: bool = False,
) -> str | None:
    """The letter of the choice that an answer names; None if it names none, or several.

    A whole text of a choice is read first, so that "C. elegans" is not choice C. A bare letter
    in capitals is the letter of a choice, even if it is the text of another one.

    Args:
        choices: their texts, 10 at most.
        answer: any text.
        texts_first: whether a bare letter is the text of a choice rather than its letter.
        strict: whether nothing but the choice's own text may follow its letter.
    """
    if len(answer) > MAX_READ:
        return None
    text = _IS_ANSWER.sub(
        "", _bare(without_latex(_normal(boxed(answer) or answer)).replace("$", ""))
    )
    core = _bare(_LEAD.sub("", text))
    letters = LETTERS[: len(choices)]
    bare = [each for each in (text.strip(" ."), core.strip(" .")) if len(each) == 1]
    if bare and bare[0] in letters and not texts_first:
        return bare[0]
    if exact := _letter_by_text(choices, answer, str.strip):
        return exact
    if bare and bare[0].upper() in letters and not texts_first:
        return bare[0].upper()
    for each in (answer, first_sentence(answer), text, core):
        for reading in (plain_text, _plain_without_latex):
            letter = _letter_by_text(choices, each, reading)
            if letter is not None:
                return letter or None
    for each in dict.fromkeys((text, core)):
        if each and (letter := _letter_by_label(choices, letters, each, strict)):
            is_led = each is core and core != text
            return None if is_led and each[:1] in "ai" and len(core) > 1 else letter
    return None


def _plain_without_latex(text: str) -> str:
    return plain_text(without_latex(text))


def _letter_by_text(
    choices: Sequence[str], answer: str, reading: Callable[[str], str]
) -> str | None:
    """The letter of the choice with this text; "" if several have it, None if none has."""
    answer_text = reading(answer)
    same = [n for n, choice in enumerate(choices) if reading(choice) == answer_text]
    if not same or not answer_text:
        return None
    return LETTERS[same[0]] if len(same) == 1 else ""


def _letter_by_label(
    choices: Sequence[str], letters: str, answer: str, strict: bool
) -> str | None:
    """The letter of "B", "(b)", "B. gold" or "B) gold, because ..."."""
    place = _LABELLED.match(answer)
    if place is None or (letter := place["letter"].upper()) not in letters:
        return None
    words = place["text"].strip(" .")
    if not words:
        return letter
    is_marked = place["mark"].strip() or place["open"]
    if not is_marked and not re.match(r"(?:because|since)\b", words):
        return None
    letter_of_text = _letter_by_text(choices, words, plain_text)
    if letter_of_text is not None:
        return letter if letter_of_text == letter else None
    if strict:
        return None
    choice = choices[letters.index(letter)]
    reason = words[len(choice) :] if fold(words).startswith(fold(choice)) else words
    return None if _names_choice(choices, letters, letter, reason) else letter


def _names_choice(
    choices: Sequence[str], letters: str, letter: str, reason: str
) -> bool:
    """Whether words after a letter name another choice, or deny something."""
    labels = re.findall(rf"(?<!\w)([{letters}])(?!\w|['\u2019])", reason)
    if any(each not in ("A", "I", letter) for each in labels):
        return True
    if _DENIAL.search(reason) or re.search(rf"(?<!\w)[{letters}]\s*[).:]", reason):
        return True
    text = plain_text(reason)
    others = [
        plain_text(choice)
        for choice, each in zip(choices, letters, strict=True)
        if each != letter
    ]
    return any(
        choice_text and re.search(rf"(?<!\w){re.escape(choice_text)}(?!\w)", text)
        for choice_text in others
    )


_TAG = re.compile(r"<\s*(/?)\s*answer\s*>", re.IGNORECASE)
_ANSWER = re.compile(
    r"(?<![\w/])answers?(?!\w)(?P<link>[\s\"*_`)]*(?:(?:is|are)(?!\w))?[\s:=*_`]*)",
    re.IGNORECASE,
)
_OTHERS = re.compile(
    r"\b(?:this|that|an|any|another|each|such|every)\s+\Z", re.IGNORECASE
)
_HASHES = re.compile(r"(?m)^[ \t]*#{4}(?!#)[ \t]*(?=\S)")
_INVERTED = re.compile(
    r"(?<!\S)(?:is|would be|must be)\s+(?:the|my|our)\s+"
    r"(?:(?:final|correct|right)\s+)*answer(?!\w)"
    r"(?=\s*(?:[.!,;\n*_]|\Z|because\b|since\b))",
    re.IGNORECASE,
)
_LEAD_OF_LABEL = re.compile(
    r"(?<![^\s*_#>])(?:so|thus|hence|therefore|and|now|the|my|our|final|correct|best|right"
    r"|answers?:?),?\Z",
    re.IGNORECASE,
)
_CLOSING = re.compile(
    r"\W*(?:(?:i\s+)?hope (?:this|it|that)\b|let me know\b|thanks?\b|good luck\b|i am sure\b"
    r"|i'm sure\b|is there anything\b).*",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<!\b[A-Za-z][.!?])(?<=[.!?])[\"'*$)\]]*\s+(?=[A-Z])")
MAX_LABELS = 50  # that are looked at, from the end
MAX_LINE = 2000  # characters of a line that are looked at
MAX_SHOWN = 200  # characters of an answer with what explains it
MAX_BLANKS = 3  # of an answer after a bare label, if lines follow


def answer_of(reply: str) -> tuple[str, str] | None:
    """The message and the answer of a reply; None if it has no answer.

    The answer follows the last label ("answer", "answer is", "####"), stands in a last box, or
    before "is the answer". Without these it is the last line but for polite closings.
    """
    text = _TAG.sub(lambda tag: "\n" if tag[1] else "\nanswer: ", reply)
    label, box = _by_label(text), _by_box(text)
    places = [label, _by_inversion(text), *([box] if box[1] != label[1] else [])]
    start, value = max(places, key=lambda place: place[0])
    if not value:
        lines = text.splitlines(keepends=True)
        while lines and (
            not answer_line(lines[-1]) or _CLOSING.fullmatch(lines[-1].strip())
        ):
            lines.pop()
        start, value = len("".join(lines[:-1])), answer_line("".join(lines[-1:]))
        if not _before_label(_ANSWER.sub("", value)):  # a label and nothing else
            return None
    return (_before_label(text[:start]), value) if value else None


def _before_label(text: str) -> str:
    """The message that stands before an answer, without words such as "So the final"."""
    marks = " \t\n\r*_`#>"
    message = text.strip().rstrip(marks)
    while lead := _LEAD_OF_LABEL.search(message, max(0, len(message) - 20)):
        message = message[: lead.start()].rstrip(marks)
    return message


def _by_label(text: str) -> tuple[int, str]:
    """Where the last label with an answer begins, and this answer; -1 and "" without one."""
    places = [(m.start(), m.end(), m["link"]) for m in _ANSWER.finditer(text)]
    places += [(m.start(), m.end(), ":") for m in _HASHES.finditer(text)]
    weak = -1, ""
    for start, end, link in sorted(places, reverse=True)[:MAX_LABELS]:
        if _OTHERS.search(text[max(0, start - 12) : start]):
            continue
        value = answer_line(
            boxed(text[end:]) or _first_line(text[end : end + MAX_LINE])
        )
        line = text.rfind("\n", 0, start) + 1
        if not value or _is_verdict(text[line:start], link):
            continue
        before = _before_label(text[line:start])
        starts_clause = not before.strip("-") or before[-1] in ",;.!?:"
        is_last = not text[end:].strip().partition("\n")[1]
        if re.search(r"[:=]|is|are|\n", link) or (
            starts_clause and (is_last or value.count(" ") < MAX_BLANKS)
        ):
            return start, value
        weak = (start, value) if is_last and not weak[1] else weak
    return weak


def _is_verdict(before: str, link: str) -> bool:
    """Whether a label belongs to "42 is the answer" and starts no answer."""
    inverted = re.search(
        r"\b(?:is|be)\s+(?:the|my|our)\s+(?:(?:final|correct|right)\s+)*\Z",
        before,
        re.I,
    )
    return bool(inverted) and not re.search(r"[:=]|is|are|\n", link)


def _by_box(text: str) -> tuple[int, str]:
    value = answer_line(boxed(text))
    return (text.rfind("\\boxed{"), value) if value else (-1, "")


def _by_inversion(text: str) -> tuple[int, str]:
    """The place and the answer of the last "42 is the answer"."""
    for place in reversed(list(_INVERTED.finditer(text))[-MAX_LABELS:]):
        end = place.start()
        line = text[max(text.rfind("\n", 0, end) + 1, end - MAX_LINE) : end]
        sentence = re.split(r"(?<=[.!?])\s+|,\s+", line)[-1]
        value = answer_line(boxed(sentence) or sentence)
        if value and not _ANSWER.search(value):
            return end - len(sentence), value.rstrip(_MARKS)
    return -1, ""


def _first_line(text: str) -> str:
    """The first line with content, whole environments of LaTeX, and lines of values after it."""
    lines = [line.strip() for line in text.strip(" \t\n\r:=*_`").splitlines()]
    if not lines:
        return ""
    value, *others = lines
    for line in others:
        is_open = value.count("\\begin{") > value.count("\\end{")
        is_value = (
            line and not re.search(r"[^\W\d_]{2}", line) and re.search(r"\w", line)
        )
        if not is_open and not is_value:
            break
        value = f"{value} {line}"
    return value


def answer_line(answer: str) -> str:
    """An answer in one line without marks around; a long one without what follows a sentence."""
    while True:
        text = " ".join(answer.split())
        text = first_sentence(text) if len(text) > MAX_SHOWN else text
        text = text.lstrip(" *_`:=").rstrip(" *_`:.=")
        text = re.sub(r"\A(?:is(?!\w)[\s:=]*)+(?=\S)", "", text, flags=re.IGNORECASE)
        if text == answer:
            return text
        answer = text


def first_sentence(text: str) -> str:
    """The text before a sentence of words, such as "I hope it is correct."."""
    place = _SENTENCE.search(text)
    is_sentence = place and len(re.findall(r"\b[a-z]{2,}\b", text[place.end() :])) > 1
    return text[: place.start()] if place and is_sentence else text
