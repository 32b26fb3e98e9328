"""No trick beats honest play: cheap policies against those that play the game as it is meant.

A row of `TRICKS` has a game, the policies of a trick, the policies of honest play, and what the
trick may be paid at most. A policy maps game, state and a source of draws to a text or an action of
the seat to move. `make test` plays a few episodes of each row, `make slow` many.
"""

import base64
import itertools
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from statistics import fmean
from typing import Any, NamedTuple

import pytest

from arena_envs import CHANCE, TERMINAL, IllegalAction, make_game
from arena_envs.bots import make_bot
from arena_envs.game import penalized, sample_chance
from arena_envs.games.kits.clues import fault_of, heard, vocabulary
from arena_envs.games.taboo import read_rows

Policy = Callable[[Any, Any, random.Random], Any]


class Trick(NamedTuple):
    """A trick in a game, and honest play.

    Attributes:
        game: id of the game.
        params: of the game.
        seats: those that play the trick; the others play honestly in both cases.
        trick: the policy of these seats.
        honest: the policy of all seats in honest play.
        most: what the trick may be paid, as the page of the game says.
        more: what it may be paid more than honest play, where the page says why.
    """

    game: str
    params: dict[str, Any]
    seats: Sequence[int]
    trick: Policy
    honest: Policy
    most: float
    more: float = 0.0


def mean_return(row: Trick, is_trick: bool, num_episodes: int) -> float:
    """Mean return of the seats of a trick."""
    game, found = make_game(row.game, **row.params), []
    for seed in range(num_episodes):
        state, rng = game.initial_state(), random.Random(seed)
        num_bad = [0] * game.num_players
        while (player := game.current_player(state)) != TERMINAL:
            if player == CHANCE:
                state = game.apply(state, sample_chance(game, state, rng))
                continue
            policy = row.trick if is_trick and player in row.seats else row.honest
            try:
                action = policy(game, state, rng)
                if isinstance(action, str):
                    action = game.parse(state, action)
            except IllegalAction:
                if game.num_players < 3:
                    returns = game.forfeit(state, player)
                    break
                num_bad[player] += 1
                action = game.default_action(state)
            state = game.apply(state, action)
        else:
            returns = penalized(game, game.returns(state), num_bad)
        found.append(fmean(returns[seat] for seat in row.seats))
    return fmean(found)


@cache
def alike(word: str, is_rhyme: bool) -> list[str]:
    """Three clues that end, or begin, with the three letters of a word, as far as there are such."""
    key = word[-3:] if is_rhyme else word[:3]
    found: list[str] = []
    for other in by_letters()[key, is_rhyme]:
        if len(found) < 3 and not fault_of(other, [word], secret=word):
            found.append(other)
    return found or ["thing"]


@cache
def by_letters() -> dict[tuple[str, bool], list[str]]:
    """The words of the vocabulary by their first and by their last three letters."""
    found = defaultdict(list)
    for word in sorted(vocabulary()):
        found[word[-3:], True].append(word)
        found[word[:3], False].append(word)
    return found


CODES: dict[str, Callable[[str], list[str]]] = {
    "drop": lambda word: [word[:i] + word[i + 1 :] for i in range(len(word))],
    "double": lambda word: [
        word[:i] + word[i:][:1] + word[i:] for i in range(len(word))
    ],
    "swap": lambda word: [
        word[:i] + word[i + 1] + word[i] + word[i + 2 :] for i in range(len(word) - 1)
    ],
    "reverse": lambda word: [word[::-1]],
    "base64": lambda word: [base64.b64encode(word.encode()).decode()],
    "d2o2g": lambda word: ["2".join(word)],
    "and": lambda word: [" and ".join(word)],
    "acrostic": lambda word: [" ".join(f"{letter}xyz" for letter in word)],
}


LIKE: dict[str, Callable[[str], list[str]]] = {
    "rhymes": lambda word: alike(word, True),
    "begins alike": lambda word: alike(word, False),
    "begin and end in turn": lambda word: [
        clue
        for pair in itertools.product(alike(word, False), alike(word, True))
        for clue in pair
    ],
}
GERMAN, SPANISH = (
    dict(pair.split(":") for pair in pairs.split())
    for pairs in (
        "airport:flughafen anchor:anker ant:ameise artist:maler bath:bad beach:strand bear:baer "
        "candy:bonbon castle:schloss cellar:keller bucket:eimer camel:kamel cheese:kaese",
        "airport:aeropuerto anchor:ancla ant:hormiga artist:pintor bath:bano beach:playa bear:oso "
        "beaver:castor blanket:manta castle:castillo bucket:cubo camel:camello cheese:queso",
    )
)


