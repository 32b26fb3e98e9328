"""The conformance kit finds games that break the contract, and names the broken rule."""

import itertools
import random
import sys
from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

import arena_envs
import arena_envs.testing
from arena_envs import CHANCE, TERMINAL, BaseGame, IllegalAction
from arena_envs.game import fold, of_split
from arena_envs.games.bargaining import Bargaining
from arena_envs.games.blackjack import Blackjack
from arena_envs.games.hanabi import Hanabi
from arena_envs.games.kuhn_poker import KuhnPoker
from arena_envs.games.nim import Nim
from arena_envs.games.rounds import Rounds
from arena_envs.games.tic_tac_toe import TicTacToe
from arena_envs.hostile import quoted
from arena_envs.scenes import Card, Cards, Scene
from arena_envs.talk import Utterance, as_heard
from arena_envs.testing import CHECKS, BrokenPromise, check_game, draw_sample, page_of
from arena_envs.testing.sample import demand


class HalfFacts(KuhnPoker):
    teams = (0,)


class Descending(KuhnPoker):
    def legal_actions(self, state: Any) -> Any:
        return super().legal_actions(state)[::-1]


class NumpyActions(KuhnPoker):
    def legal_actions(self, state: Any) -> Any:
        return np.array(super().legal_actions(state))


class LoadedDeck(KuhnPoker):
    def chance_outcomes(self, state: Any) -> Any:
        return super().chance_outcomes(state)[:-1]


class Rake(KuhnPoker):
    def returns(self, state: Any) -> Any:
        return tuple(r - 0.5 if r else r for r in super().returns(state))


class NoNumber(KuhnPoker):
    def measures(self, state: Any) -> Any:
        return {"share": float("nan")}


class UnknownKnob(KuhnPoker):
    knobs: ClassVar[Any] = {"num_cards": (3, 4)}


class RepeatedKnob(KuhnPoker):
    knobs: ClassVar[Any] = {"num_players": (2, 2)}


class BadKnob(KuhnPoker):
    knobs: ClassVar[Any] = {"num_players": (2, 30)}


class OneCard(KuhnPoker):
    max_chance_nodes = 1


class OtherMeasures(KuhnPoker):
    def measures(self, state: Any) -> Any:
        return {"won": 1.0} if self.returns(state)[0] > 0 else {"lost": 1.0}


class Stakes(KuhnPoker):
    def returns(self, state: Any) -> Any:
        return tuple(2 * r for r in super().returns(state))


class Shifted(KuhnPoker):
    zero_sum = False

    def returns(self, state: Any) -> Any:
        return tuple(r / 2 + 0.5 for r in super().returns(state))


class LongGame(KuhnPoker):
    max_turns = 1


class SharedArray(KuhnPoker):
    values = np.zeros(11, np.float32)

    def features(self, state: Any, seat: int) -> Any:
        return self.values


class Unicode(KuhnPoker):
    def observe(self, state: Any, seat: int) -> str:
        return super().observe(state, seat).replace("bet", "b\u00eat")


class Endless(KuhnPoker):
    def observe(self, state: Any, seat: int) -> str:
        return super().observe(state, seat) * 1000


class Strict(KuhnPoker):
    def parse(self, state: Any, text: str) -> int:
        if text not in ("pass", "bet"):
            raise IllegalAction(text)
        return super().parse(state, text)


class Lax(KuhnPoker):
    def parse(self, state: Any, text: str) -> int:
        return 1 if "bet" in text.casefold() else 0


class Crashing(KuhnPoker):
    def parse(self, state: Any, text: str) -> int:
        return {"pass": 0, "bet": 1}[text.strip().casefold()]  # KeyError


class Mumbling(Bargaining):
    def action_text(self, state: Any, action: Any) -> str:
        if isinstance(action, Utterance):
            action = action._replace(message="")
        return super().action_text(state, action)


