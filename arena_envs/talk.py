r"""Talk: what all games that are played in language have in common.

A game declares its moves. At its turn a player makes one move, and a message may go with it:

    text  =  [message separator] move ["."]      where the move may have a message
          |  move ":" message                    where it must have one, as in "say: hello"
    move  =  name field ...                      separated by blanks, in any case
    field =  an amount, an integer, a player, an item of a list or a word

A field has a `pattern` of its text, an upper-case `label` for rules, a `note` and `limits` for
errors. Its method `read` gives the value of a text, or None if it is out of range.

The separator is a line break or one of `. ! ? ; :`, which stays in the message. So a move of the
first form stands alone in the last line or sentence, and everything before it is the message. A
text that begins with a move of the second form is read as this move; its colon may be left out.

How a new language game uses this module:

1. It inherits `TalkGame` and declares each `Move`. Actions are `Utterance`s.
2. `moves_at` gives the moves that are allowed in a state, with which `parse` calls `read`;
   `action_text` calls `written`.
3. `legal_actions` gives a finite core of utterances, enough to play the game (`every` lists those
   of a move). Players may say more, such as other amounts and any message. A method `core_state`,
   the state with the `nearest` utterances of the core, lets the bot `core_cfr` play against them.
4. `observe` ends with the lines of `transcript`, and `rules` with `how_to_write`. A message of n
   characters fills up to 12n of the 20,000 characters of a text.
5. A message that not all seats read has an `audience`. Then `information_state` has the utterances
   `as_heard` by the seat, and `resample` may change what the seat has not heard.
6. Scripted players with styles inherit `Scripted`.

For example:

>>> from arena_envs import talk
>>> OFFER = talk.Move("offer", (talk.Amount(0, 100_00),))
>>> VOTE = talk.Move("vote", (talk.Player((1, 3)),), message="no")
>>> SAY = talk.Move("say", message="must")
>>> talk.read("Half is fair. offer $50", (OFFER, VOTE), 300)
Utterance(move='offer', values=(5000,), message='Half is fair.', audience=())
>>> talk.every(VOTE)[1]
Utterance(move='vote', values=(3,), message='', audience=())
>>> said = talk.read("Say I am no wolf", (SAY, VOTE), 300, audience=(1, 3))
>>> talk.written(said, (SAY, VOTE))
'say: I am no wolf'
>>> list(talk.transcript([said], 3, lambda turn: "Night 1: player_1 said"))
['Night 1: player_1 said: "I am no wolf"']
>>> list(talk.transcript([said], 2, lambda turn: "Night 1: a wolf spoke"))
['Night 1: a wolf spoke.']
"""

import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from math import inf
from typing import Any, ClassVar, Literal, NamedTuple

from arena_envs.game import A, BaseGame, IllegalAction, S, counted
from arena_envs.hostile import quoted

CENT = 100  # amounts are whole hundredths
MAX_MOVE = 200  # characters at the end of a text that are searched for the move


class _Field:
    """What most fields have in common."""

    note: ClassVar[str] = ""

    def written(self, value: Any) -> str:
        return str(value)


@dataclass(frozen=True)
class Amount(_Field):
    """Money from `low` to `high`, in hundredths; written with at most two decimals."""

    low: int
    high: int
    label: str = "AMOUNT"
    pattern = r"\$?[0-9]{1,9}(?:\.[0-9]{1,2})?"
    note = ", with at most two decimals,"

    def read(self, text: str) -> int | None:
        whole, _, part = text.lstrip("$").partition(".")
        amount = CENT * int(whole) + int(part.ljust(2, "0"))
        return amount if self.low <= amount <= self.high else None

    def written(self, value: int) -> str:
        return money(value)

    @property
    def limits(self) -> str:
        return _limits(money(self.low), money(self.high))

    @property
    def example(self) -> int:
        return min(max(self.low, CENT), self.high)


@dataclass(frozen=True)
class Integer(_Field):
    """An integer from `low` to `high`."""

    low: int
    high: int
    label: str = "NUMBER"
    pattern = r"-?[0-9]{1,9}"

    def read(self, text: str) -> int | None:
        return value if self.low <= (value := int(text)) <= self.high else None

    @property
    def limits(self) -> str:
        return _limits(str(self.low), str(self.high))

    @property
    def example(self) -> int:
        return min(max(self.low, 1), self.high)

    @property
    def values(self) -> Sequence[int]:
        return range(self.low, self.high + 1)


