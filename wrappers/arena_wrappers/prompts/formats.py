r"""Reply formats: from a policy's raw reply to a legal action, or to an `InvalidReply`.

A reply is hostile input: no text, of any length or alphabet, raises an exception here.
Only the text after the reasoning is read, whose marks `arena_wrappers.prompts.reasoning` lists.
The formats differ in the place of the answer:

- `"answer"`: between `<answer>` and `</answer>`, exactly once;
- `"boxed"`: in `\boxed{...}`, exactly once, braces inside it in pairs;
- `"bracket"`: in `[...]`, exactly once;
- `"bare"`: the whole text.

In language games the answer includes the message to the other players. They do not read the
rest of the reply, which may be reasoning.

The answer must be a legal action's canonical text, whatever its case and white space, or
a text that the game's own `parse` reads. This is all of strict parsing.

Tolerant parsing, the default, also reads what people and small models write, by fixed rules:

1. Only the text after the reasoning is read. Reasoning that is not closed is invalid.
2. A reply without a marked answer is an answer as a whole. Several marked answers must name
   the same action.
3. A sentence orders a move if it is the move, or starts with the move and a reason. Markdown,
   quotes, bullets, the speaker's own name, labels such as `Final answer:` and openings such as
   `I will` may stand around it. A question orders nothing. "Player 3" is player_3, "$40" is 40.
4. Where actions are listed and none is ordered, the answer is searched for their texts, as
   whole words. The longest counts. An action "2" is not found in 2.5, -2, 2,000 or 2%, no
   action after "not", "never" or "n't", and "a" is an article.
5. In language games all other words are the message. A message that the move does not take is
   delivered to nobody; the record has it. Where a message is all that a player may send, any
   text is one. Values alone, such as "40", are read where they fit one move only.
6. Different moves make a reply ambiguous.
7. In an answer with a JSON object, the field `action` is the answer, and `message` the message;
   `answer`, `move`, `choice`, `decision`, `response` and `reply` mean the same as `action`. No
   other field is read, so that `"reason": "pass would be weak"` names no move.

"bet" in "I would bet if I held K" counts. Use strict parsing to measure how well a policy keeps
a format.
"""

import ast
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, pairwise
from typing import Any, Literal, NamedTuple, Protocol

from arena_envs.checks import check_known
from arena_envs.game import AnyGame, IllegalAction, fold
from arena_envs.talk import Move, Word, natural, restated, to_closing_brace
from arena_wrappers.prompts.reasoning import without_reasoning

MAX_ANSWER = 4000  # characters
MAX_CHOICE = 10  # actions that a refusal lists
MAX_FAULT = 200  # characters of a game's reason for refusing an answer
UNFINISHED = "The reply ends within its reasoning. End the reasoning, then answer."

Parsing = Literal["tolerant", "strict"]
Instead = Literal[
    "empty", "reasoning", "refusal", "tool_call", "content_filter", "context_length"
]
Reason = Literal["format", "illegal", "ambiguous", "overlong"] | Instead


@dataclass(frozen=True)
class InvalidReply:
    """The reason why a reply is no action.

    Attributes:
        reason: `"format"` (no answer found), `"illegal"` (the answer names no legal
            action), `"ambiguous"` (more than one answer), `"overlong"` (cut at a limit, or
            an answer beyond `MAX_ANSWER` characters), `"reasoning"` (the reply ends within its
            reasoning), or why a model sent no text: `"empty"`, `"refusal"`, `"tool_call"`,
            `"content_filter"` or `"context_length"`.
        detail: the reason in a sentence, without a quotation of the reply.
    """

    reason: Reason
    detail: str


class ReplyFormat(Protocol):
    """The place of the answer in a reply."""

    @property
    def instruction(self) -> str:
        """The instruction on how to reply."""

    @property
    def free_instruction(self) -> str:
        """The instruction in language games, where legal actions are only examples."""

    def wrap(self, action_text: str) -> str:
        """The shortest reply with this answer."""

    def answers(self, text: str) -> list[str]:
        """All answers in the part of a reply that follows the reasoning, in order."""

    def extract(self, text: str) -> str | InvalidReply:
        """The answer if there is exactly one, else the reason why not."""


_UNHEARD = "Nobody else reads what you write outside."