class Trimming(Bargaining):
    """Loses a trailing mark of a message, which only odd texts have, when it reads again."""

    def parse(self, state: Any, text: str) -> Any:
        said = super().parse(state, text)
        return said._replace(message=said.message.removesuffix(":"))


class LeakyText(KuhnPoker):
    def observe(self, state: Any, seat: int) -> str:
        return f"{super().observe(state, seat)} {state.cards}"


class LeakyFeatures(KuhnPoker):
    def features(self, state: Any, seat: int) -> Any:
        return super().features(state, 1 - seat)


class LeakyKey(KuhnPoker):
    def information_state(self, state: Any, seat: int) -> Any:
        return (seat, state)


class Forgetful(KuhnPoker):
    def information_state(self, state: Any, seat: int) -> Any:
        return (seat, state.bets)


class Careless(KuhnPoker):
    def resample(self, state: Any, seat: int, rng: random.Random) -> Any:
        return super().resample(state, 1 - seat, rng)


class GlobalChance(KuhnPoker):
    def resample(self, state: Any, seat: int, rng: random.Random) -> Any:
        return super().resample(state, seat, random.Random(next(SEEDS)))


SEEDS = itertools.count()


class Lazy(KuhnPoker):
    """Its resample never draws the other's card."""

    def resample(self, state: Any, seat: int, rng: random.Random) -> Any:
        return state


class Overt(Lazy):
    """Says that nothing is hidden."""

    information = "perfect"


class LeakyDealer(Blackjack):
    """Shows what is hidden; random play meets no deal twice, and resample does not tell."""

    def features(self, state: Any, seat: int) -> Any:
        hidden = state.dealer[0] if state.dealer else -1
        return np.append(super().features(state, seat), np.float32(hidden))

    def resample(self, state: Any, seat: int, rng: random.Random) -> Any:
        return state


class Blind(KuhnPoker):
    def features(self, state: Any, seat: int) -> Any:
        return super().features(state, seat) * 0


class LateLeak(KuhnPoker):
    def observe(self, state: Any, seat: int) -> str:
        return f"{super().observe(state, seat)} {'No news. ' * 40}Cards: {state.cards}."


class NumpySeats(KuhnPoker):
    def current_player(self, state: Any) -> Any:
        return np.int64(super().current_player(state))


class NumpyDeck(KuhnPoker):
    def chance_outcomes(self, state: Any) -> Any:
        return [(np.int64(card), p) for card, p in super().chance_outcomes(state)]


class Bools(KuhnPoker):
    def parse(self, state: Any, text: str) -> Any:
        return super().parse(state, text) == 1


class Searching(KuhnPoker):
    """Takes the last action that a text mentions, as in "not bet"."""

    def parse(self, state: Any, text: str) -> int:
        words = [word for word in fold(text).split() if word in ("pass", "bet")]
        return super().parse(state, words[-1] if words else text)


class Commas(KuhnPoker):
    def action_text(self, state: Any, action: int) -> str:
        return super().action_text(state, action).replace("pass", "pass, check")


class Verbose(KuhnPoker):
    def rules(self, seat: int) -> str:
        return super().rules(seat) * 1000


class Moody(KuhnPoker):
    def rules(self, seat: int) -> str:
        return f"{super().rules(seat)} {next(SEEDS)}"


class Mixed(KuhnPoker):
    kind: ClassVar[Any] = "mixed"


class Rivals(Hanabi):
    teams = (0, 1)


class Generous(KuhnPoker):
    def forfeit(self, state: Any, seat: int) -> Any:
        return [self.max_return] * self.num_players


class Robber(KuhnPoker):
    def forfeit(self, state: Any, seat: int) -> Any:
        return [self.min_return] * self.num_players


class Leaking(KuhnPoker):
    def forfeit(self, state: Any, seat: int) -> Any:
        paid = list(self.returns(state))
        paid[seat] = self.min_return
        return paid


@dataclass(frozen=True)
class Unshared(Rounds):
    num_players: int = 2

    def forfeit(self, state: Any, seat: int) -> Any:
        paid = list(self.returns(state))
        paid[seat] = self.min_return
        return paid


