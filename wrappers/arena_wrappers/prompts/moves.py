"""The moves that a text orders or mentions, in a game's own words."""

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from arena_envs.game import fold
from arena_envs.talk import Move, natural, restated

SURROUNDING = " \t\n\r*_`'\"()[]{}<>.,;:!\u201c\u201d\u2018\u2019\u00ab\u00bb"
MARKDOWN = re.compile(
    r"[*`\"\u201c\u201d\u00ab\u00bb~|]|\\(?:text|boxed|mathrm|textbf|mathbf)\b"
)
_BULLET = re.compile(r"\s*(?:(?:[-*+\u2022>]|#{1,6}|\(?\d{1,2}[.)])\s+){1,3}")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+")
_MARK = re.compile(r"[:;]\s|\s[-\u2013\u2014]{1,3}\s")  # between a move and its message
_CLAUSE = re.compile(r"[,:]\s|\s[-\u2013\u2014]{1,3}\s")
PLAYER = re.compile(r"\bplayer[\s_#-]{0,3}([0-9]{1,3})\b", re.IGNORECASE)
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
OPENING = re.compile(f"^{_LEAD}", re.IGNORECASE)
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

# What follows an "a" or "i" that is a move's letter: "A or B", "option A."; else it is a word
_LETTER = re.compile(
    r"\s*(?:$|[.;:!?/)\]}*`\"]|(?:or|and|nor|is|are|over|than)\b|[a-z]\b(?!['\u2019]))"
)

# "play my card 1" is "play 1"
_KIND = r"(?:(?:the |my |your )?(?:card|slot|position|colou?r)s? (?:number )?)?"


class Order(NamedTuple):
    """A move that a text orders: canonical text, move, and the place of its own words."""

    text: str
    move: Move | None
    span: tuple[int, int] | None  # None: its words belong to the message


class MovePatterns:
    """The patterns of the moves that are legal now.

    Args:
        moves: of a language game; None where actions are listed.
        legal: texts of the legal actions, where they are listed.
    """

    def __init__(self, moves: tuple[Move, ...] | None, legal: tuple[str, ...]) -> None:
        self.moves = moves
        self.silent = tuple(m for m in moves or () if m.message != "must")
        longest_first = sorted(set(map(folded_move, legal)), key=lambda t: (-len(t), t))
        flags = re.IGNORECASE
        if moves is None:
            texts = [
                re.escape(text).replace(r"\ ", rf":?\s{_KIND}", 1)
                for text in longest_first
            ]
            pattern = f"(?P<m>{'|'.join(texts) or '(?!)'})"
        else:
            pattern = natural(self.silent) or "(?!)"
        self.order_pattern = re.compile(rf"{_LEAD}(?:{pattern}){_AFTER}", flags)
        self.whole_pattern = re.compile(pattern, flags)
        inside = rf"{_BEFORE}(?=(?P<all>{pattern}){_AFTER})"
        self.mention_pattern = re.compile(inside, flags)
        loud = tuple(m for m in moves or () if m.message == "must")
        self.loud = loud
        self.speech_pattern = re.compile(
            rf"\W{{0,8}}(?:{_LEAD})(?:{natural(loud) or '(?!)'})[\"*`_ ]{{0,6}}:\W{{0,8}}",
            flags,
        )

    def canonical(self, match: re.Match[str]) -> tuple[str, Move | None]:
        """The canonical text of a match, and its move in a language game."""
        if self.moves is None:
            return folded_move(
                re.sub(rf"(?<=[\s:]){_KIND}", "", folded_move(match["m"]), count=1)
            ), None
        move, text = restated(match, self.silent)
        return text, move

    def orders(self, text: str, speaker: str) -> Iterator[Order]:
        """The moves that sentences of a text order; `speaker` is the name of who speaks."""
        for start, end in sentence_spans(text):
            sentence = plain_sentence(text[start:end], speaker)
            if sentence.endswith("?"):
                continue
            if match := self.order_pattern.match(sentence):
                cut = self._cut(text, start, end, speaker)
                yield from self._order_and_mentions(match, sentence, (start, end), cut)
                continue
            clauses = _spans_between(_CLAUSE, text, start, end)
            if len(clauses) > 1 and not _HEDGE.search(sentence):
                for clause in clauses:
                    match = self.order_pattern.match(
                        plain_sentence(text[slice(*clause)], speaker)
                    )
                    if match and _FILLED.fullmatch(match.string, match.end()):
                        yield Order(*self.canonical(match), clause)

    def _cut(self, text: str, start: int, end: int, speaker: str) -> int | None:
        """Where the words of "offer 40: Hello" begin; None if the move has no mark after it."""
        for cut in _MARK.finditer(text, start, end):
            match = self.order_pattern.fullmatch(
                plain_sentence(text[start : cut.start()], speaker)
            )
            if match and not match["greeting"]:  # an order and nothing else
                return cut.end()
        return None

    def _order_and_mentions(
        self,
        match: re.Match[str],
        sentence: str,
        place: tuple[int, int],
        cut: int | None,
    ) -> Iterator[Order]:
        """The order at the start of a sentence, if what follows leaves it an order."""
        (name, move), remainder = self.canonical(match), sentence[match.end() :]
        if _FILLED.fullmatch(remainder):
            has_words = match["greeting"] or re.search(
                r"thank|[^\x00-\xff\u2000-\u20ff\ufeff]", remainder
            )
            yield Order(name, move, None if has_words else place)
        elif (
            _REASON.match(remainder)
            and not _OPEN_TO_DOUBT.search(remainder)
            and not (move and _lists_values(move, remainder))
        ):
            yield Order(name, move, None if cut is None else (place[0], cut))
            for mention in self.mention_pattern.finditer(remainder):
                yield Order(*self.canonical(mention), None)

    def mentions(self, text: str) -> set[str]:
        """The moves that occur in a text and are not denied there; the longest counts."""
        text, names, end = PLAYER.sub(r"player_\1", fold(text)), set[str](), 0
        for place in self.mention_pattern.finditer(text):
            if place.end("all") > end:  # else it is inside a longer one
                end = place.end("all")
                before = text[max(0, place.start() - 40) : place.start()]
                letter = place["all"] not in ("a", "i") or _LETTER.match(text, end)
                if letter and not _DENIED.search(before):
                    names.add(self.canonical(place)[0])
        return names