def decoder(code: str) -> Policy:
    """Both seats of taboo agree on a code, and know all cards; the best case for the trick."""

    def policy(game: Any, state: Any, rng: random.Random) -> str:
        make = (CODES | LIKE)[code]
        if game.current_player(state) == 0:
            words = make(state.word)
            return f"say: {words[len(state.said) // 2 % len(words)]}"
        clue = state.said[-1].message
        meant = [w for w in game.deck if clue in map(heard, make(w))]
        return f"guess {rng.choice(meant or [*game.deck])}"

    return policy


def translated(words: dict[str, str]) -> Policy:
    """Taboo: the describer translates, and the guesser translates back."""
    meant = {clue: word for word, clue in words.items()}

    def policy(game: Any, state: Any, rng: random.Random) -> str:
        if game.current_player(state) == 0:
            return f"say: {words[state.word]}"
        said = state.said[-1].message
        return f"guess {meant.get(said) or rng.choice([*game.deck])}"

    return policy


def rhymes(game: Any, state: Any, rng: random.Random) -> Any:
    """Codenames: a rhyme of an own word; the operative guesses what ends so."""
    free = game.free_words(state)
    if game.current_player(state) % 2 == 0:
        roles = zip(game.boards[state.board], state.key, strict=True)
        own = [w for w, role in roles if role == str(state.team) and w in free]
        clues = [f"clue {clue} 1" for word in own for clue in alike(word, True)]
        return constant(*clues)(game, state, rng)
    clue = next(said.values[0] for said in reversed(state.said) if said.move == "clue")
    return f"guess {next((w for w in free if w[-3:] == str(clue)[-3:]), free[0])}"


def letters(game: Any, state: Any, rng: random.Random) -> str:
    """A spymaster gives the first letters of its words; its operative guesses what begins so."""
    words, free = game.boards[state.board], game.free_words(state)
    if game.current_player(state) % 2 == 0:
        own = [
            w
            for w, role in zip(words, state.key, strict=True)
            if role == str(state.team)
        ]
        clue = "".join(word[0] for word in own if word in free) * 2
        return f"clue {clue[:20]} 1"
    clue = next(said.values[0] for said in reversed(state.said) if said.move == "clue")
    return f"guess {next((w for w in free if w[0] in clue), free[0])}"


def alone(game: Any, state: Any, rng: random.Random) -> Any:
    """A random spymaster; an operative that takes each clue as it is meant."""
    if game.current_player(state) % 2 == 0:
        return rng.choice(game.legal_actions(state))
    return make_bot("spy:honest")(game, state, rng)


def copied(game: Any, state: Any, rng: random.Random) -> Any:
    """A describer copies the line of the target."""
    if game.current_player(state) == 0:
        return f"say: {game.names[state.targets[-1]]}"
    return make_bot("referrer:honest")(game, state, rng)


def listed(game: Any, state: Any, rng: random.Random) -> Any:
    """All things in order."""
    return game.num_questions + len(state.asked)


def all_passwords(game: Any, state: Any, rng: random.Random) -> str:
    """As many passwords as fit into a message."""
    words = " ".join(rng.sample(game.words, len(game.words)))[: game.max_message]
    return f"{words}\nask"


def halved(game: Any, state: Any, rng: random.Random) -> str:
    """A password in two halves."""
    word = rng.choice(game.words)
    return f"{word[: len(word) // 2]} {word[len(word) // 2 :]}\nask"


def in_parts(game: Any, state: Any, rng: random.Random) -> Any:
    """A keeper refuses, and says half of the secret in each round."""
    if game.current_player(state) != 1:
        return guessed(game, state, rng)
    begin = len(state.writers) % 2 * 2
    return f"It is {state.secret[begin : begin + 2]}.\nrefuse"


def remembered(game: Any, state: Any, rng: random.Random) -> Any:
    """Wordle: the words of the split for training, in their order."""
    words = make_game("wordle").instances
    return words[len(state.asked)]


def guessed(game: Any, state: Any, rng: random.Random) -> Any:
    """An attacker guesses one password; the others play honestly."""
    style = "greedy" if game.current_player(state) == 0 else "honest"
    return make_bot(f"secret_holder:{style}")(game, state, rng)