@dataclass(frozen=True)
class Wild(KuhnPoker):
    num_players: int = 3

    def default_action(self, state: Any) -> Any:
        return 7


@dataclass(frozen=True)
class Telling(KuhnPoker):
    num_players: int = 3

    def default_action(self, state: Any) -> Any:
        return int(state.cards[0] == 0)


class NoMethod:
    num_players = 1
    num_actions = 1
    kind, information = "competitive", "perfect"
    simultaneous = zero_sum = False
    min_return, max_return = 0.0, 1.0
    max_turns = 1
    teams = (0,)


class Infinite(KuhnPoker):
    max_return = float("inf")


class Mutable(KuhnPoker):
    def initial_state(self) -> Any:
        return [(), ()]


class Grows(KuhnPoker):
    log: list[int] = []  # noqa: RUF012

    def observe(self, state: Any, seat: int) -> str:
        self.log.append(seat)
        return f"{super().observe(state, seat)} {len(self.log)}"


class Lottery(KuhnPoker):
    def apply(self, state: Any, action: int) -> Any:
        after = super().apply(state, action)
        if len(after.cards) == self.num_players and not after.bets:
            return after._replace(cards=(next(SEEDS) % 3, *after.cards[1:]))
        return after


class Restless(KuhnPoker):
    def current_player(self, state: Any) -> int:
        player = super().current_player(state)
        return 0 if player == TERMINAL else player


class Twins(KuhnPoker):
    def action_text(self, state: Any, action: int) -> str:
        return "bet"


class Peeking(KuhnPoker):
    """Says that its seats choose at once, and shows the first choice to the second."""

    simultaneous = True


class WrongFloor(KuhnPoker):
    min_return = -1.0


class Unstable(TicTacToe):
    """Equal to no other game of its kind, so that no copy goes on like it."""

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return 1


class NoPage(TicTacToe):
    """This module has no table."""


class AnyDigits(Nim):
    def parse(self, state: Any, text: str) -> int:
        words = text.split()
        if len(words) != 5 or not all(map(str.isdecimal, words[1::3])):
            return super().parse(state, text)
        return super().parse(state, f"take {int(words[1])} from pile {int(words[4])}")


class Grouped(Nim):
    def parse(self, state: Any, text: str) -> int:
        return super().parse(state, text.replace("0_", ""))


class Verbatim(Bargaining):
    """Pastes what was said as it is."""

    def observe(self, state: Any, seat: int) -> str:
        said = [utterance.message for utterance in state.said[-1:] if utterance.message]
        return "\n".join([super().observe(state, seat), *said]).strip()


class Notes(Bargaining):
    """Messages are notes that the speaker alone reads."""

    def parse(self, state: Any, text: str) -> Any:
        said = super().parse(state, text)
        return said._replace(audience=(self.current_player(state),))

    def action_text(self, state: Any, action: Any) -> str:
        if isinstance(action, Utterance):
            action = action._replace(audience=())
        return super().action_text(state, action)

    def legal_actions(self, state: Any) -> Any:
        own = (self.current_player(state),)
        return [said._replace(audience=own) for said in super().legal_actions(state)]

    def information_state(self, state: Any, seat: int) -> Any:
        return state._replace(said=as_heard(state.said, seat))

    def resample(self, state: Any, seat: int, rng: random.Random) -> Any:
        return state


class ReadNotes(Notes):
    def information_state(self, state: Any, seat: int) -> Any:
        return state


class LongNotes(Notes):
    def observe(self, state: Any, seat: int) -> str:
        length = sum(len(said.message) for said in state.said)
        return f"{super().observe(state, seat)}\nLength of notes: {length}."


class Parrot(Bargaining):
    """Offers the latest message among the legal actions."""

    def legal_actions(self, state: Any) -> Any:
        legal = list(super().legal_actions(state))
        words = state.said[-1].message if state.said else ""
        return [legal[0]._replace(message=words), *legal[1:]] if words else legal


