"""`disguise:SEED(game)`: other names, the same tree."""

import random
import re
import string
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any

from arena_envs.game import BaseGame, check_int, random_states
from arena_envs.transforms import Transform

TOKEN = re.compile(
    r"(?P<stays>player_\d+|'s\b|\b[Aa](?= [a-z]{2,})(?! (?:to|and|or|on)\b))"
    r"|(?P<move>(?<=\d)[A-Za-z]+)|(?P<word>[A-Za-z]+)"
)
WORDS = Path(__file__).parents[1] / "words" / "plain.txt"
MAX_STATES = 300  # of random play, in search of words


@dataclass(frozen=True)
class Disguise(Transform):
    """`disguise:SEED(game)`: other names, the same tree.

    Plain English, numbers, `player_0` and directions stay. Every other word becomes an invented
    one, and every symbol of one letter another letter. The words are those of the rules, the
    actions and the texts of random play; words that only other play shows are invented, too.
    """

    seed: int

    def __post_init__(self) -> None:
        check_int("seed", self.seed, 0, 2**63)
        is_spelled = getattr(self.game, "is_spelled", False)
        wanted = "a game without talk, the letters of whose words carry no rules,"
        self._want(self.game.num_actions is not None and not is_spelled, wanted)
        _names_of(self.game, self.seed)  # refuses a game with too many symbols

    def observe(self, state: Any, seat: int) -> str:
        return self._renamed(self.game.observe(state, seat))

    def rules(self, seat: int) -> str:
        return self._renamed(self.game.rules(seat))

    def action_text(self, state: Any, action: int) -> str:
        return self._renamed(self.game.action_text(state, action))

    parse = BaseGame.parse  # of the new texts

    def _renamed(self, text: str) -> str:
        names = _names_of(self.game, self.seed)

        def new(found: re.Match[str]) -> str:
            word = found[0].lower()
            if found["stays"]:
                return found[0]
            if found["move"]:
                return "".join(names.get(char, char) for char in found[0])
            if len(word) == 1:
                return names.get(found[0], found[0])
            name = names.get(word) or (
                word if word in _plain()[0] else _invented(word, self.seed, 0)
            )
            return name.capitalize() if found[0][0].isupper() else name

        return TOKEN.sub(new, text)


@lru_cache
def _plain() -> tuple[frozenset[str], frozenset[str]]:
    """Words that stay, and those of them that stay in actions, too: the first line of the file."""
    text = WORDS.read_text(encoding="utf-8")
    return frozenset(text.split()), frozenset(text.partition("\n")[0].split())


def _invented(word: str, seed: int, attempt: int) -> str:
    rng = random.Random(f"{seed} {word} {attempt}")
    return "".join(rng.choice("bdfgklmnprstvz") + rng.choice("aeiou") for _ in "123")


@lru_cache(64)
def _names_of(game: Any, seed: int) -> dict[str, str]:
    """The new name of each word that does not stay, in lower case, and of each symbol."""
    texts, actions = _texts_of(game)
    found = [match for text in texts | actions for match in TOKEN.finditer(text)]
    words = {match["word"].lower() for match in found if match["word"]}
    used = {word for word in words if len(word) == 1}
    used |= {char.lower() for match in found for char in match["move"] or ""}
    free = sorted(set(string.ascii_lowercase) - used)
    if len(free) < len(used):
        raise ValueError(
            f"want at most 13 symbols of one letter in a game to disguise, got {len(used)}"
        )
    drawn = sorted(random.Random(seed).sample(free, len(used)))  # columns stay in order
    names = dict(zip(sorted(used), drawn, strict=True))
    names |= {old.upper(): new.upper() for old, new in names.items()}
    acts = {word for text in actions for word in re.findall("[a-z]+", text.lower())}
    plain, of_actions = _plain()
    stay, taken = plain - (acts - of_actions), words | plain
    for word in sorted(words - used - stay, key=lambda word: (len(word), word)):
        ends = (word.removesuffix(end) for end in ("s", "es", "ed", "ing"))
        stem = next(
            (one for one in ends if one != word and len(names.get(one, "")) > 1), ""
        )
        name, attempt = names[stem] + word[len(stem) :] if stem else "", 0
        while not name or name in taken:
            name, attempt = _invented(word, seed, attempt), attempt + 1
        names[word] = name
        taken.add(name)
    return names


def _texts_of(game: Any) -> tuple[set[str], set[str]]:
    """Rules and texts, and texts of actions, of some random episodes."""
    texts = {game.rules(seat) for seat in range(game.num_players)}
    actions: set[str] = set()
    rng = random.Random(0)
    episodes = chain.from_iterable(random_states(game, rng) for _ in range(20))
    for state, _ in islice(episodes, MAX_STATES):
        texts |= {game.observe(state, seat) for seat in range(game.num_players)}
        actions |= {game.action_text(state, a) for a in game.legal_actions(state)}
    return texts, actions
