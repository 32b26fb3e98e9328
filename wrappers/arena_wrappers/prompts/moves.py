"""The moves that a text orders or mentions, in a game's own words."""

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from arena_envs.game import fold
from arena_envs.talk import Move, natural, restated

_AROUND = " \t\n\r*_`'\"()[]{}<>.,;:!\u201c\u201d\u2018\u2019\u00ab\u00bb"
_MARKDOWN = re.compile(
    r"[*`\"\u201c\u201d\u00ab\u00bb~|]|\\(?:text|boxed|mathrm|textbf|mathbf)\b"
)
_BULLET = re.compile(r"\s*(?:(?:[-*+\u2022>]|#{1,6}|\(?\d{1,2}[.)])\s+){1,3}")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+")
_MARK = re.compile(r"[:;]\s|\s[-\u2013\u2014]{1,3}\s")  # between a move and its message
_CLAUSE = re.compile(r"[,:]\s|\s[-\u2013\u2014]{1,3}\s")
_PLAYER = re.compile(r"\bplayer[\s_#-]{0,3}([0-9]{1,3})\b", re.IGNORECASE)
_HEDGE = re.compile(
    r"\b(?:if|unless|when|would|could|should|might|may|not|never|cannot|until|without"
    r"|instead|rather|or|whether)\b|n['\u2019]t\b",
    re.IGNORECASE,
)
# What may stand before a move in its sentence: "Okay, my final answer is", "I will".
_LEAD = (
    r"(?P<greeting>(?:(?:well|okay|ok|so|then|yes|yeah|sure|fine|alright|now|thus|therefore|hence"
    r"|thanks|thank you|hello|hi|hey|great|good|deal|please)\b[\s,:!]{0,3}){0,4})"
    r"(?:(?:(?:the|my|our|final|next|chosen|best|legal)\s){0,3}"
    r"(?:action|answer|move|choice|decision|response|reply|message|turn|play)"
    r"\s?(?:is|:|=|would be|will be|-)?\s?(?:to\s)?)?"
    r"(?:(?:I|we)(?:['\u2019](?:ll|d|m))?\s(?:(?:will|shall|would like|want|wish|choose|"
    r"choice|decide|decided|have|chosen|am|going|go|hereby|now|therefore|think|do|must|to"
    r"|with|for|say|answer|reply|take|pick)\s){0,5}|let(?:\sme|\sus|['\u2019]s)\s)?(?:my\s)?[:\s]?"
)
_OPENING = re.compile(f"^{_LEAD}", re.IGNORECASE)
_FILLED = re.compile(
    r"(?:,?\s(?:the|your|this|that|it|offer|deal|proposal|price|please|now|then|and|thanks"
    r"|thank you|here|for me|as my (?:action|answer|move))\b){0,4}[^\w?%/]*",
    re.IGNORECASE,
)
_REASON = re.compile(
    r"\s?(?:[,:;(\u2013\u2014]|-+\s)\s?(?!\d|player_|or\b|not\b|but\b)(?=.*\w)"
    r"|\s(?:because|since|as|for|so|to|but|with|due|given|is(?! not| no))\b",
    re.IGNORECASE,
)
_OPEN_TO_DOUBT = re.compile(r"\b(?:if|unless|until|whether|or)\b", re.IGNORECASE)
_BEFORE = r"(?<!\w)(?<![\d][.,/])(?<!(?<!\w)-)"  # also not after a sign
_AFTER = r"(?!\w)(?![.,/]\d)(?! ?%)"
_DENIED = re.compile(
    r"(?:\b(?:not|never|cannot|without|avoid|instead of|rather than)|n['\u2019]t)"
    r"(?: (?:to|want|going|like|will|a|the)){0,2} $"
)

# "play my card 1" is "play 1"
_KIND = r"(?:(?:the |my |your )?(?:card|slot|position|colou?r)s? (?:number )?)?"


class _Found(NamedTuple):
    """A move that a text orders: canonical text, move, and the place of its own words."""

    text: str
    move: Move | None
    span: tuple[int, int] | None  # None: its words belong to the message