class Rambling(Bargaining):
    """Shows all that was said in full."""

    max_message = 400

    def observe(self, state: Any, seat: int) -> str:
        said = "\n".join(quoted(each.message) for each in state.said if each.message)
        return f"{super().observe(state, seat)}\n{said}".strip()


class HiddenPiles(Nim):
    def observe(self, state: Any, seat: int) -> str:
        return f"You are player_{seat}. Take from a pile."


class PigState(NamedTuple):
    scores: tuple[int, int] = (0, 0)
    pot: int = 0
    seat: int = 0
    rolling: bool = False


@dataclass(frozen=True)
class Pig(BaseGame[PigState, int]):
    """Roll to add 2 or 3 to the pot or to lose it, or hold to score it; 8 points win.

    Its text says all but how much is in the pot.
    """

    num_players = 2
    num_actions = 2
    kind = "competitive"
    information = "perfect"
    zero_sum = True
    min_return, max_return = -1.0, 1.0
    max_turns = 1000

    def initial_state(self) -> PigState:
        return PigState()

    def current_player(self, state: PigState) -> int:
        if max(state.scores) >= 8:
            return TERMINAL
        return CHANCE if state.rolling else state.seat

    def chance_outcomes(self, state: PigState) -> list[tuple[int, float]]:
        return [(1, 0.25), (2, 0.375), (3, 0.375)]

    def legal_actions(self, state: PigState) -> tuple[int, ...]:
        return (0, 1) if self.current_player(state) >= 0 else ()

    def apply(self, state: PigState, action: int) -> PigState:
        if not state.rolling and action == 0:
            return state._replace(rolling=True)
        if state.rolling and action > 1:
            return state._replace(pot=min(8, state.pot + action), rolling=False)
        scores = list(state.scores)
        if not state.rolling:
            scores[state.seat] += state.pot
        return PigState((scores[0], scores[1]), 0, 1 - state.seat)

    def returns(self, state: PigState) -> tuple[float, float]:
        first, second = state.scores
        won = float(first >= 8) - float(second >= 8)
        return (won, -won)

    def pot(self, state: PigState) -> str:
        return "hidden"

    def observe(self, state: PigState, seat: int) -> str:
        return (
            f"You are player_{seat}, player_{state.seat} is to move. "
            f"Scores: {state.scores}. Pot: {self.pot(state)}."
        )

    def information_state(self, state: PigState, seat: int) -> PigState:
        return state

    def features(self, state: PigState, seat: int) -> Any:
        values = (*state.scores, state.pot, state.seat, seat, state.rolling)
        return np.array(values, np.float32)

    def action_text(self, state: PigState, action: int) -> str:
        return ("roll", "hold")[action]

    def rules(self, seat: int) -> str:
        return "Roll, or hold and score the pot. A 1 loses it. Who has 8 points wins."


class OpenPig(Pig):
    def pot(self, state: PigState) -> str:
        return str(state.pot)


class PaidPig(Pig):
    """Pays a hundredth of the pot at once, which its text does not tell."""

    zero_sum = False
    min_return, max_return = -2.0, 2.0
    pays = "on_the_way"

    def returns(self, state: PigState) -> tuple[float, float]:
        first, second = super().returns(state)
        return (first + state.pot / 100, second)


class EarlyPig(PaidPig):
    pays = "end"  # type: ignore[assignment]


class LatePig(Pig):
    pays = "on_the_way"


class SomedayPig(Pig):
    pays = "someday"  # type: ignore[assignment]


class NothingHeldOut(KuhnPoker):
    instances = ("jack", "queen")


@dataclass(frozen=True)
class Held(Pig):
    """Every card in both splits."""

    split: str = "train"

    @property
    def instances(self) -> Any:
        return ("ace", "jack", of_split(("king", "queen"), self.split)[0])