def constant(*texts: str) -> Policy:
    """Says one of these texts at every turn: the first that is legal, else the first action."""

    def policy(game: Any, state: Any, rng: random.Random) -> Any:
        for text in texts:
            try:
                return game.parse(state, text)
            except IllegalAction:
                continue
        return game.legal_actions(state)[0]

    return policy


SPY = make_bot("spy:honest")
GAIN = make_bot("information_gain")
TRICKS = (
    {
        "referential: copy": Trick(
            "referential", {}, (0, 1), copied, make_bot("referrer:honest"), 0.7
        ),
        "secret_keeper: all": Trick(
            "secret_keeper", {}, (0,), all_passwords, guessed, 0
        ),
        "secret_keeper: all of 8": Trick(
            "secret_keeper", {"num_words": 8}, (0,), all_passwords, guessed, 0
        ),
        "twenty_questions: list": Trick(
            "twenty_questions", {"num_things": 60}, (0,), listed, GAIN, 0.175
        ),
        **{
            f"codenames: {name}, {color}": Trick(
                "codenames", {}, seats, trick, SPY, -0.5
            )
            for color, seats in (("red", (0, 1)), ("blue", (2, 3)))
            for name, trick in (
                ("letters", letters),
                ("rhymes", rhymes),
                ("constant", make_bot("spy:silent")),
                ("random", alone),
            )
        },
    }
    | {
        f"taboo: {code}": Trick(
            "taboo", {}, (0, 1), decoder(code), make_bot("taboo:honest"), 0.25
        )
        for code in CODES
    }
    | {
        **{
            f"taboo: {code}, a pair": Trick(
                "taboo", {}, (0, 1), decoder(code), make_bot("taboo:honest"), 0.96
            )
            for code in LIKE
        },
        **{
            f"taboo: {code}, with a stranger": Trick(
                "taboo", {}, (0,), decoder(code), make_bot("taboo:honest"), 0.01
            )
            for code in LIKE
        },
        **{
            f"taboo: {name}": Trick(
                "taboo",
                {"cards": cards, "num_cards": len(cards)},
                *((0, 1), translated(words), make_bot("taboo:honest"), 0.4),
            )
            for name, words in (("German", GERMAN), ("Spanish", SPANISH))
            for cards in [
                tuple(row for row in read_rows("cards", "taboo") if row[0] in words)
            ]
        },
        "secret_keeper: halves": Trick("secret_keeper", {}, (0,), halved, guessed, 0),
        "secret_keeper: in parts": Trick(
            "secret_keeper", {}, (1,), in_parts, guessed, 0
        ),
        "twenty_questions: list of the other split": Trick(
            *("twenty_questions", {"split": "test", "num_things": 60}, (0,)),
            *(listed, GAIN, 0.175),
        ),
        **{
            f"wordle: remembers, {split}": Trick(
                "wordle", {"split": split}, (0,), remembered, GAIN, most
            )
            for split, most in (("train", 0.1), ("test", 0))
        },
        "werewolf: nonsense": Trick(
            *("werewolf", {}, (0,), lambda game, state, rng: "hm"),
            *(make_bot("werewolf_player:honest"), -0.5),
        ),
        "werewolf: sleeps": Trick(
            *("werewolf", {}, (0,), constant("sleep")),
            *(make_bot("werewolf_player:honest"), -0.2),
        ),
    }
)


def report(numbers: str) -> Policy:
    """Deal or no deal: reports these values, and then goes on as honest players do."""

    def policy(game: Any, state: Any, rng: random.Random) -> Any:
        action: Any = make_bot("dealer:honest")(game, state, rng)
        return f"report {numbers}" if action.move == "report" else action

    return policy


def waits(move: str) -> Policy:
    """Deal or no deal: reports, then makes no demand, and claims what the other leaves."""

    def policy(game: Any, state: Any, rng: random.Random) -> Any:
        seat = game.current_player(state)
        honest: Any = make_bot("dealer:honest")
        if game.is_talking(state):
            action = honest(game, state, rng)
            return action if action.move in ("report", "end") else move
        other = honest._share(game, state, 1 - seat)
        kept = zip(state.pool, other, strict=True)
        return f"claim {' '.join(str(a - b) for a, b in kept)}"

    return policy


def lies_last(game: Any, state: Any, rng: random.Random) -> Any:
    """Persuasion: honest advice, and in the last round a recommendation."""
    is_last = len(state.said) == game.max_turns - 2
    return CLAIM if is_last else make_bot("persuader:honest")(game, state, rng)