class _Moves:
    """The patterns of the moves that are legal now.

    Args:
        moves: of a language game; None where actions are listed.
        legal: texts of the legal actions, where they are listed.
    """

    def __init__(self, moves: tuple[Move, ...] | None, legal: tuple[str, ...]) -> None:
        self.moves = moves
        self.silent = tuple(m for m in moves or () if m.message != "must")
        longest_first = sorted(set(map(_key, legal)), key=lambda t: (-len(t), t))
        listed = (
            "|".join(
                re.escape(text).replace(r"\ ", rf":?\s{_KIND}", 1)
                for text in longest_first
            )
            or "(?!)"
        )
        pattern = natural(self.silent) if moves is not None else f"(?P<m>{listed})"
        flags = re.IGNORECASE
        pattern = pattern or "(?!)"
        self.ordered = re.compile(rf"{_LEAD}(?:{pattern}){_AFTER}", flags)
        self.exactly = re.compile(pattern, flags)
        inside = rf"{_BEFORE}(?=(?P<all>{pattern}){_AFTER})"
        self.inside = re.compile(inside, flags)
        loud = tuple(m for m in moves or () if m.message == "must")
        self.loud = loud
        self.speech = re.compile(
            rf"\W{{0,8}}(?:{_LEAD})(?:{natural(loud) or '(?!)'})[\"*`_ ]{{0,6}}:\W{{0,8}}",
            flags,
        )

    def named(self, found: re.Match[str]) -> tuple[str, Move | None]:
        """The canonical text of a match, and its move in a language game."""
        if self.moves is None:
            return _key(
                re.sub(rf"(?<=[\s:]){_KIND}", "", _key(found["m"]), count=1)
            ), None
        move, text = restated(found, self.silent)
        return text, move

    def orders(self, text: str, own: str) -> Iterator[_Found]:
        """The moves that sentences of a text order; `own` is the name of who speaks."""
        for start, end in _sentences(text):
            said = _plain(text[start:end], own)
            if said.endswith("?"):
                continue
            if found := self.ordered.match(said):
                cut = self._cut(text, start, end, own)
                yield from self._with_rest(found, said, (start, end), cut)
                continue
            clauses = _places(_CLAUSE, text, start, end)
            if len(clauses) > 1 and not _HEDGE.search(said):
                for clause in clauses:
                    found = self.ordered.match(_plain(text[slice(*clause)], own))
                    if found and _FILLED.fullmatch(found.string, found.end()):
                        yield _Found(*self.named(found), clause)

    def _cut(self, text: str, start: int, end: int, own: str) -> int | None:
        """Where the words of "offer 40: Hello" begin; None if the move has no mark after it."""
        for cut in _MARK.finditer(text, start, end):
            found = self.ordered.fullmatch(_plain(text[start : cut.start()], own))
            if found and not found["greeting"]:  # an order and nothing else
                return cut.end()
        return None

    def _with_rest(
        self,
        found: re.Match[str],
        said: str,
        place: tuple[int, int],
        cut: int | None,
    ) -> Iterator[_Found]:
        """The order at the start of a sentence, if what follows leaves it an order."""
        (name, move), rest = self.named(found), said[found.end() :]
        if _FILLED.fullmatch(rest):
            has_words = found["greeting"] or re.search(
                r"thank|[^\x00-\xff\u2000-\u20ff\ufeff]", rest
            )
            yield _Found(name, move, None if has_words else place)
        elif (
            _REASON.match(rest)
            and not _OPEN_TO_DOUBT.search(rest)
            and not (move and _goes_on(move, rest))
        ):
            yield _Found(name, move, None if cut is None else (place[0], cut))
            for other in self.inside.finditer(rest):
                yield _Found(*self.named(other), None)

    def mentions(self, text: str) -> set[str]:
        """The moves that occur in a text and are not denied there; the longest counts."""
        text, names, end = _PLAYER.sub(r"player_\1", fold(text)), set[str](), 0
        for place in self.inside.finditer(text):
            if place.end("all") > end:  # else it is inside a longer one
                end = place.end("all")
                before = text[max(0, place.start() - 40) : place.start()]
                if place["all"] not in ("a", "i") and not _DENIED.search(before):
                    names.add(self.named(place)[0])
        return names


def _key(text: str) -> str:
    return fold(text.replace(":", " "))


_moves = lru_cache(256)(_Moves)


def _goes_on(move: Move, rest: str) -> bool:
    """Whether a list goes on with further values of a move's last field."""
    if not (rest.startswith(",") and move.fields):
        return False
    value = rf"(?:{move.fields[-1].pattern})"
    values = rest.strip(_AROUND)
    return bool(re.fullmatch(rf"{value}(?:,\s?{value})*", values, re.IGNORECASE))


def _places(
    cut: re.Pattern[str], text: str, start: int, end: int
) -> list[tuple[int, int]]:
    """The parts of a stretch of a text between matches of a pattern."""
    cuts = [
        (start, start),
        *(m.span() for m in cut.finditer(text, start, end)),
        (end, end),
    ]
    return [(one[1], two[0]) for one, two in pairwise(cuts) if one[1] < two[0]]


def _sentences(text: str) -> Iterator[tuple[int, int]]:
    """Where sentences begin and end, line by line; a bullet belongs to its sentence."""
    for line in re.finditer(r"[^\n\r\u2028\u2029]+", text):
        start, end = line.span()
        bullet = _BULLET.match(text, start, end)
        places = _places(_SENTENCE, text, bullet.end() if bullet else start, end)
        yield from ((start, places[0][1]), *places[1:]) if places else ()


def _plain(text: str, own: str = "") -> str:
    """A sentence with single blanks, without bullet, markup around and the speaker's name."""
    bullet = _BULLET.match(text)
    text = text[bullet.end() :] if bullet else text
    said = " ".join(_MARKDOWN.sub("", text).split()).strip(_AROUND)
    said = _PLAYER.sub(r"player_\1", said)
    if own and said.lower().startswith(f"{own}:"):
        said = said[len(own) + 1 :].strip(_AROUND)
    return said