@dataclass(frozen=True)
class Player(_Field):
    """One of some seats, written `player_0` and so on; the value is the seat."""

    seats: tuple[int, ...]
    label: str = "PLAYER"
    pattern = r"player_[0-9]{1,3}"

    def read(self, text: str) -> int | None:
        return seat if (seat := int(text[7:])) in self.seats else None

    def written(self, value: int) -> str:
        return f"player_{value}"

    @property
    def limits(self) -> str:
        return f"that names {' or '.join(map(self.written, self.seats))}"

    @property
    def example(self) -> int:
        return self.seats[0]

    @property
    def values(self) -> Sequence[int]:
        return self.seats


@dataclass(frozen=True)
class OneOf(_Field):
    """One of some items, each of ASCII words; the value is the item as it is listed."""

    items: tuple[str, ...]
    label: str = "ITEM"
    limits = ""  # a text with another item is no move

    @property
    def pattern(self) -> str:
        longest_first = sorted(self.items, key=len, reverse=True)
        return "|".join(
            r"\s+".join(map(re.escape, item.split())) for item in longest_first
        )

    def read(self, text: str) -> str | None:
        folded = " ".join(text.split()).lower()
        return next((item for item in self.items if item.lower() == folded), None)

    @property
    def example(self) -> str:
        return self.items[0]

    @property
    def values(self) -> Sequence[str]:
        return self.items


@dataclass(frozen=True)
class Word(_Field):
    """A word of `low` to `high` letters a to z; the value is in lower case."""

    low: int = 1
    high: int = 20
    label: str = "WORD"
    pattern = "[a-z]{1,100}"

    def read(self, text: str) -> str | None:
        return text.lower() if self.low <= len(text) <= self.high else None

    @property
    def limits(self) -> str:
        return f"of {self.low} to {self.high} letters"

    @property
    def example(self) -> str:
        return "abcdefghijklmnopqrstuvwxyz"[: max(self.low, 3)]


Field = Amount | Integer | Player | OneOf | Word


def money(amount: int) -> str:
    """Hundredths as money.

    >>> money(4000), money(1250)
    ('40', '12.50')
    """
    whole, part = divmod(amount, CENT)
    return f"{whole}.{part:02d}" if part else str(whole)


def to_closing_brace(text: str) -> str | None:
    """The text before the first closing brace without an opening one; None without."""
    depth = 1
    for brace in re.finditer("[{}]", text):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return text[: brace.start()]
    return None


def _limits(low: str, high: str) -> str:
    return f"of at most {high}" if low == "0" else f"from {low} to {high}"


class Utterance(NamedTuple):
    """An action of a language game.

    Attributes:
        move: name of the move.
        values: values of its fields, in order; amounts are in hundredths.
        message: free words; may be empty.
        audience: seats that read the message, the speaker among them; empty: all seats.
    """

    move: str
    values: tuple[Any, ...] = ()
    message: str = ""
    audience: tuple[int, ...] = ()


@dataclass(frozen=True)
class Move:
    """A move.

    Attributes:
        name: one word of letters a to z, which is also a noun.
        fields: what follows the name.
        message: "may" or "no": whether a message may stand before the move; "must": a message
            follows the move.
    """

    name: str
    fields: tuple[Field, ...] = ()
    message: Literal["may", "must", "no"] = "may"

    @property
    def noun(self) -> str:
        return f"{'an' if self.name[0] in 'aeiou' else 'a'} {self.name}"


def read(
    text: str, moves: tuple[Move, ...], max_message: int, audience: tuple[int, ...] = ()
) -> Utterance:
    """The utterance of a text, by the grammar of `talk`, in time linear in its length.

    Args:
        text: anything.
        moves: the moves that are allowed now.
        max_message: longest message in characters; 0: no message.
        audience: of the utterance.

    Raises:
        IllegalAction: the text does not follow the grammar, a value is out of range, or the
            message is too long, missing or not allowed. It says what was wanted and what came.
    """
    text = text.strip()
    before, after = _patterns(moves)
    if match := before.match(text):
        message = text[match.end() :]
    elif match := after.search(text, max(0, len(text) - MAX_MOVE)):
        message = text[: max(0, match.end("mark"))]
    else:
        raise IllegalAction(f"want {_wording(moves, max_message)}, got {text[-80:]!r}")
    # half a surrogate pair cannot be written to a record
    message = message.strip().encode("utf-8", "replace").decode("utf-8")
    groups = match.groupdict()
    index = next(i for i in range(len(moves)) if groups.get(f"m{i}"))
    move = moves[index]
    _check_message(move, message, max_message)
    texts = [groups[f"m{index}f{number}"] for number in range(len(move.fields))]
    return Utterance(move.name, _values(move, texts), message, audience)