@dataclass(frozen=True)
class Enclosed:
    """The answer stands between an opening and a closing mark."""

    opening: str
    closing: str

    @property
    def place(self) -> str:
        """Where the answer stands, for instructions."""
        return f"between {self.opening} and {self.closing}"

    @property
    def instruction(self) -> str:
        return (
            "Think if you like. Then give exactly one legal action, exactly as it is "
            f"listed, {self.place}."
        )

    @property
    def free_instruction(self) -> str:
        return (
            "Think if you like. Then give your action, with any message that the rules "
            f"allow, {self.place}. {_UNHEARD}"
        )

    def wrap(self, action_text: str) -> str:
        return f"{self.opening}{action_text}{self.closing}"

    def answers(self, text: str) -> list[str]:
        parts = (part.partition(self.closing) for part in text.split(self.opening)[1:])
        return [answer for answer, closed, _ in parts if closed]

    def extract(self, text: str) -> str | InvalidReply:
        opened, closed = text.count(self.opening), text.count(self.closing)
        if opened == 0 or closed == 0:
            shape = f"{self.opening}...{self.closing}"
            return InvalidReply("format", f"Write your action as {shape}.")
        if opened > 1 or closed > 1:
            return InvalidReply("ambiguous", "Write one answer, not several.")
        found = self.answers(text)
        if not found:
            return InvalidReply(
                "format", "Write the opening mark before the closing one."
            )
        return found[0]


class BoxedFormat(Enclosed):
    r"""The answer stands in `\boxed{...}`."""

    place = r"in \boxed{...}"

    def answers(self, text: str) -> list[str]:
        found = [to_closing_brace(part) for part in text.split(r"\boxed{")[1:]]
        return [answer for answer in found if answer is not None]

    def extract(self, text: str) -> str | InvalidReply:
        num_boxes, found = text.count(r"\boxed{"), self.answers(text)
        if num_boxes > 1:
            return InvalidReply("ambiguous", "Write one box, not several.")
        if not found:
            return InvalidReply("format", r"Write your action as \boxed{...}.")
        return found[0]


class BareFormat:
    """The answer is the whole reply."""

    instruction = (
        "Reply with exactly one legal action, exactly as listed, and nothing else."
    )
    free_instruction = "Reply with your action, with any message that the rules allow, and nothing else."

    def wrap(self, action_text: str) -> str:
        return action_text

    def answers(self, text: str) -> list[str]:
        return [text] if text.strip() else []

    def extract(self, text: str) -> str | InvalidReply:
        return text if text.strip() else InvalidReply("format", "The reply is empty.")


FORMATS: dict[str, ReplyFormat] = {
    "answer": Enclosed("<answer>", "</answer>"),
    "bare": BareFormat(),
    "boxed": BoxedFormat("\\boxed{", "}"),
    "bracket": Enclosed("[", "]"),
}


def reply_format_named(name: str) -> ReplyFormat:
    """The reply format of this name.

    Raises:
        ValueError: there is none.
    """
    check_known(name, FORMATS, f"unknown reply format {name!r}")
    return FORMATS[name]


def parse_reply(
    game: AnyGame,
    state: Any,
    text: str,
    reply_format: str = "answer",
    legal: Sequence[str] | None = None,
    parsing: Parsing = "tolerant",
) -> Any | InvalidReply:
    r"""The legal action that a reply names, or an `InvalidReply`; never an exception.

    Args:
        game: the rules.
        state: a state in which a seat is to move.
        text: the raw reply.
        reply_format: name of a reply format.
        legal: canonical texts of the legal actions, if they are known.
        parsing: `"tolerant"` or `"strict"`, see the head of this module.

    >>> import arena_envs
    >>> game = arena_envs.make_game("kuhn_poker")
    >>> state = game.apply(game.apply(game.initial_state(), 2), 0)
    >>> parse_reply(game, state, "<think>K is high.</think><answer> BET </answer>")
    1
    >>> parse_reply(game, state, "K is high.\nFinal answer: **Bet.**")
    1
    >>> parse_reply(game, state, "I bet or pass.").reason
    'ambiguous'
    """
    rest = after_reasoning(text)
    if isinstance(rest, InvalidReply):
        return rest
    legal = legal_texts(game, state) if legal is None else legal
    if parsing == "tolerant":
        return _read_tolerantly(game, state, rest, reply_format, legal)
    answer = reply_format_named(reply_format).extract(rest)
    if isinstance(answer, InvalidReply):
        return answer
    return action_named(game, state, answer, legal)