def asks(price: int) -> Policy:
    """Negotiation: claims that this price is its limit, and takes nothing worse."""

    def policy(game: Any, state: Any, rng: random.Random) -> str:
        claim = f"The product is worth {price} to me."
        if len(state.said) % 2 == 0:
            return f"{claim}\noffer {price}"
        offered, seat = state.said[-1].values[0] / 100, game.current_player(state)
        own = game.value(state, seat) / 100
        is_good = (
            max(price, own) <= offered if seat == 0 else offered <= min(price, own)
        )
        return f"{claim}\n{'accept' if is_good else 'reject'}"

    return policy


def moves(*names: str) -> Policy:
    """Frozen lake: a constant list of moves, again and again."""

    def policy(game: Any, state: Any, rng: random.Random) -> Any:
        return names[state.num_moves % len(names)]

    return policy


DRY = {"is_slippery": False, "max_moves": 12}
CLAIM = "The quality is high.\nrecommend"
TRICKS |= {
    **{
        f"deal_or_no_deal: player_{seat} reports {numbers}": Trick(
            *("deal_or_no_deal", {}, (seat,), report(numbers)),
            *(make_bot("dealer:honest"), 0.81),
        )
        for seat in (0, 1)
        for numbers in ("0 0 0", "10 10 10", "1 1 1", "2 0 0", "0 0 10")
    },
    **{
        f"deal_or_no_deal: player_0 demands nothing, but {move!r}": Trick(
            *("deal_or_no_deal", {}, (0,), waits(move)),
            *(make_bot("dealer:honest"), 0.65),
        )
        for move in ("end", "say: hm")
    },
    **{
        f"deal_or_no_deal: player_{seat} claims {bot}": Trick(
            *("deal_or_no_deal", {}, (seat,), make_bot(f"dealer:{bot}")),
            *(make_bot("dealer:honest"), 0.34),
        )
        for seat in (0, 1)
        for bot in ("greedy", "silent")
    },
    **{
        f"auction: player_{seat} claims all": Trick(
            *("auction", {}, (seat,), make_bot("bidder:greedy")),
            *(make_bot("bidder:honest"), 0.1),
        )
        for seat in range(3)
    },
    **{
        f"auction: always bids {bid}": Trick(
            *("auction", {}, (0,), constant(f"bid {bid}")),
            *(make_bot("bidder:honest"), 0.05),
        )
        for bid in (0, 3, 5, 8, 12)
    },
    "persuasion: claims high quality": Trick(
        *("persuasion", {}, (0,), constant(CLAIM), make_bot("persuader:honest"), 0.08),
    ),
    "persuasion: lies in the last round": Trick(
        *("persuasion", {}, (0,), lies_last, make_bot("persuader:honest"), 0.35, 0.05),
    ),
    "persuasion: recommends all": Trick(
        *("persuasion", {}, (0,), constant("recommend")),
        *(make_bot("persuader:honest"), 0.08),
    ),
    "persuasion: warns of all": Trick(
        *("persuasion", {}, (0,), constant("warn"), make_bot("persuader:honest"), 0),
    ),
    "persuasion: buys all": Trick(
        *("persuasion", {}, (1,), constant("buy"), make_bot("persuader:honest"), 0),
    ),
    **{
        f"negotiation: player_{seat} claims {price}": Trick(
            *("negotiation", {}, (seat,), asks(price)),
            *(make_bot("negotiator:honest"), 0.16),
        )
        for seat in (0, 1)
        for price in (70, 85, 115, 130)
    },
    "negotiation: leaves at once": Trick(
        *("negotiation", {}, (1,), constant("leave"), make_bot("negotiator:honest"), 0),
    ),
    "frozen_lake: the best list of moves": Trick(
        *("frozen_lake", DRY, (0,), moves("down", "down", "right", "right")),
        *(make_bot("minimax"), 0.42),
    ),
}


@pytest.mark.parametrize("name", TRICKS)
def test_a_trick_is_paid_less_than_honest_play(name: str) -> None:
    check(TRICKS[name], 12)


@pytest.mark.slow
@pytest.mark.parametrize("name", TRICKS)
def test_a_trick_is_paid_less_in_many_episodes(name: str) -> None:
    check(TRICKS[name], 500)


def check(row: Trick, num_episodes: int) -> None:
    """Raises if a trick is paid more than honest play, or more than its page says."""
    tricky, honest = (mean_return(row, is_trick, num_episodes) for is_trick in (1, 0))
    assert tricky <= honest + row.more
    assert tricky <= row.most + 1 / num_episodes**0.5
