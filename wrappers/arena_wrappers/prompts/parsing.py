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
   action after "not", "never" or "n't". "a" and "I" before a word are no actions.
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

from arena_envs.game import (
    AnyGame,
    AnyState,
    IllegalAction,
    fold,
)
from arena_envs.talk import Word, natural, restated
from arena_wrappers.prompts.formats import MAX_ANSWER, InvalidReply, find_reply_format
from arena_wrappers.prompts.json_fields import field_answers
from arena_wrappers.prompts.moves import (
    MARKDOWN,
    OPENING,
    PLAYER,
    SURROUNDING,
    MovePatterns,
    Order,
    folded_move,
    patterns_of,
    plain_sentence,
    sentence_spans,
)
from arena_wrappers.prompts.reasoning import without_reasoning

MAX_CHOICE = 10  # actions that a refusal lists
MAX_FAULT = 200  # characters of a game's reason for refusing an answer
UNFINISHED = "The reply ends within its reasoning. End the reasoning, then answer."

Parsing = Literal["tolerant", "strict"]


def parse_reply(
    game: AnyGame,
    state: AnyState,
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
    answer_part = after_reasoning(text)
    if isinstance(answer_part, InvalidReply):
        return answer_part
    legal = legal_texts(game, state) if legal is None else legal
    if parsing == "tolerant":
        return _read_tolerantly(game, state, answer_part, reply_format, legal)
    answer = find_reply_format(reply_format).extract(answer_part)
    if isinstance(answer, InvalidReply):
        return answer
    return find_action(game, state, answer, legal)


def after_reasoning(text: str) -> str | InvalidReply:
    """The text after the reasoning."""
    answer_part = without_reasoning(text)
    return InvalidReply("reasoning", UNFINISHED) if answer_part is None else answer_part


def legal_texts(game: AnyGame, state: AnyState) -> list[str]:
    """Canonical texts of the legal actions, in their order."""
    return [game.action_text(state, action) for action in game.legal_actions(state)]


def find_action(
    game: AnyGame, state: AnyState, answer: str, legal: Sequence[str] | None = None
) -> Any | InvalidReply:
    """The legal action that an answer names: by its canonical text, or by `Game.parse`."""
    if len(answer) > MAX_ANSWER:
        return InvalidReply("overlong", f"The answer exceeds {MAX_ANSWER} characters.")
    answer, actions = answer.strip(), game.legal_actions(state)
    legal = legal_texts(game, state) if legal is None else legal
    if answer in legal:  # texts may differ in case alone, as bxc3 and Bxc3 in chess
        return actions[legal.index(answer)]
    folded = fold(answer)
    matching = [
        action for action, t in zip(actions, legal, strict=True) if fold(t) == folded
    ]
    if len(matching) == 1:
        return matching[0]
    if matching:
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
    game: AnyGame,
    state: AnyState,
    answer_part: str,
    reply_format: str,
    legal: Sequence[str],
) -> Any | InvalidReply:
    """The action of the part of a reply that follows the reasoning."""
    shape = find_reply_format(reply_format)
    answers = [text for text in shape.answers(answer_part) if reply_format != "bare"]
    if not answers:
        for mark in ("<answer>", "</answer>"):
            # one of both, or in another format
            answer_part = answer_part.replace(mark, " ")
        answers = [answer_part]
    has_words = game.num_actions is None
    answers = [
        value for text in answers for value in field_answers(text, has_words) or [text]
    ]
    if len(set(answers)) > MAX_ANSWERS:
        return InvalidReply("ambiguous", "Write one answer, not several.")
    outcomes = [
        _action_of_answer(game, state, text, legal) for text in dict.fromkeys(answers)
    ]
    actions = [outcome for outcome in outcomes if not isinstance(outcome, InvalidReply)]
    if len(set(actions)) > 1:
        return InvalidReply("ambiguous", "Write one answer, not several.")
    invalid = (outcome for outcome in outcomes if isinstance(outcome, InvalidReply))
    unclear = (outcome for outcome in invalid if outcome.reason == "ambiguous")
    return next(unclear, actions[0] if actions else outcomes[-1])


def _action_of_answer(
    game: AnyGame, state: AnyState, answer: str, legal: Sequence[str]
) -> Any | InvalidReply:
    """The action of one answer, by the rules of tolerant parsing."""
    if len(answer) > MAX_ANSWER and game.num_actions is not None:
        answer = answer.rstrip().rpartition("\n")[2]
    if not answer.strip():
        return InvalidReply("format", "Write your action; the reply has no answer.")
    exact = find_action(game, state, answer, legal)
    is_read = not isinstance(exact, InvalidReply)
    is_move = is_read and not getattr(exact, "message", "")  # and nothing else
    if len(answer) > MAX_ANSWER or is_move:
        return exact
    moves_at = getattr(game, "moves_at", None)  # of games that declare their moves
    if game.num_actions is None and moves_at is None:
        plain = find_action(game, state, answer.strip(SURROUNDING), legal)
        return exact if is_read or not answer.strip(SURROUNDING) else plain
    moves = None if moves_at is None else moves_at(state)
    patterns = patterns_of(
        moves, () if moves is not None else _mentioned_texts(answer, legal)
    )
    speaker = f"player_{game.current_player(state)}"
    reader = AnswerReader(game, state, answer, legal, patterns, speaker, exact)
    return reader.listed_action() if moves is None else reader.utterance()