def after_reasoning(text: str) -> str | InvalidReply:
    """The text after the reasoning."""
    rest = without_reasoning(text)
    return InvalidReply("reasoning", UNFINISHED) if rest is None else rest


def legal_texts(game: AnyGame, state: Any) -> list[str]:
    """Canonical texts of the legal actions, in their order."""
    return [game.action_text(state, action) for action in game.legal_actions(state)]


def action_named(
    game: AnyGame, state: Any, answer: str, legal: Sequence[str] | None = None
) -> Any | InvalidReply:
    """The legal action that an answer names: by its canonical text, or by `Game.parse`."""
    if len(answer) > MAX_ANSWER:
        return InvalidReply("overlong", f"The answer exceeds {MAX_ANSWER} characters.")
    answer, actions = answer.strip(), game.legal_actions(state)
    legal = legal_texts(game, state) if legal is None else legal
    if answer in legal:  # texts may differ in case alone, as bxc3 and Bxc3 in chess
        return actions[legal.index(answer)]
    wanted = fold(answer)
    named = [
        action for action, t in zip(actions, legal, strict=True) if fold(t) == wanted
    ]
    if len(named) == 1:
        return named[0]
    if named:
        return InvalidReply("ambiguous", "The answer fits several legal actions.")
    try:
        action = game.parse(state, answer)
    except ValueError as error:  # IllegalAction, or too many digits for int()
        if game.num_actions is None and isinstance(error, IllegalAction):
            # the wanted part of the message, without the part that may quote the reply
            want = str(error).partition(", got")[0][:MAX_FAULT].replace('"', "`")
            want = want.removeprefix("want ").removeprefix("the answer ")
            return InvalidReply("illegal", f"Write {want}.")
        return InvalidReply("illegal", _choice(legal))
    if game.num_actions is not None and action not in actions:
        return InvalidReply("illegal", _choice(legal))
    return action


def _choice(legal: Sequence[str]) -> str:
    """What to write where actions are listed."""
    if len(legal) > MAX_CHOICE:
        return f"Write one of the legal actions, such as `{legal[0]}`."
    *others, last = [f"`{text}`" for text in legal]
    return f"Write {', '.join(others)} or {last}." if others else f"Write {last}."


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
MAX_ANSWERS = 8  # marked answers that are read


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


def _read_tolerantly(
    game: AnyGame, state: Any, rest: str, reply_format: str, legal: Sequence[str]
) -> Any | InvalidReply:
    """The action of the part of a reply that follows the reasoning."""
    shape = reply_format_named(reply_format)
    marked = [text for text in shape.answers(rest) if reply_format != "bare"]
    if not marked:
        for mark in ("<answer>", "</answer>"):
            rest = rest.replace(mark, " ")  # one of both, or in another format
        marked = [rest]
    has_words = game.num_actions is None
    marked = [
        value for text in marked for value in _named_fields(text, has_words) or [text]
    ]
    if len(set(marked)) > MAX_ANSWERS:
        return InvalidReply("ambiguous", "Write one answer, not several.")
    read = [_answered(game, state, text, legal) for text in dict.fromkeys(marked)]
    good = [one for one in read if not isinstance(one, InvalidReply)]
    if len(set(good)) > 1:
        return InvalidReply("ambiguous", "Write one answer, not several.")
    bad = (one for one in read if isinstance(one, InvalidReply))
    unclear = (one for one in bad if one.reason == "ambiguous")
    return next(unclear, good[0] if good else read[-1])


ACTION_FIELDS = re.compile(  # after the words that say whose it is
    "(?:final|next|chosen|selected|best|my)?(?:action|answer|move|choice|decision|response|reply)"
)
MESSAGE_FIELDS = ("message", "say", "speech")
CALL_FIELDS = ("arguments", "parameters", "args", "input")  # of a call of a function
MAX_OBJECTS = 8  # that are looked for in an answer


