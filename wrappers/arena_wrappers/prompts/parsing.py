r"""Parsing: from a policy's raw reply to a legal action, or to an `InvalidReply`.

A reply is hostile input: no text, of any length or alphabet, raises an exception here.
Only the text after the reasoning is read, whose marks `arena_wrappers.prompts.reasoning` lists.
`arena_wrappers.prompts.formats` says where the answer stands.

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

import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from arena_envs.game import AnyGame, IllegalAction, fold
from arena_envs.talk import Word, natural, restated
from arena_wrappers.prompts.formats import MAX_ANSWER, InvalidReply, reply_format_named
from arena_wrappers.prompts.json_fields import _named_fields
from arena_wrappers.prompts.moves import (
    _AROUND,
    _MARKDOWN,
    _OPENING,
    _PLAYER,
    _Found,
    _key,
    _Moves,
    _moves,
    _plain,
    _sentences,
)
from arena_wrappers.prompts.reasoning import without_reasoning

MAX_CHOICE = 10  # actions that a refusal lists
MAX_FAULT = 200  # characters of a game's reason for refusing an answer
UNFINISHED = "The reply ends within its reasoning. End the reasoning, then answer."

Parsing = Literal["tolerant", "strict"]


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


MAX_ANSWERS = 8  # marked answers that are read


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
