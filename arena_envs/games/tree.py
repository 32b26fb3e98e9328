"""Tree: a game in extensive form, read from a file.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("tree-v0", file="entry")`                             |
| Agents      | `player_0` to `player_{N-1}`, as many as the file has; "entry": two    |
| Kind        | by the payoffs and the information sets; "entry": mixed, perfect information |
| Actions     | `Discrete(n)`: the actions of an information set, in the order of the file |
| Rewards     | at the end: the sum of the payoffs on the way                          |
| Length      | the longest way through the tree; "entry": at most 2 turns             |
| Known value | "entry": 2 for both players, by backward induction                     |
| Source      | Gambit's file format `.efg`; "entry": R. Selten, *The Chain Store Paradox* (1978) |

`file` is the path of an `.efg` file, or the name of a built-in one: "entry" (a firm may enter a market),
"trust" (an investor may pay to learn whether a trustee is honest), "mediator" (who leads by
advice), "agency" (a principal pays an agent whose effort is hidden), "bargaining" (two rounds of
offers). `arena_envs.games.kits.efg` says what a file holds. A file of the same name with the ending
`.toml` holds texts:

    rules = "What all players read first."
    roles = ["you are the entrant", "you are the incumbent"]
    [sets]
    "1.1" = "What player 1 reads at its information set 1."
    [outcomes]
    2 = "What all read when the game ends with outcome 2."

Without rules, players read the whole tree, up to 100 nodes. A seat sees its own actions and the
text of its information set; where all information sets are single nodes, it sees all that has
happened. Payoffs are paid at the end. Players must have perfect recall.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from arena_envs.checks import check_known
from arena_envs.game import (
    CHANCE,
    TERMINAL,
    BaseGame,
    Information,
    Kind,
    Vector,
    filled,
    np,
    over_text,
)
from arena_envs.games.kits.efg import (
    CHANCE_KIND,
    END_KIND,
    MAX_CHARACTERS,
    ExtensiveGame,
    FormNode,
    past_of_seat,
    read_efg,
)
from arena_envs.hostile import break_markup
from arena_envs.trust import require_operator

FOLDER = Path(__file__).with_name("trees")
BUILT_IN = tuple(sorted(path.stem for path in FOLDER.glob("*.efg")))
KEYS = ("rules", "roles", "sets", "outcomes")
MAX_LISTED = 100  # nodes of a tree that players read without rules of the file
MAX_TEXT = 5_000  # characters of a text in a TOML file
# a key of many parts, for which tomllib takes the square of their number
LONG_KEY = re.compile(r"""(?<![\w"'-])(?:[\w"'-]++[ \t]*+\.[ \t]*+){20}""")


class Texts(NamedTuple):
    """The texts of a TOML file."""

    rules: str = ""
    roles: tuple[str, ...] = ()
    sets: Mapping[str, str] = {}  # never changed
    outcomes: Mapping[str, str] = {}


@dataclass(frozen=True, eq=False)
class Tree(BaseGame[int, int]):
    """A game in extensive form; a state is the number of a node.

    Two are equal if their files had the same names and contents when they were made: what is computed
    of one game, such as a solution, is remembered for equal ones.

    Args:
        file: the path of an `.efg` file, or "entry", "trust", "mediator", "agency" or "bargaining".

    Raises:
        ValueError: the file or its texts are malformed; names the line.
    """

    file: str = "entry"

    first_state = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.file, str):
            raise ValueError(f"want file as a path, got {self.file!r:.80}")
        payoffs = {x for end in self._ends for x in end.payoffs}
        if len(payoffs) < 2 or self.max_turns == 0:
            raise ValueError(
                f"want a game with a turn and different payoffs in {self.file}, got payoffs "
                f"{sorted(payoffs)} and at most {self.max_turns} turns"
            )
        self._texts  # noqa: B018 # refuses texts that do not fit

    @cached_property
    def _path(self) -> Path:
        if self.file.endswith(".efg"):
            require_operator("file", self.file, "open a file")
            if not Path(self.file).is_file():
                raise ValueError(
                    f"want a file of a game tree, got {self.file!r:.80}, which does not exist; "
                    f"correct the path, or name a built-in tree: {', '.join(BUILT_IN)}"
                )
            return Path(self.file)
        problem = f"want a path that ends with .efg, or a built-in tree, got {self.file!r:.80}"
        check_known(self.file, BUILT_IN, problem)
        return FOLDER / f"{self.file}.efg"

    @cached_property
    def _contents(self) -> tuple[str, str]:
        """The tree and its texts as their files have them; without a file of texts an empty one."""
        texts = self._path.with_suffix(".toml")
        return _content(self._path), _content(texts) if texts.is_file() else ""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tree):
            return NotImplemented
        return (self.file, *self._contents) == (other.file, *other._contents)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.file, *self._contents))

    @cached_property
    def form(self) -> ExtensiveGame:
        """The tree."""
        return read_efg(self._contents[0], str(self.file))

    @cached_property
    def _texts(self) -> Texts:
        source = f"{self.file.removesuffix('.efg')}.toml"
        return _read_texts(self._contents[1], source, self.form)

    @cached_property
    def _ends(self) -> Sequence[FormNode]:
        return [node for node in self.form.nodes if node.kind == END_KIND]

    @property
    def num_players(self) -> int:
        return self.form.num_players

    @cached_property
    def num_actions(self) -> int:
        choices = self.form.choices.items()
        return max(len(each.labels) for (seat, _), each in choices if seat >= 0)

    @cached_property
    def kind(self) -> Kind:  # type: ignore[override] # of the payoffs
        if self.num_players == 1 or all(len({*e.payoffs}) == 1 for e in self._ends):
            return "cooperative"
        return "competitive" if self.zero_sum else "mixed"

    @cached_property
    def zero_sum(self) -> bool:  # type: ignore[override] # of the payoffs
        is_duel = self.num_players > 1
        return is_duel and all(abs(sum(end.payoffs)) < 1e-9 for end in self._ends)

    @cached_property
    def information(self) -> Information:  # type: ignore[override] # of the sets
        sets = [(n.seat, n.set) for n in self.form.nodes if n.seat >= 0]
        return "perfect" if len({*sets}) == len(sets) else "imperfect"

    @cached_property
    def min_return(self) -> float:
        return min(min(end.payoffs) for end in self._ends)

    @cached_property
    def max_return(self) -> float:
        return max(max(end.payoffs) for end in self._ends)

    @property
    def max_turns(self) -> int:
        return self.form.depth[1]

    @property
    def max_chance_nodes(self) -> int:
        return self.form.depth[0]

    @property
    def known_value(self) -> str | None:
        return KNOWN.get(self.file)

    def current_player(self, state: int) -> int:
        node = self.form.nodes[state]
        if node.kind == END_KIND:
            return TERMINAL
        return CHANCE if node.kind == CHANCE_KIND else node.seat

    def chance_outcomes(self, state: int) -> Sequence[tuple[int, float]]:
        node = self.form.nodes[state]
        if node.kind != CHANCE_KIND:
            return ()
        chances = self.form.choices[node.seat, node.set].chances
        return [(outcome, p) for outcome, p in enumerate(chances) if p > 0]

    def legal_actions(self, state: int) -> Sequence[int]:
        node = self.form.nodes[state]
        return range(len(node.children)) if node.seat >= 0 else ()

    def apply(self, state: int, action: int) -> int:
        return self.form.nodes[state].children[action]

    def returns(self, state: int) -> Sequence[float]:
        node = self.form.nodes[state]
        return node.payoffs if node.kind == END_KIND else (0.0,) * self.num_players

    def information_state(self, state: int, seat: int) -> Hashable:
        if self.information == "perfect":
            return state
        node = self.form.nodes[state]
        end: tuple[object, ...] = ()
        if node.kind == END_KIND:
            end = (self._outcome_text(node), node.payoffs[seat])
        own_set = node.set if node.seat == seat else 0
        return seat, past_of_seat(self.form.nodes, node, seat), own_set, end

    def features(self, state: int, seat: int) -> Vector:
        """One-hot seat, and one-hot information set where the seat is to move."""
        numbers = {key: i for i, key in enumerate(self.form.choices)}
        node = self.form.nodes[state]
        values = np.zeros(self.num_players + len(numbers), np.float32)
        values[seat] = 1
        if node.seat == seat:
            values[self.num_players + numbers[node.seat, node.set]] = 1
        return values

    def observe(self, state: int, seat: int) -> str:
        node = self.form.nodes[state]
        parts = [f"You are player_{seat}.", self._past_text(node, seat)]
        if node.kind == END_KIND:
            parts += [self._outcome_text(node), over_text(node.payoffs[seat])]
        elif node.seat == seat:
            parts += [self._set_texts[seat, node.set], "Your turn."]
        return " ".join(part for part in parts if part)

    @cached_property
    def _set_texts(self) -> Mapping[tuple[int, int], str]:
        """What a seat reads at each of its information sets; no two texts of a seat are equal."""
        texts: dict[tuple[int, int], str] = {}
        for (seat, number), choices in self.form.choices.items():
            default = f'You are at "{choices.name}".' if choices.name else ""
            text = self._texts.sets.get(f"{seat + 1}.{number}", default)
            texts[seat, number] = text or f"You are at your decision {number}."
        nums = Counter((seat, text) for (seat, _), text in texts.items())
        return {
            (seat, number): text
            if nums[seat, text] == 1
            else f"{text} It is your decision {number}."
            for (seat, number), text in texts.items()
        }

    def _outcome_text(self, node: FormNode) -> str:
        return self._texts.outcomes.get(str(node.outcome), "")

    def _past_text(self, node: FormNode, seat: int) -> str:
        """All that has happened with perfect information, else the seat's own actions."""
        is_open = self.information == "perfect"
        facts = []
        while node.parent >= 0:
            action, node = node.action, self.form.nodes[node.parent]
            label = self.form.choices[node.seat, node.set].labels[action]
            if node.kind == CHANCE_KIND:
                facts += [f"chance drew {label}"] * is_open
            elif is_open or node.seat == seat:
                facts.append(f"player_{node.seat} chose {label}")
        return f"So far: {', '.join(reversed(facts))}." if facts else ""

    def action_text(self, state: int, action: int) -> str:
        node = self.form.nodes[state]
        return self.form.choices[node.seat, node.set].labels[action]

    def rules(self, seat: int) -> str:
        texts = self._texts
        role = f", and {texts.roles[seat]}" if texts.roles else ""
        return filled(
            "tree",
            self,
            title=self.form.title or "a game without a name",
            seat=f"player_{seat}{role}",
            text=texts.rules or self._listing(),
        )

    def _listing(self) -> str:
        """The tree node by node, or its comment if it is large."""
        nodes, lines = self.form.nodes, []
        if len(nodes) > MAX_LISTED:
            return self.form.comment
        for number, node in enumerate(nodes):
            if node.kind == END_KIND:
                scores = ", ".join(f"{x:.6g}" for x in node.payoffs)
                lines.append(f"Node {number} is an end with the scores {scores}.")
                continue
            choices = self.form.choices[node.seat, node.set]
            mover = f"player_{node.seat} at its decision {node.set}: "
            chances: Sequence[str] = [""] * len(choices.labels)
            if node.kind == CHANCE_KIND:
                mover, chances = "chance: ", [f" ({p:.4g})" for p in choices.chances]
            branches = [
                f"{label}{chance} to node {child}"
                for label, chance, child in zip(
                    choices.labels, chances, node.children, strict=True
                )
            ]
            lines.append(f"Node {number} is {mover}{', '.join(branches)}.")
        return " ".join(lines)