def _named_fields(text: str, has_words: bool) -> list[str]:
    """What the named fields of the JSON objects of an answer say; empty without such fields.

    Args:
        text: the answer.
        has_words: whether a message may go with an action.
    """
    text = text.strip()[-MAX_ANSWER:]
    if text[:1] in ("'", '"') and ":" in text:  # \boxed{...} takes the braces
        text = f"{{{text}}}"
    answers: list[str] = []
    starts = (brace.start() for brace in re.finditer("{", text))
    end = 0
    for start in islice(starts, MAX_OBJECTS):
        if start < end:
            continue
        pairs, length = _decoded(text[start:])
        end = start + length
        answers += _answers_in(pairs, has_words)
    return answers


class _Pairs(list[tuple[str, Any]]):
    """The fields of a JSON object, also those with one name."""


_decoder = json.JSONDecoder(object_pairs_hook=_Pairs)


def _decoded(text: str) -> tuple[Any, int]:
    """The object at the start of a text, in JSON or as Python writes it, and its length."""
    try:
        return _decoder.raw_decode(text)
    except (ValueError, RecursionError):
        end = text.rfind("}") + 1
    try:
        value = ast.literal_eval(text[:end])
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None, 0
    return (_Pairs(value.items()) if isinstance(value, dict) else None), end


def _answers_in(pairs: Any, has_words: bool) -> list[str]:
    """The answers of an object: its named fields, each with the message, or those of a call."""
    if isinstance(pairs, dict):
        pairs = _Pairs(pairs.items())
    if not isinstance(pairs, _Pairs):
        return []
    fields = [(re.sub(r"[\W_]", "", str(key)).lower(), value) for key, value in pairs]
    messages = (value for key, value in fields if key in MESSAGE_FIELDS and value)
    words = "\n".join(map(str, messages)) if has_words else ""
    answers = []
    for key, value in fields:
        if key not in CALL_FIELDS and not ACTION_FIELDS.fullmatch(key):
            continue
        if isinstance(value, dict | _Pairs):
            answers += _answers_in(value, has_words)
        elif key not in CALL_FIELDS:
            text = "" if value is None else str(value)
            is_bare = len(text.split()) == 1  # as "say: hello"
            parts = (
                (f"{text}: {words}" if is_bare else f"{words}\n{text}")
                if words
                else text
            )
            answers.append(parts)
    return answers


def _answered(
    game: AnyGame, state: Any, answer: str, legal: Sequence[str]
) -> Any | InvalidReply:
    """The action of one answer, by the rules of tolerant parsing."""
    if len(answer) > MAX_ANSWER and game.num_actions is not None:
        answer = answer.rstrip().rpartition("\n")[2]
    if not answer.strip():
        return InvalidReply("format", "Write your action; the reply has no answer.")
    exact = action_named(game, state, answer, legal)
    is_read = not isinstance(exact, InvalidReply)
    is_move = is_read and not getattr(exact, "message", "")  # and nothing else
    if len(answer) > MAX_ANSWER or is_move:
        return exact
    moves_at = getattr(game, "moves_at", None)  # of games that declare their moves
    if game.num_actions is None and moves_at is None:
        plain = action_named(game, state, answer.strip(_AROUND), legal)
        return exact if is_read or not answer.strip(_AROUND) else plain
    moves = None if moves_at is None else moves_at(state)
    known = _moves(moves, () if moves is not None else _named_in(answer, legal))
    own = f"player_{game.current_player(state)}"
    read = _Answer(game, state, answer, legal, known, own, exact)
    return read.listed() if moves is None else read.said()


def _named_in(answer: str, legal: Sequence[str]) -> tuple[str, ...]:
    """The texts all of whose words occur in an answer: a pattern of all 180 takes 0.1 s to make."""
    said = _PLAYER.sub(r"player_\1", fold(_MARKDOWN.sub("", answer)))
    return tuple(t for t in legal if all(word in said for word in _key(t).split()))


_SEVERAL = InvalidReply(
    "ambiguous", "The answer names several legal actions. Write one of them, once."
)


def _words(answer: str, span: tuple[int, int] | None) -> str:
    """The message: all of an answer but the move's own sentence."""
    if span is None:
        return answer.strip()
    parts = (answer[: span[0]].rstrip(" ,:-\u2013\u2014\n"), answer[span[1] :].strip())
    kept = (part for part in parts if re.search(r"\w|[^\x00-\x7f]", part))
    return "\n".join(kept).strip()