def folded_move(text: str) -> str:
    """A move's text as moves are compared: without case, colons and runs of white space."""
    return fold(text.replace(":", " "))


patterns_of = lru_cache(256)(MovePatterns)


def _lists_values(move: Move, remainder: str) -> bool:
    """Whether a list goes on with further values of a move's last field."""
    if not (remainder.startswith(",") and move.fields):
        return False
    value = rf"(?:{move.fields[-1].pattern})"
    values = remainder.strip(SURROUNDING)
    return bool(re.fullmatch(rf"{value}(?:,\s?{value})*", values, re.IGNORECASE))


def _spans_between(
    cut: re.Pattern[str], text: str, start: int, end: int
) -> list[tuple[int, int]]:
    """The parts of a stretch of a text between matches of a pattern."""
    cuts = [
        (start, start),
        *(m.span() for m in cut.finditer(text, start, end)),
        (end, end),
    ]
    return [
        (cut_before[1], cut_after[0])
        for cut_before, cut_after in pairwise(cuts)
        if cut_before[1] < cut_after[0]
    ]


def sentence_spans(text: str) -> Iterator[tuple[int, int]]:
    """Where sentences begin and end, line by line; a bullet belongs to its sentence."""
    for line in re.finditer(r"[^\n\r\u2028\u2029]+", text):
        start, end = line.span()
        bullet = _BULLET.match(text, start, end)
        places = _spans_between(_SENTENCE, text, bullet.end() if bullet else start, end)
        if places:
            yield start, places[0][1]
            yield from places[1:]


def plain_sentence(text: str, speaker: str = "") -> str:
    """A sentence with single blanks, without bullet, markup around and the speaker's name."""
    bullet = _BULLET.match(text)
    text = text[bullet.end() :] if bullet else text
    sentence = " ".join(MARKDOWN.sub("", text).split()).strip(SURROUNDING)
    sentence = PLAYER.sub(r"player_\1", sentence)
    if speaker and sentence.lower().startswith(f"{speaker}:"):
        sentence = sentence[len(speaker) + 1 :].strip(SURROUNDING)
    return sentence
