"""Scripted players of Werewolf."""

import random
import re
from collections.abc import Sequence

from arena_envs import talk
from arena_envs.games.werewolf import Werewolf
from arena_envs.games.werewolf import state as states
from arena_envs.games.werewolf.state import NIGHT, WOLF, State
from arena_envs.talk import Utterance

STYLES = ("greedy", "honest", "silent")
CLAIM = "I am the seer."
FOUND = re.compile(r"player_([0-9]) is (a|no) wolf")
Claims = dict[int, dict[int, bool]]  # by claimed seer: who is a wolf


class WerewolfPlayer(talk.Scripted):
    """Plays Werewolf in one of three styles, in every role.

    | Style    | Seer                | Others of the village                 | Wolves              |
    |----------|---------------------|---------------------------------------|---------------------|
    | `honest` | tells what it found | believe the first who claims to be it | pass; vote at random |
    | `greedy` | tells what it found | with two who claim, vote for one of them | claim to be the seer, accuse, vote alike |
    | `silent` | passes              | pass; vote at random                  | pass; vote at random |

    Claims are made and read in words: "I am the seer. player_3 is a wolf." Who died with another
    role is not believed. `honest` and `greedy` wolves kill who claims to be the seer, and
    such doctors save it; else targets are random, except that seers see new players. With one wolf, no
    seer and no doctor, a `silent` village earns the value, whatever the wolf does.
    """

    game, styles = Werewolf, STYLES

    def reply(self, game: Werewolf, state: State, rng: random.Random) -> Utterance:
        legal = game.legal_actions(state)
        seat = game.current_player(state)
        if self.style == "silent":
            return legal[-1] if state.phase == states.TALK else rng.choice(legal)
        if state.phase == NIGHT:
            wanted = _wanted_at_night(state, seat)
            return rng.choice(_naming(legal, wanted) or legal)
        if state.phase == states.TALK:
            return self._speak(game, state, seat, rng)
        return rng.choice(_naming(legal, self._suspects(state, seat)) or legal)

    def _speak(
        self, game: Werewolf, state: State, seat: int, rng: random.Random
    ) -> Utterance:
        known = states.known_roles(state, seat)
        others = [other for other in state.living if other != seat]
        if known[seat] == states.SEER:
            found = _suspects_of_seer(state, seat) or [s for s in others if known[s]]
            if found:
                return _claim(game, found[-1], known[found[-1]] != states.NO_WOLF)
        elif known[seat] == WOLF and self.style == "greedy":
            pack = [s for s in state.living if known[s] == WOLF]
            if seat == pack[0]:
                rivals = [s for s in _claims(state) if s in others]
                victims = [s for s in others if known[s] != WOLF]
                return _claim(game, (rivals or [rng.choice(victims)])[0], True)
        return Utterance("pass")

    def _suspects(self, state: State, seat: int) -> Sequence[int]:
        """The players that the seat wants to vote for."""
        known, claims = states.known_roles(state, seat), _claims(state)
        if known[seat] == states.SEER:
            cleared = [s for s in state.living if not known[s]]
            return _suspects_of_seer(state, seat) or cleared
        if known[seat] == WOLF:
            targets = [s for s in state.living if known[s] != WOLF]
            pack = [found for s, found in claims.items() if known[s] == WOLF]
            agreed = [s for found in pack for s in _accused(found) if s in targets]
            return agreed[-1:] if self.style == "greedy" and agreed else targets
        believed = {s: found for s, found in claims.items() if s != seat}
        living = [s for s in believed if s in state.living]
        if self.style == "greedy" and len(living) > 1:
            return living
        found = next(iter(believed.values()), {})
        named = [s for s in _accused(found) if s in state.living]
        return named or [s for s in state.living if found.get(s) is None]


def _suspects_of_seer(state: State, seat: int) -> list[int]:
    """The wolves that a seer knows, and who else claims to be the seer."""
    known = states.known_roles(state, seat)
    liars = _claims(state).keys() - {seat}
    return [s for s in state.living if known[s] == WOLF or s in liars]


def _wanted_at_night(state: State, seat: int) -> list[int]:
    known = states.known_roles(state, seat)
    if known[seat] == states.SEER:
        return [other for other, role in enumerate(known) if not role]
    return list(_claims(state))


def _claims(state: State) -> Claims:
    """Claims to be the seer in words, in order, with their findings; no refuted ones."""
    refuted = {death.seat for death in state.deaths if death.role != states.SEER}
    claims: Claims = {}
    for each in state.past:
        speaks = each.phase == states.TALK and each.seat not in refuted
        if speaks and CLAIM in each.said.message:
            found = claims.setdefault(each.seat, {})
            for target, kind in FOUND.findall(each.said.message):
                found[int(target)] = kind == "a"
    return claims


def _accused(found: dict[int, bool]) -> list[int]:
    return [seat for seat, is_wolf in found.items() if is_wolf]


def _claim(game: Werewolf, target: int, is_wolf: bool) -> Utterance:
    said = Utterance("accuse" if is_wolf else "clear", (target,))
    words = f"{CLAIM} player_{target} is {'a' if is_wolf else 'no'} wolf."
    return talk.with_words(game, said, words)


def _naming(legal: Sequence[Utterance], seats: Sequence[int]) -> list[Utterance]:
    return [said for said in legal if said.values and said.values[0] in seats]