@dataclass(frozen=True)
class HeldTwice(Held):
    @property
    def instances(self) -> Any:
        return of_split(("king", "queen"), self.split) * 2


# by the start of the sentence, after the name of the game
BROKEN = [
    (NothingHeldOut, "a game with instances is a dataclass with a parameter split"),
    (
        Held,
        "the splits train and test share no instance; got 'ace' .str., 'jack' .str.",
    ),
    (HeldTwice, "instances of both splits, each listed once"),
    (EarlyPig, "returns are 0 until the last state if pays is 'end'; got"),
    (LatePig, "some return is not 0 before the last state if pays is 'on_the_way'"),
    (SomedayPig, "pays is 'end' or 'on_the_way'; got 'someday'"),
    (NoNumber, "measures are finite floats by name"),
    (UnknownKnob, "a knob is a parameter of the game, which is a dataclass; got 'num"),
    (RepeatedKnob, "the knob 'num_players' has a tuple of different values; got"),
    (
        BadKnob,
        "every value of the knob 'num_players' builds the game; got 30 .int.: want",
    ),
    (OneCard, "an episode has at most max_chance_nodes = 1 chance nodes; got 2"),
    (OtherMeasures, "measures have the same names in every last state"),
    (NoMethod, "the game has a method initial_state"),
    (Infinite, "min_return and max_return are finite and in order; got -2.0"),
    (Unstable, "a copy of the game equals it and hashes alike"),
    (HalfFacts, r"teams has an entry for each seat; got \(0,\)"),
    (Restless, "an episode ends within max_turns = 3. End the episode earlier"),
    (LongGame, "an episode ends within max_turns = 1"),
    (Descending, r"legal actions are in ascending order; got \[1, 0\]"),
    (NumpyActions, "actions are integers from 0 to 1; got"),
    (LoadedDeck, "probabilities of chance outcomes sum to 1; got 0.66"),
    (Rake, "returns of a zero-sum game sum to 0; got"),
    (Stakes, "a final return lies between -2.0 and 2.0; got"),
    (Shifted, "a final return lies between|returns of the initial state are 0; got"),
    (WrongFloor, "a final return lies between -1.0 and 2.0; got"),
    (Lottery, "apply gives the same state at every call"),
    (Grows, "a second call of observe, features or legal_actions gives the same"),
    (SharedArray, "a second call of observe, features or legal_actions gives the same"),
    (Mutable, ".* raised"),
    (Unicode, "a text is ASCII; got"),
    (Endless, "a text has at most 20000 characters; got"),
    (Strict, "parse returns action 0 for its text: '.n pass.t'; got"),
    (Twins, "parse returns action 0 for its text|no two legal actions have one text"),
    (Lax, "parse gives a legal action or raises IllegalAction for ''; got 0"),
    (Crashing, r"parse.state, .*. raised KeyError: .* .test_check_game.py:\d+."),
    (Mumbling, "parse reads back the text of what it has read"),
    (Trimming, "parse reads back the text of what it has read.*::"),
    (
        LeakyText,
        "states with one information state have the same text, features and legal actions",
    ),
    (
        LeakyFeatures,
        "states with one information state have the same text, features and legal actions",
    ),
    (LateLeak, r"states with .*; got text from number \d+ on '.*rds: .* and '.*rds: "),
    (LeakyKey, "resample keeps the information state of the seat"),
    (Forgetful, "states with one information state have the same"),
    (Careless, "resample keeps the information state of the seat"),
    (GlobalChance, "resample draws from the given generator alone"),
    (Peeking, "all seats choose in each round|no text, features or mask shows"),
    (Lazy, "resample also draws other states that the seat cannot tell from this one"),
    (Overt, "in a perfect-information game each state has its own information state"),
    (
        LeakyDealer,
        "what a seat cannot know shows in no text, features or mask; got f",
    ),
    (Blind, "features tell apart what the text tells the seat to move"),
    (NumpySeats, "current_player is a seat, CHANCE or TERMINAL, as an int; got"),
    (NumpyDeck, "a chance outcome is an int, a float or a str, as records hold them"),
    (Bools, "parse returns action 0 for its text: 'pass'; got False .bool."),
    (Searching, "parse refuses 'pass or bet'; got 1"),
    (Commas, "action_text has none of .*; got 'pass, check'"),
    (Verbose, "rules have at most 100000 characters; got"),
    (Moody, "rules are the same at every call; got"),
    (Mixed, "a zero-sum game is competitive, or always pays nothing; got 'mixed'"),
    (Rivals, "all seats of a cooperative game are in one team; got .0, 1."),
    (Generous, "the team that forfeits ends with at most its return so far, or with"),
    (Robber, "a forfeit takes nothing from other teams; got"),
    (Leaking, "a forfeit keeps the sum of a zero-sum game; got"),
    (Unshared, "a cooperating team shares a forfeit; got"),
    (Wild, "default_action gives a legal action; got 7"),
    (Telling, "default_action depends only on what the seat to move knows; got"),
    (AnyDigits, "parse refuses 'take .*from pile .*'; got"),
    (Grouped, "parse refuses 'take 0_1 from pile 0_1'; got 0"),
    (
        Verbatim,
        "observe breaks '<.im_start.>' in what another seat wrote; got .*quoted",
    ),
    (ReadNotes, "a message is in no information state of a seat outside its audience"),
    (LongNotes, "a message shows in no text, features or mask of a seat outside its"),
    (Parrot, "no legal action has the words of a message; got 'Quince and saffron"),
    (Rambling, "a text has at most 20000 characters after the longest messages; got"),
    (HiddenPiles, "one text at a seat's turn has one set of legal actions; got"),
    (Pig, "one text of a perfect-information game, and one action, lead to the same"),
    (
        PaidPig,
        "one text of a perfect-information game has one return of each seat; got",
    ),
]


