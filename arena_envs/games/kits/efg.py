r"""The reader of Gambit's files of games in extensive form, `.efg`.

A file is a header, and then the nodes of the tree, each before its children (Gambit's manual,
*The extensive game (.efg) file format*):

    EFG 2 R "title" { "player" ... } "comment"
    c "node" SET "name" { "action" PROBABILITY ... } OUTCOME "name" { payoff ... }
    p "node" PLAYER SET "name" { "action" ... } OUTCOME "name" { payoff ... }
    t "node" OUTCOME "name" { payoff ... }

Names are optional. The actions of an information set and the payoffs of an outcome are written where
its number first appears. Outcome 0 is none. Numbers are integers, decimals or fractions. Players have
perfect recall: the same own actions lead to all nodes of an information set.

A file may come from a stranger: its size, depth and texts are bounded, and every refusal names the
line.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from arena_envs.hostile import break_markup

MAX_CHARACTERS = 2_000_000  # of a file
MAX_NODES = 20_000
MAX_DEPTH = 200
MAX_NAME = 200  # characters
MAX_COMMENT = 5_000  # characters; players of a large tree read it
MAX_PLAYERS = 10
MAX_PAYOFF = 1e9
TOKEN = re.compile(
    r'(?P<blank>[\s,]+)|(?P<string>"(?:[^"\\]|\\.)*")|(?P<brace>[{}])|(?P<word>[^\s,{}"]+)',
    re.DOTALL,
)
NUMBER = re.compile(
    r"[+-]?(?:\d{1,15}(?:\.\d{0,15})?|\.\d{1,15})(?:[eE][+-]?\d{1,2})?(?:/\d{1,15})?"
)
ACTION = re.compile(r"[^\[\]{},<>]+")  # what a prompt can list

CHANCE_KIND, PLAYER_KIND, END_KIND = "c", "p", "t"


class FormNode(NamedTuple):
    """A node of an extensive form.

    Attributes:
        kind: "c" for chance, "p" for a player, "t" for an end.
        seat: who moves, from 0 on; -1 without a player.
        set: number of the information set, of those of its player; 0 at an end.
        children: indices of the next nodes, by action.
        parent: index of the node before; -1 at the root.
        action: the action that led here.
        payoffs: by seat, all on the way here.
        outcome: number of the last outcome on the way; 0 for none.
        name: of the information set.
    """

    kind: str
    seat: int
    set: int
    children: tuple[int, ...]
    parent: int
    action: int
    payoffs: tuple[float, ...]
    outcome: int
    name: str


class ActionList(NamedTuple):
    """The actions of an information set, with probabilities at chance nodes, and its name."""

    labels: tuple[str, ...]
    chances: tuple[float, ...]
    name: str


@dataclass(frozen=True)
class ExtensiveGame:
    """A game in extensive form.

    Attributes:
        title: of the file.
        comment: of the file; may be empty.
        num_players: number of seats.
        nodes: in the order of the file; the first is the root.
        choices: actions by seat (-1: chance) and information set.
        depth: the largest numbers of chance nodes and of turns on a way.
    """

    title: str
    comment: str
    num_players: int
    nodes: tuple[FormNode, ...]
    choices: dict[tuple[int, int], ActionList] = field(hash=False)
    depth: tuple[int, int]


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


def read_efg(text: str, source: str) -> ExtensiveGame:
    """The game of a file.

    Args:
        text: its content.
        source: its name, for errors.

    Raises:
        ValueError: the file is malformed or beyond a bound; names the line.
    """
    if len(text) > MAX_CHARACTERS:
        raise ValueError(
            f"want at most {MAX_CHARACTERS:,} characters in {source}, got {len(text):,}"
        )
    return _Reader(text, source).game()


class _Reader:
    """Reads tokens into nodes; see `read_efg`."""

    def __init__(self, text: str, source: str) -> None:
        self._source, self._tokens = source, self._split(text)
        self._next: _Token | None = next(self._tokens, None)
        self._line = 1
        self._choices: dict[tuple[int, int], ActionList] = {}
        self._pasts: dict[tuple[int, int], tuple[tuple[int, int], ...]] = {}
        self._outcomes: dict[int, tuple[float, ...]] = {}
        self._num_players = 0

    def _split(self, text: str) -> Iterator[_Token]:
        place, line = 0, 1
        while place < len(text):
            match = TOKEN.match(text, place)
            if match is None:
                self._line = line
                raise self._error("a closing quotation mark", "the end of the file")
            if match.lastgroup != "blank":
                yield _Token(str(match.lastgroup), match[0], line)
            line += match[0].count("\n")
            place = match.end()

    def _error(self, expected: str, actual: object) -> ValueError:
        return ValueError(
            f"{self._source}, line {self._line}: want {expected}, got {actual!s:.60}"
        )

    def _take(self, expected: str) -> _Token:
        if self._next is None:
            raise self._error(expected, "the end of the file")
        token, self._line = self._next, self._next.line
        self._next = next(self._tokens, None)
        return token

    def _is_next(self, kind: str, text: str | None = None) -> bool:
        token = self._next
        return token is not None and token.kind == kind and text in (None, token.text)

    def _word(self, *words: str) -> str:
        token = self._take(" or ".join(words))
        if token.text not in words or token.kind != "word":
            raise self._error(" or ".join(words), token.text)
        return token.text

    def _string(self, part: str) -> str:
        token = self._take(part)
        if token.kind != "string":
            raise self._error(f"{part} in quotation marks", token.text)
        text = " ".join(re.sub(r"\\(.)", r"\1", token.text[1:-1], flags=re.S).split())
        limit = MAX_COMMENT if part == "a comment" else MAX_NAME
        if len(text) > limit or not text.isascii() or not text.isprintable():
            raise self._error(f"{part} of at most {limit} characters of ASCII", text)
        return break_markup(text)

    def _optional_string(self, part: str) -> str:
        return self._string(part) if self._is_next("string") else ""

    def _integer(self, part: str) -> int:
        token = self._take(part)
        if token.kind != "word" or not re.fullmatch(r"\d{1,9}", token.text):
            raise self._error(f"{part}, an integer of at least 0", token.text)
        return int(token.text)

    def _number(self, part: str) -> float:
        token = self._take(part)
        if token.kind != "word" or not NUMBER.fullmatch(token.text):
            raise self._error(f"{part} such as 2, -0.5 or 1/3", token.text)
        numerator, _, denominator = token.text.partition("/")
        if denominator and not int(denominator):
            raise self._error(f"{part} with a denominator above 0", token.text)
        number = float(numerator) / float(denominator or 1)
        if abs(number) > MAX_PAYOFF:
            raise self._error(f"{part} from -1e9 to 1e9", token.text)
        return number

    def _list(self, part: str) -> Iterator[None]:
        """Yields before each entry of a list in braces."""
        if self._take(f"a list of {part}").text != "{":
            raise self._error(f"a list of {part} in braces", "something else")
        while not self._is_next("brace", "}"):
            yield
        self._take("}")

    def game(self) -> ExtensiveGame:
        self._word("EFG")
        self._word("2")
        self._word("R", "D")
        title = self._string("a title")
        names = [self._string("a player") for _ in self._list("players")]
        self._num_players = len(names)
        if not 1 <= self._num_players <= MAX_PLAYERS:
            raise self._error(f"1 to {MAX_PLAYERS} players", self._num_players)
        comment = self._optional_string("a comment")
        nodes, depth = self._nodes()
        return ExtensiveGame(
            title, comment, self._num_players, nodes, self._choices, depth
        )

    def _nodes(self) -> tuple[tuple[FormNode, ...], tuple[int, int]]:
        nodes: list[FormNode] = []
        children: list[list[int]] = []
        # of each open node: its index, and numbers of chance nodes and turns up to its children
        open_nodes: list[tuple[int, int, int]] = []
        depth = (0, 0)
        while not nodes or open_nodes:
            parent, num_chance, num_turns = open_nodes[-1] if open_nodes else (-1, 0, 0)
            action = len(children[parent]) if open_nodes else 0
            before = nodes[parent].payoffs if open_nodes else (0.0,) * self._num_players
            outcome = nodes[parent].outcome if open_nodes else 0
            node, num_actions = self._node(nodes, parent, action, before, outcome)
            index = len(nodes)
            nodes.append(node)
            children.append([])
            if open_nodes:
                children[parent].append(index)
            if len(nodes) > MAX_NODES or len(open_nodes) > MAX_DEPTH:
                raise self._error(
                    f"at most {MAX_NODES:,} nodes, {MAX_DEPTH} on a way", "more"
                )
            if num_actions:
                num_chance += node.kind == CHANCE_KIND
                num_turns += node.kind == PLAYER_KIND
                open_nodes.append((index, num_chance, num_turns))
            else:
                depth = (max(depth[0], num_chance), max(depth[1], num_turns))
            while open_nodes and len(children[open_nodes[-1][0]]) == self._num_actions(
                nodes[open_nodes[-1][0]]
            ):
                open_nodes.pop()
        if self._next is not None:
            self._take("")
            raise self._error("the end of the file behind the last node", "more")
        pairs = zip(nodes, children, strict=True)
        return tuple(n._replace(children=tuple(c)) for n, c in pairs), depth

    def _num_actions(self, node: FormNode) -> int:
        return len(self._choices[node.seat, node.set].labels) if node.set else 0

    def _node(
        self,
        nodes: Sequence[FormNode],
        parent: int,
        action: int,
        before: tuple[float, ...],
        outcome: int,
    ) -> tuple[FormNode, int]:
        """The next node, without children, and its number of actions."""
        kind = self._word(CHANCE_KIND, PLAYER_KIND, END_KIND)
        self._optional_string("the name of a node")
        seat, number, choices = -1, 0, ActionList((), (), "")
        if kind != END_KIND:
            if kind == PLAYER_KIND:
                seat = self._integer("the number of a player") - 1
                if not 0 <= seat < self._num_players:
                    raise self._error(
                        f"a player from 1 to {self._num_players}", seat + 1
                    )
            number = self._integer("the number of an information set")
            if not number:
                raise self._error("an information set from 1 on", number)
            choices = self._set(kind, seat, number)
        new_outcome, payoffs = self._outcome()
        node = FormNode(
            kind,
            seat,
            number,
            (),
            parent,
            action,
            tuple(a + b for a, b in zip(before, payoffs, strict=True)),
            new_outcome or outcome,
            choices.name,
        )
        if kind == PLAYER_KIND:
            past = past_of_seat(nodes, node, seat)
            if self._pasts.setdefault((seat, number), past) != past:
                raise self._error(
                    f"perfect recall of player {seat + 1}: the same own actions before all nodes "
                    f"of its information set {number}",
                    "others here",
                )
        return node, len(choices.labels)

    def _set(self, kind: str, seat: int, number: int) -> ActionList:
        """The actions of an information set, here or where it was first named."""
        name = self._optional_string("the name of an information set")
        earlier = self._choices.get((seat, number))
        if not self._is_next("brace", "{"):
            if earlier is None:
                raise self._error(
                    f"the actions of information set {number} where it is first named",
                    "none",
                )
            return earlier
        labels, chances = [], []
        for _ in self._list("actions"):
            labels.append(self._label())
            if kind == CHANCE_KIND:
                chances.append(self._number("a probability"))
        if len({label.casefold() for label in labels}) < len(labels) or not labels:
            raise self._error("one or more different actions", labels)
        if kind == CHANCE_KIND and (
            min(chances) < 0 or abs(math.fsum(chances) - 1) > 1e-6
        ):
            raise self._error("probabilities with the sum 1", math.fsum(chances))
        total = math.fsum(chances) or 1.0
        choices = ActionList(
            tuple(labels), tuple(chance / total for chance in chances), name
        )
        if earlier is not None and earlier[:2] != choices[:2]:
            raise self._error(
                f"the actions {list(earlier.labels)} of information set {number} again",
                labels,
            )
        return self._choices.setdefault((seat, number), choices)

    def _label(self) -> str:
        label = self._string("an action")
        if not ACTION.fullmatch(label):
            raise self._error(
                "an action without brackets, braces and commas, and not empty", label
            )
        return label

    def _outcome(self) -> tuple[int, tuple[float, ...]]:
        """The number and the payoffs of a node's outcome."""
        number = self._integer("the number of an outcome, or 0")
        self._optional_string("the name of an outcome")
        if self._is_next("brace", "{"):
            payoffs = tuple(self._number("a payoff") for _ in self._list("payoffs"))
            if len(payoffs) != self._num_players:
                raise self._error(f"{self._num_players} payoffs", len(payoffs))
            if number and self._outcomes.setdefault(number, payoffs) != payoffs:
                raise self._error(f"the payoffs of outcome {number} again", payoffs)
            if not number and any(payoffs):
                raise self._error("no payoffs of outcome 0, which is none", payoffs)
        elif number and number not in self._outcomes:
            raise self._error(
                f"the payoffs of outcome {number} where it is first named", "none"
            )
        return number, self._outcomes.get(number, (0.0,) * self._num_players)


def past_of_seat(
    nodes: Sequence[FormNode], node: FormNode, seat: int
) -> tuple[tuple[int, int], ...]:
    """The information sets and actions of a seat on the way to a node, the first one first."""
    past = []
    while node.parent >= 0:
        action, node = node.action, nodes[node.parent]
        if node.seat == seat and node.kind == PLAYER_KIND:
            past.append((node.set, action))
    return tuple(reversed(past))