KNOWN = {
    "entry": "2 for both players, by backward induction",
    "trust": "7/6 and 2 where the investor simulates in 1 of 3 games; 0 without trust",
    "mediator": "10 for the mediator and 5 for both others, where these obey",
    "agency": "3.2 and 2.8, by backward induction",
    "bargaining": "5 for both players, by backward induction",
}


def _content(path: Path) -> str:
    """The text of a file of bounded size."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(MAX_CHARACTERS + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"want a file of text, got {str(path)!r}: {error}") from error


def _read_texts(content: str, source: str, form: ExtensiveGame) -> Texts:
    """The texts of a TOML file.

    Raises:
        ValueError: it is no TOML, or a key or a text does not fit the tree.
    """
    if len(content) > MAX_CHARACTERS:
        raise ValueError(
            f"want at most {MAX_CHARACTERS:,} characters in {source}, got more"
        )
    if long_key := LONG_KEY.search(content):
        raise ValueError(
            f"want keys of one or two parts in {source}, got {long_key[0]!r:.60}"
        )
    try:
        document = tomllib.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"want TOML in {source}: {error}") from error
    for key in document:
        check_known(key, KEYS, f"{source} has no key {key!r:.60}")
    sets, outcomes = document.get("sets", {}), document.get("outcomes", {})
    roles = document.get("roles", [])
    if not isinstance(sets, dict) or not isinstance(outcomes, dict):
        raise ValueError(f"want [sets] and [outcomes] as tables of texts in {source}")
    if not isinstance(roles, list) or len(roles) not in (0, form.num_players):
        raise ValueError(
            f"want roles in {source} as a list of {form.num_players} texts, got {roles!r:.80}"
        )
    known_sets = [f"{seat + 1}.{n}" for seat, n in form.choices if seat >= 0]
    for key in sets:
        check_known(key, known_sets, f"{source}: no information set {key!r:.60}")
    known_outcomes = sorted({str(node.outcome) for node in form.nodes if node.outcome})
    for key in outcomes:
        check_known(key, known_outcomes, f"{source}: no outcome {key!r:.60} at an end")
    return Texts(
        _text(document.get("rules", ""), "rules", source),
        tuple(_text(role, "roles", source) for role in roles),
        {key: _text(text, f"sets.{key}", source) for key, text in sets.items()},
        {key: _text(text, f"outcomes.{key}", source) for key, text in outcomes.items()},
    )


def _text(text: object, key: str, source: str) -> str:
    """A text in one line, with its markup broken."""
    is_text = isinstance(text, str) and len(text) <= MAX_TEXT and text.isascii()
    line = " ".join(text.split()) if isinstance(text, str) else ""
    if not is_text or not line.isprintable():
        raise ValueError(
            f"want {key} in {source} as at most {MAX_TEXT} characters of ASCII, got {text!r:.60}"
        )
    return break_markup(line)