class NoResample(KuhnPoker):
    resample = BaseGame.resample


class NoKey(KuhnPoker):
    information_state = BaseGame.information_state


class Umlauts(KuhnPoker):
    def rules(self, seat: int) -> str:
        return f"{super().rules(seat)} \u00d6l: \u6cb9."


def test_small_games_that_hide_need_no_resample_and_rules_may_hold_any_letters() -> (
    None
):
    check_game(NoResample(), num_episodes=5, needs_page=False)
    check_game(Umlauts(), num_episodes=5, needs_page=False)


@pytest.mark.parametrize(
    ("game", "lacking"), [(NoResample(3), "resample"), (NoKey(), "information_state")]
)
def test_what_a_game_that_hides_lacks_is_named(
    game: Any, lacking: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arena_envs.game.MAX_ENUMERATED", 100)
    with pytest.raises(BrokenPromise, match=rf"lacks `{lacking}`, .*Write it: a "):
        check_game(game, needs_page=False)


def test_states_are_resampled_by_their_chances() -> None:
    """Given one's own card, the cards of the others are equally likely."""
    game, rng = NoResample(), random.Random(0)
    dealt = game.apply(game.apply(game.initial_state(), 2), 0)
    drawn = Counter(game.resample(dealt, 0, rng).cards for _ in range(400))
    assert drawn.keys() == {(2, 0), (2, 1)}
    assert min(drawn.values()) > 160


@pytest.mark.parametrize(("game", "rule"), BROKEN)
def test_the_first_broken_rule_is_named(game: type[Any], rule: str) -> None:
    with pytest.raises(BrokenPromise, match=rf"breaks a rule: ({rule})") as caught:
        check_game(game(), num_episodes=8)
    message = str(caught.value)
    assert game.__name__ in message
    assert "\n" not in message


class Shown(KuhnPoker):
    """Its scene shows every seat all cards."""

    scene = f"{__name__}:scene_of_shown"


def scene_of_shown(game: Shown, state: Any, viewer: int | None) -> Scene:
    return Scene("all", [Cards("cards", [Card(str(card)) for card in state.cards])])


def test_a_fix_is_told_after_the_rule() -> None:
    with pytest.raises(BrokenPromise, match=r"drawn; got 3 .int.\. Show something\.$"):
        demand(False, "a scene can be drawn", 3, fix="Show something.")


def test_a_scene_that_shows_a_hidden_card_breaks_a_rule() -> None:
    rule = "what a seat cannot know shows in no scene of the seat; got '  .2. .0.'"
    with pytest.raises(BrokenPromise, match=rule):
        check_game(Shown(), needs_page=False)


def scene_of_notes(game: Notes, state: Any, viewer: int | None) -> Scene:
    return Scene(str([said.message for said in state.said]), [])


class OpenNotes(Notes):
    scene = f"{__name__}:scene_of_notes"


def test_a_scene_that_shows_a_message_to_others_breaks_a_rule() -> None:
    rule = "a message shows in no scene of a seat outside its audience; got 1"
    with pytest.raises(BrokenPromise, match=rule):
        check_game(OpenNotes(), num_episodes=5, needs_page=False)


class Dividing(TicTacToe):
    def observe(self, state: Any, player: int) -> str:
        return str(player // 0)


def test_a_method_that_raises_is_named_with_its_seat_and_its_line() -> None:
    with pytest.raises(BrokenPromise) as caught:
        check_game(Dividing())
    line = Dividing.observe.__code__.co_firstlineno + 1
    assert str(caught.value).endswith(
        "breaks a rule: observe(state, 0) raised ZeroDivisionError: integer division or "
        f"modulo by zero (test_check_game.py:{line})"
    )


@pytest.mark.parametrize("id", ["kuhn_poker", "tic_tac_toe", "mini_hanabi"])
def test_a_good_game_passes(id: str) -> None:
    check_game(id)


def test_messages_to_some_seats_are_allowed() -> None:
    check_game(Notes(), num_episodes=5, needs_page=False)


def test_other_parameters_are_checked_through_the_rules() -> None:
    check_game(KuhnPoker(4), num_episodes=5, seed=3)


def test_the_text_of_a_good_game_of_dice_may_not_hide_the_pot() -> None:
    check_game(OpenPig(), needs_page=False)


def test_a_game_of_another_package_gets_a_warning_without_a_page() -> None:
    rule = "the page starts with a title, a colon and a sentence"
    with pytest.warns(
        UserWarning, match=rf"NoPage.*{rule}.*needs_page=False"
    ) as caught:
        check_game(NoPage())
    assert caught[0].filename == __file__
    with pytest.raises(BrokenPromise, match=rule):
        check_game(NoPage(), needs_page=True)
    check_game(NoPage(), needs_page=False)
    assert page_of(NoPage) == str(__doc__).strip()


def test_a_game_of_this_package_needs_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[TicTacToe.__module__], "__doc__", "No table.")
    with pytest.raises(BrokenPromise, match="the page starts with a title"):
        check_game(TicTacToe())


@pytest.mark.parametrize("num_episodes", [0, -1, 2.0, None])
def test_a_check_of_nothing_is_refused(num_episodes: Any) -> None:
    with pytest.raises(ValueError, match="want num_episodes above 0, got"):
        check_game("kuhn_poker", num_episodes=num_episodes)


def test_an_unknown_id_is_refused() -> None:
    with pytest.raises(ValueError, match="did you mean 'kuhn_poker-v0'"):
        check_game("kuhn_pker-v0")


def test_the_sample_ends_with_terminal_states_and_is_the_same_each_time() -> None:
    game = arena_envs.make_game("mini_hanabi")
    sample = draw_sample(game, 10, seed=1)
    assert sample == draw_sample(game, 10, seed=1) != draw_sample(game, 10, seed=2)
    assert len(sample.episodes) == 10
    for episode in sample.episodes:
        assert game.current_player(episode[-1][0]) == TERMINAL
    assert len({check.__name__ for check in CHECKS}) == len(CHECKS)