def _mentioned_texts(answer: str, legal: Sequence[str]) -> tuple[str, ...]:
    """The texts all of whose words occur in an answer: a pattern of all 180 takes 0.1 s to make."""
    folded = PLAYER.sub(r"player_\1", fold(MARKDOWN.sub("", answer)))
    return tuple(
        t for t in legal if all(word in folded for word in folded_move(t).split())
    )


_SEVERAL = InvalidReply(
    "ambiguous", "The answer names several legal actions. Write one of them, once."
)


def _message_of(answer: str, span: tuple[int, int] | None) -> str:
    """The message: all of an answer but the move's own sentence."""
    if span is None:
        return answer.strip()
    parts = (answer[: span[0]].rstrip(" ,:-\u2013\u2014\n"), answer[span[1] :].strip())
    words = (part for part in parts if re.search(r"\w|[^\x00-\x7f]", part))
    return "\n".join(words).strip()


class AnswerReader(NamedTuple):
    """An answer that is no text of an action alone; `exact` is what strict parsing reads."""

    game: Any
    state: Any
    text: str
    legal: Sequence[str]
    patterns: MovePatterns
    speaker: str
    exact: Any | InvalidReply

    def find(self, text: str) -> Any | InvalidReply:
        return find_action(self.game, self.state, text, self.legal)

    def listed_action(self) -> Any | InvalidReply:
        """The listed action that the answer orders, or else the only one that it mentions."""
        lines, actions = self.text.strip().splitlines(), set()
        for line in dict.fromkeys((self.text, lines[0], lines[-1])):
            sentence = plain_sentence(line, self.speaker)
            for core in dict.fromkeys((sentence, OPENING.sub("", sentence))):
                action = self.find(core) if core else self.exact
                if not isinstance(action, InvalidReply):
                    actions.add(action)
                    break
        folded = [folded_move(text) for text in self.legal]
        names = {order.text for order in self.patterns.orders(self.text, self.speaker)}
        if not names and not actions:
            names = self.patterns.mentions(self.text)
        if any(folded.count(name) > 1 for name in names):
            return InvalidReply("ambiguous", "The answer fits several legal actions.")
        legal = self.game.legal_actions(self.state)
        actions |= {legal[folded.index(name)] for name in names}
        if len(actions) > 1:
            return _SEVERAL
        return actions.pop() if actions else self.exact

    def utterance(self) -> Any | InvalidReply:
        """The utterance of the answer in a language game that declares its moves."""
        answer, exact, patterns = self.text, self.exact, self.patterns
        orders = list(patterns.orders(answer, self.speaker))
        names = {order.text for order in orders}
        span = next((order.span for order in reversed(orders) if order.span), None)
        if not isinstance(exact, InvalidReply):
            text = self.game.action_text(self.state, exact._replace(message=""))
            sentences = [plain_sentence(answer[a:b]) for a, b in sentence_spans(answer)]
            others = filter(None, map(patterns.whole_pattern.fullmatch, sentences))
            if any(patterns.canonical(match)[0] != text for match in others):
                return _SEVERAL
            own_words = span and answer[span[0] : span[1]].strip(" \t.")
            if (
                names != {text}
                or not own_words
                or patterns.whole_pattern.fullmatch(own_words)
            ):
                return exact  # else "Action:" or the like would be the message
        lines = (line.span() for line in re.finditer("[^\n]+", answer))
        speeches = (patterns.speech_pattern.match(answer, *line) for line in lines)
        speech = next(filter(None, speeches), None)
        if len(names) + bool(speech) > 1:
            return _SEVERAL
        if speech:
            name = restated(speech, patterns.loud)[1]
            parts = (answer[: speech.start()].strip(), answer[speech.end() :].strip())
            message = "\n".join(filter(None, parts))
            return self.find(f"{name}: {message}")
        if orders:
            return self.utterance_of(orders[0], _message_of(answer, span))
        return self.bare_utterance()

    def bare_utterance(self) -> Any | InvalidReply:
        """The utterance of an answer that is a message, or values, and names no move."""
        moves = self.patterns.moves or ()
        for only in moves if len(moves) == 1 else ():
            if not only.fields and only.message != "no":  # speech is the only move
                order = Order(only.name, only, None)
                return self.utterance_of(order, self.text.strip())
        values = self.value_orders()
        if len(values) == 1:
            return self.utterance_of(values[0], "")
        return _SEVERAL if len(self.patterns.mentions(self.text)) > 1 else self.exact

    def value_orders(self) -> list[Order]:
        """Moves of which the answer has the values alone, such as "40" or "player_3"."""
        orders, silent = [], self.patterns.silent
        sentence = plain_sentence(self.text, self.speaker)
        for move in silent:
            is_open = any(isinstance(field, Word) for field in move.fields)
            if move.fields and (len(silent) == 1 or not is_open):
                pattern = re.compile(natural((move,)), re.IGNORECASE)
                is_only = is_open and len(self.patterns.moves or ()) == 1
                alone = OPENING.sub("", sentence) if is_only else sentence
                if match := pattern.fullmatch(f"{move.name} {alone}"):
                    orders.append(Order(restated(match, (move,))[1], move, None))
        return orders

    def utterance_of(self, order: Order, words: str) -> Any | InvalidReply:
        """The utterance of a move with words; they are no message where the move takes none."""
        move = order.move
        if move is not None and (move.message == "no" or not self.game.longest):
            words = ""
        if move is not None and move.message == "must":
            text = f"{order.text}: {words}"
        else:
            text = f"{words}\n{order.text}" if words else order.text
        utterance = self.find(text)
        if isinstance(utterance, InvalidReply) or move is None:
            return utterance
        return utterance if utterance.move == move.name else _SEVERAL
