r"""Talk: what all games that are played in language have in common.

A game declares its moves. At its turn a player makes one move, and a message may go with it:

    text  =  [message separator] move ["."]      where the move may have a message
          |  move ":" message                    where it must have one, as in "say: hello"
    move  =  name field ...                      separated by blanks, in any case
    field =  an amount, an integer, a player, an item of a list or a word

The separator is a line break or one of `. ! ? ; :`, which stays in the message. So a move of the
first form stands alone in the last line or sentence, and everything before it is the message. A
text that begins with a move of the second form is read as this move; its colon may be left out.

How a new language game uses this module:

1. It declares each `Move`. `num_actions` is None, and actions are `Utterance`s.
2. `parse` calls `read` with the moves that are allowed in the state; `action_text` calls `written`.
3. `legal_actions` gives a finite core of utterances, enough to play the game (`every` lists those
   of a move). Players may say more, such as other amounts and any message. A method `core_state`,
   the state with the `nearest` utterances of the core, lets the bot `core_cfr` play against them.
4. `observe` ends with the lines of `transcript`, and `rules` with `how_to_write`. A message of n
   characters fills up to 12n of the 20,000 characters of a text.
5. A message that not all seats read has an `audience`. Then `information_state` has the utterances
   `as_heard` by the seat, and `resample` may change what the seat has not heard.

For example:

>>> from arena_envs.games import _talk as talk
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

from collections.abc import Callable, Iterator, Sequence

from arena_envs.games._talk_fields import (
    CENT,
    Amount,
    Integer,
    OneOf,
    Player,
    Word,
    money,
)
from arena_envs.games._talk_grammar import (
    Move,
    Utterance,
    every,
    example,
    nearest,
    read,
    syntax,
    written,
)
from arena_envs.games._words import counted
from arena_envs.hostile import quoted

__all__ = [
    "CENT",
    "Amount",
    "Integer",
    "Move",
    "OneOf",
    "Player",
    "Utterance",
    "Word",
    "as_heard",
    "every",
    "example",
    "how_to_write",
    "is_heard",
    "money",
    "nearest",
    "read",
    "syntax",
    "transcript",
    "written",
]


def is_heard(said: Utterance, seat: int) -> bool:
    """Whether a seat reads the message of an utterance."""
    return not said.audience or seat in said.audience


def as_heard(said: Sequence[Utterance], seat: int) -> tuple[Utterance, ...]:
    """The utterances without the messages that a seat does not read."""
    return tuple(
        each if is_heard(each, seat) else each._replace(message="") for each in said
    )


def transcript(
    said: Sequence[Utterance],
    seat: int,
    told: Callable[[int], str],
    *,
    turns: Sequence[int] | None = None,
    latest: int = 3,
    brief: Callable[[int], str] | None = None,
    num_listed: int | None = 6,
) -> Iterator[str]:
    """The past as a seat reads it: a line about earlier turns, then one for each of the latest.

    Messages are `quoted`; everything else is text of the game.

    Args:
        said: all utterances.
        seat: the reader.
        told: what happened in a turn, without message and full stop. A line that ends in "said"
            goes on with the message.
        turns: indices of the utterances that the seat knows of; None: all.
        latest: number of turns that are shown in full.
        brief: what happened in an earlier turn, in a few words, or nothing; None: earlier turns
            are only counted.
        num_listed: earlier turns that are listed, the latest ones; None: all.
    """
    known = range(len(said)) if turns is None else turns
    start = max(0, len(known) - latest)
    if brief is None:
        if start:
            yield f"Earlier: {counted(start, 'turn')}, not shown."
    elif texts := [text for turn in known[:start] if (text := brief(turn))]:
        more = 0 if num_listed is None else max(0, len(texts) - num_listed)
        yield f"Earlier: {f'{more} more, ' if more else ''}{', '.join(texts[more:])}."
    for turn in known[start:]:
        line, each = told(turn), said[turn]
        if each.message and is_heard(each, seat):
            line += ": " if line.endswith("said") else ", and said: "
            yield line + quoted(each.message)
        else:
            yield f"{line}."


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