@lru_cache(1024)
def _patterns(moves: tuple[Move, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """The patterns of a move that stands before its message, and of one that stands after it."""
    forms: dict[bool, list[str]] = {True: [], False: []}
    for index, move in enumerate(moves):
        fields = [
            rf"\s+(?P<m{index}f{number}>{field.pattern})"
            for number, field in enumerate(move.fields)
        ]
        pattern = f"(?P<m{index}>{move.name}{''.join(fields)})"
        forms[move.message == "must"].append(pattern)
    before, after = ("|".join(forms[must]) or "(?!)" for must in (True, False))
    flags = re.IGNORECASE | re.ASCII
    return (
        re.compile(rf"(?:{before})(?:\s*:|\s|\Z)", flags),
        re.compile(rf"(?:\A|(?P<mark>[\n\r.!?;:]))\s*(?:{after})\s*\.?\Z", flags),
    )


_GAP = r"(?:[\s:=#,($]|(?:of|for|to|you|the|an?|and|number|on|is{labels})\s){{1,6}}"
_UNIT = r"(?:\s?(?:dollars?|coins?|points?|usd|eur|euros?|%s|[$\u20ac\u00a3)])){0,2}"


@lru_cache(256)
def natural(moves: tuple[Move, ...]) -> str:
    """A pattern of moves as people write them, such as "offer: $40" or "vote for player_3".

    For a text with single blanks, in any case. `restated` tells what a match means.
    """
    forms = []
    for index, move in enumerate(moves):
        form = move.name
        for number, field in enumerate(move.fields):
            label = field.label.lower().rstrip("s") + "s?"
            pattern = field.pattern.replace("player_", "(?:player_)?")
            also = "|it|that|it['\u2019]s" if isinstance(field, Word) else ""
            form += _GAP.format(labels=f"|{label}{also}")
            form += rf"(?P<m{index}f{number}>{pattern})(?!\w|[.,/]\d)"
            form += _UNIT % label if isinstance(field, Amount | Integer) else ""
        forms.append(f"(?P<m{index}>{form})")
    return "|".join(forms)


def restated(match: re.Match[str], moves: tuple[Move, ...]) -> tuple[Move, str]:
    """The move of a match of `natural`, and its canonical text.

    The values are as they were written, also those that are out of range.
    """
    groups = match.groupdict()
    index = next(i for i in range(len(moves)) if groups[f"m{i}"])
    move, texts = moves[index], []
    for number, field in enumerate(move.fields):
        text = " ".join(groups[f"m{index}f{number}"].lstrip("$").split()).lower()
        if isinstance(field, Player):
            text = f"player_{text.removeprefix('player_')}"
        value: Any = field.read(text)
        texts.append(text if value is None else field.written(value))
    return move, " ".join([move.name, *texts])


def _check_message(move: Move, message: str, max_message: int) -> None:
    if move.message == "must" and not message:
        raise IllegalAction(f'want a message after "{example(move)}:", got none')
    if message and (move.message == "no" or not max_message):
        raise IllegalAction(f"want no message with the action, got {message[:80]!r}")
    if len(message) > max_message:
        raise IllegalAction(
            f"want a message of at most {max_message} characters, got {len(message)}"
        )


def _values(move: Move, texts: Sequence[str]) -> tuple[Any, ...]:
    values = []
    for field, text in zip(move.fields, texts, strict=True):
        value = field.read(text)
        if value is None:
            noun = (
                move.noun if len(move.fields) == 1 else f"{field.label} of {move.noun}"
            )
            raise IllegalAction(f"want {noun} {field.limits}, got {text}")
        values.append(value)
    return tuple(values)


def _wording(moves: Sequence[Move], max_message: int) -> str:
    """The form that a text should have had, as the error says it."""
    last = [move for move in moves if move.message != "must"]
    parts = [f'"{example(move)}:" and a message' for move in moves if move not in last]
    parts += [
        f'{move.noun} such as "{example(move)}"{"".join(f.note for f in move.fields)}'
        for move in last
        if move.fields
    ]
    if plain := [f'"{move.name}"' for move in last if not move.fields]:
        parts.append(f"the answer {' or '.join(plain)}")
    where = ""
    if last:
        may = max_message and any(move.message == "may" for move in last)
        where = " alone in the last line" if may else " and nothing else"
    return " or ".join(parts) + where


def written(utterance: Utterance, moves: Sequence[Move]) -> str:
    """The canonical text of an utterance, which `read` reads; `moves` has its move."""
    move = next(move for move in moves if move.name == utterance.move)
    text = _written_move(move, utterance.values)
    if not utterance.message:
        return text
    if move.message == "must":
        return f"{text}: {utterance.message}"
    return f"{utterance.message}\n{text}"


def _written_move(move: Move, values: Sequence[Any]) -> str:
    fields = zip(move.fields, values, strict=True)
    return " ".join([move.name, *(field.written(value) for field, value in fields)])


def example(move: Move) -> str:
    """A move as it may be written.

    >>> from arena_envs.talk import Integer
    >>> example(Move("claim", (Integer(0, 2, "BOOKS"), Integer(0, 3, "HATS"))))
    'claim 1 1'
    """
    return _written_move(move, [field.example for field in move.fields])


def syntax(move: Move) -> str:
    """A move with the labels of its fields.

    >>> from arena_envs.talk import Integer
    >>> syntax(Move("claim", (Integer(0, 2, "BOOKS"), Integer(0, 3, "HATS"))))
    'claim BOOKS HATS'
    """
    return " ".join([move.name, *(field.label for field in move.fields)])


def every(move: Move) -> list[Utterance]:
    """All utterances of a move without amounts and free words, ascending, without messages."""
    ranges = [field.values for field in move.fields]  # type: ignore[union-attr]
    return [Utterance(move.name, values) for values in product(*ranges)]


def nearest(
    utterances: Sequence[Utterance], core: Sequence[Utterance]
) -> tuple[Utterance, ...]:
    """For each utterance the one of a finite core with the same move and the closest values.

    The distance is the sum of the differences of numbers; other values that differ count 1.

    >>> nearest([Utterance("bid", (49,), "Hi")], [Utterance("bid", (n,)) for n in (0, 50)])
    (Utterance(move='bid', values=(50,), message='', audience=()),)
    """

    def distance(a: Utterance, b: Utterance) -> float:
        if a.move != b.move:
            return inf
        pairs = zip(a.values, b.values, strict=True)
        return sum(
            float(abs(x - y) if isinstance(x, int) else x != y) for x, y in pairs
        )

    return tuple(
        min(core, key=partial(distance, utterance)) for utterance in utterances
    )


def is_heard(utterance: Utterance, seat: int) -> bool:
    """Whether a seat reads the message of an utterance."""
    return not utterance.audience or seat in utterance.audience


def as_heard(utterances: Sequence[Utterance], seat: int) -> tuple[Utterance, ...]:
    """The utterances without the messages that a seat does not read."""
    return tuple(
        utterance if is_heard(utterance, seat) else utterance._replace(message="")
        for utterance in utterances
    )


def transcript(
    utterances: Sequence[Utterance],
    seat: int,
    full_line: Callable[[int], str],
    *,
    turns: Sequence[int] | None = None,
    latest: int = 3,
    brief: Callable[[int], str] | None = None,
    num_listed: int | None = 6,
) -> Iterator[str]:
    """The past as a seat reads it: a line about earlier turns, then one for each of the latest.

    Messages are `quoted`; everything else is text of the game.

    Args:
        utterances: all utterances.
        seat: the reader.
        full_line: what happened in a turn, without message and full stop. A line that ends in "said"
            goes on with the message.
        turns: indices of the utterances that the seat knows of; None: all.
        latest: number of turns that are shown in full.
        brief: what happened in an earlier turn, in a few words, or nothing; None: earlier turns
            are only counted.
        num_listed: earlier turns that are listed, the latest ones; None: all.
    """
    listed_turns = range(len(utterances)) if turns is None else turns
    start = max(0, len(listed_turns) - latest)
    if brief is None:
        if start:
            yield f"Earlier: {counted(start, 'turn')}, not shown."
    elif texts := [text for turn in listed_turns[:start] if (text := brief(turn))]:
        more = 0 if num_listed is None else max(0, len(texts) - num_listed)
        yield f"Earlier: {f'{more} more, ' if more else ''}{', '.join(texts[more:])}."
    for turn in listed_turns[start:]:
        line, utterance = full_line(turn), utterances[turn]
        if utterance.message and is_heard(utterance, seat):
            line += ": " if line.endswith("said") else ", and said: "
            yield line + quoted(utterance.message)
        else:
            yield f"{line}."


def num_in_full(max_message: int) -> int:
    """Messages that a text has room for: at least 3, or 12,000 characters, 12 for each quoted one."""
    return max(3, 1_000 // max_message)


def named(player: int, seat: int) -> str:
    """A player as a seat reads of it: "you" or "player_1"."""
    return "you" if player == seat else f"player_{player}"


def to_move(player: int, seat: int, task: str) -> str:
    """A sentence: the player whose turn it is, as a seat reads of it, and what it may do."""
    mover = "You are" if player == seat else f"player_{player} is"
    return f"{mover} to move: {task}."


def rounds_told(
    utterances: Sequence[Utterance],
    seat: int,
    full_line: Callable[[int], str],
    brief: Callable[[int], str],
    latest: int = 2,
) -> Iterator[str]:
    """The `transcript` of rounds of two turns: `brief` tells an earlier round, counted from 0."""
    return transcript(
        utterances,
        seat,
        full_line,
        latest=2 * latest + len(utterances) % 2,
        brief=lambda turn: "" if turn % 2 else brief(turn // 2),
        num_listed=None,
    )


def how_to_write(
    moves: Sequence[Move], max_message: int, hearers: str = "the other player"
) -> str:
    """The paragraph of the rules about messages; the reply format says where the action stands."""
    free = [move for move in moves if move.message != "no"]
    if not max_message or not free:
        return "Your action has no message."
    reads = "read" if hearers.endswith("s") else "reads"
    reader = f"{hearers[0].upper()}{hearers[1:]} {reads}"
    texts = [
        f'To speak, write "{syntax(move)}:" and then a message of at most {max_message} '
        f"characters. {reader} it in quotation marks."
        for move in free
        if move.message == "must"
    ]
    if may := [f'"{move.name}"' for move in free if move.message == "may"]:
        some = len(may) < sum(move.message != "must" for move in moves)
        when = f"With {' or '.join(may)}, you" if some else "You"
        texts.append(
            f"{when} may also say something to {hearers}: write a message of at most "
            f"{max_message} characters, and then your action in a line of its own. "
            f"{reader} your message in quotation marks."
        )
    return " ".join(texts)


class TalkGame(BaseGame[S, A]):
    """Defaults of a language game.

    A subclass declares the moves of each state by `moves_at`, and has the parameter
    `max_message`. A parameter `messages` may switch messages off.
    """

    num_actions = None
    max_message: int
    messages: bool = True

    @property
    def longest(self) -> int:
        """Longest message in characters; 0 without messages."""
        return self.max_message if self.messages else 0

    def moves_at(self, state: S) -> tuple[Move, ...]:
        """The moves of the seat to move."""
        raise NotImplementedError

    def parse(self: Any, state: S, text: str) -> Any:
        if self.current_player(state) < 0:
            raise IllegalAction("nobody is to move")
        return read(text, self.moves_at(state), self.longest)


class PairedTurns(TalkGame[S, A]):
    """Defaults of a language game of `num_rounds` rounds of two turns each."""

    num_rounds: int
    num_players = 2

    @property
    def max_turns(self) -> int:
        return 2 * self.num_rounds


def with_words(game: Any, utterance: Utterance, words: str) -> Utterance:
    """The utterance with words as its message, where the game allows as many."""
    return (
        utterance._replace(message=words) if len(words) <= game.longest else utterance
    )


@dataclass(frozen=True)
class Scripted:
    """A scripted player of a language game, in one of its styles.

    A subclass names its `game` and its `styles`, and has a method `reply`.

    Args:
        style: one of `styles`.

    Raises:
        ValueError: another style; when it plays, another game.
    """

    style: str

    game: ClassVar[type]
    styles: ClassVar[Iterable[str]]

    def __post_init__(self) -> None:
        if self.style not in (style_names := list(self.styles)):
            raise ValueError(
                f"want a style among {', '.join(style_names)}, got {self.style!r:.80}"
            )

    def __call__(self, game: Any, state: Any, rng: random.Random) -> Utterance:
        if not isinstance(game, self.game):
            raise ValueError(f"want {self.game.__name__}, got {game!r}")
        return self.reply(game, state, rng)

    def reply(self, game: Any, state: Any, rng: random.Random) -> Utterance:
        """An utterance of the seat to move."""
        raise NotImplementedError