class _Answer(NamedTuple):
    """An answer that is no text of an action alone; `exact` is what strict parsing reads."""

    game: Any
    state: Any
    text: str
    legal: Sequence[str]
    known: _Moves
    own: str
    exact: Any | InvalidReply

    def named(self, text: str) -> Any | InvalidReply:
        return action_named(self.game, self.state, text, self.legal)

    def listed(self) -> Any | InvalidReply:
        """The listed action that the answer orders, or else the only one that it mentions."""
        lines, actions = self.text.strip().splitlines(), set()
        for line in dict.fromkeys((self.text, lines[0], lines[-1])):
            said = _plain(line, self.own)
            for core in dict.fromkeys((said, _OPENING.sub("", said))):
                read = self.named(core) if core else self.exact
                if not isinstance(read, InvalidReply):
                    actions.add(read)
                    break
        folded = [_key(text) for text in self.legal]
        names = {found.text for found in self.known.orders(self.text, self.own)}
        if not names and not actions:
            names = self.known.mentions(self.text)
        if any(folded.count(name) > 1 for name in names):
            return InvalidReply("ambiguous", "The answer fits several legal actions.")
        legal = self.game.legal_actions(self.state)
        actions |= {legal[folded.index(name)] for name in names}
        if len(actions) > 1:
            return _SEVERAL
        return actions.pop() if actions else self.exact

    def said(self) -> Any | InvalidReply:
        """The utterance of the answer in a language game that declares its moves."""
        answer, exact, known = self.text, self.exact, self.known
        found = list(known.orders(answer, self.own))
        names = {one.text for one in found}
        span = next((one.span for one in reversed(found) if one.span), None)
        if not isinstance(exact, InvalidReply):
            text = self.game.action_text(self.state, exact._replace(message=""))
            sentences = [_plain(answer[a:b]) for a, b in _sentences(answer)]
            others = filter(None, map(known.exactly.fullmatch, sentences))
            if any(known.named(other)[0] != text for other in others):
                return _SEVERAL
            own_words = span and answer[span[0] : span[1]].strip(" \t.")
            if names != {text} or not own_words or known.exactly.fullmatch(own_words):
                return exact  # else "Action:" or the like would be the message
        lines = (line.span() for line in re.finditer("[^\n]+", answer))
        speeches = (known.speech.match(answer, *line) for line in lines)
        speech = next(filter(None, speeches), None)
        if len(names) + bool(speech) > 1:
            return _SEVERAL
        if speech:
            name = restated(speech, known.loud)[1]
            parts = (answer[: speech.start()].strip(), answer[speech.end() :].strip())
            said = "\n".join(filter(None, parts))
            return self.named(f"{name}: {said}")
        return self.uttered(found[0], _words(answer, span)) if found else self.bare()

    def bare(self) -> Any | InvalidReply:
        """The utterance of an answer that is a message, or values, and names no move."""
        moves = self.known.moves or ()
        for only in moves if len(moves) == 1 else ():
            if not only.fields and only.message != "no":  # speech is the only move
                found = _Found(only.name, only, None)
                return self.uttered(found, self.text.strip())
        values = self.values()
        if len(values) == 1:
            return self.uttered(values[0], "")
        return _SEVERAL if len(self.known.mentions(self.text)) > 1 else self.exact

    def values(self) -> list[_Found]:
        """Moves of which the answer has the values alone, such as "40" or "player_3"."""
        found, silent, said = [], self.known.silent, _plain(self.text, self.own)
        for move in silent:
            is_open = any(isinstance(field, Word) for field in move.fields)
            if move.fields and (len(silent) == 1 or not is_open):
                pattern = re.compile(natural((move,)), re.IGNORECASE)
                is_only = is_open and len(self.known.moves or ()) == 1
                alone = _OPENING.sub("", said) if is_only else said
                if match := pattern.fullmatch(f"{move.name} {alone}"):
                    found.append(_Found(restated(match, (move,))[1], move, None))
        return found

    def uttered(self, found: _Found, words: str) -> Any | InvalidReply:
        """The utterance of a move with words; they are no message where the move takes none."""
        move = found.move
        if move is not None and (move.message == "no" or not self.game.longest):
            words = ""
        is_loud = move is not None and move.message == "must"
        text = f"{words}\n{found.text}" if words else found.text
        read = self.named(f"{found.text}: {words}" if is_loud else text)
        if isinstance(read, InvalidReply) or move is None or read.move == move.name:
            return read
        return _SEVERAL
