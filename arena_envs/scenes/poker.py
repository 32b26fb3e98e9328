"""Scenes of poker games, blackjack and liar's dice."""

from collections.abc import Sequence
from typing import Any

from arena_envs.games import _fixed_limit as limit
from arena_envs.games import blackjack as rules_of_blackjack
from arena_envs.games._fixed_limit import Betting
from arena_envs.games.blackjack import Blackjack
from arena_envs.games.kuhn_poker import NAMES, KuhnPoker
from arena_envs.games.kuhn_poker import State as KuhnState
from arena_envs.games.leduc_poker import NUM_SUITS, LeducPoker
from arena_envs.games.leduc_poker import State as LeducState
from arena_envs.games.liars_dice import LiarsDice
from arena_envs.games.liars_dice import State as DiceState
from arena_envs.scenes.registry import turn_title
from arena_envs.scenes.shapes import Card, Cards, Cell, Scene, Table, Track, seat_tone


def _hand(seat: int, faces: Sequence[str | None]) -> Cards:
    return Cards(f"player_{seat}", [Card(face) for face in faces], seat)


def _actions(title: str, taken: Sequence[tuple[int, str]]) -> Track:
    return Track(title, [Cell(name, seat_tone(seat)) for seat, name in taken])


def kuhn_poker(game: KuhnPoker, state: KuhnState, viewer: int | None) -> Scene:
    """A card for each seat, the actions and the chips."""
    num = game.num_players
    known = dict(enumerate(state.cards))
    if viewer is not None:
        key: Any = game.information_state(state, viewer)
        known = dict(key[3]) if len(key) > 3 else {}
        if key[1] is not None:
            known[viewer] = key[1]
    names = ("9", "10", "J", "Q", "K")[4 - num :]
    hands = [
        _hand(seat, [names[known[seat]] if seat in known else None])
        for seat in range(len(state.cards))
    ]
    taken = [(turn % num, NAMES[bet]) for turn, bet in enumerate(state.bets)]
    paid = [1 + sum(state.bets[seat::num]) for seat in range(num)]
    return Scene(
        turn_title(game, state, viewer),
        [*hands, _actions("actions", taken), _pot(paid, [False] * num)],
    )


def _pot(paid: Sequence[int], folded: Sequence[bool]) -> Table:
    rows = [
        [Cell(f"player_{seat}", "gone" if out else ""), Cell(f"{chips}")]
        for seat, (chips, out) in enumerate(zip(paid, folded, strict=True))
    ]
    gone = "; gray: folded" if any(folded) else ""
    return Table(f"pot of {sum(paid)} chips{gone}", ("seat", "paid"), rows)


def betting_shapes(betting: Betting, names: Sequence[str], history: Any) -> list[Any]:
    """The actions of each round, and the pot."""
    tracks = [
        _actions(name, [(seat, limit.NAMES[action]) for seat, action in actions])
        for name, actions in zip(names, history, strict=False)
    ]
    return [*tracks, _pot(betting.paid, betting.folded)]


def leduc_poker(game: LeducPoker, state: LeducState, viewer: int | None) -> Scene:
    """A card for each seat, the public card, the rounds and the chips."""
    num, cards = game.num_players, state.cards
    hands: Sequence[int | None] = cards[:num]
    if viewer is not None:
        key: Any = game.information_state(state, viewer)
        hands = key[1][: len(hands)]
    names = ("10", "J", "Q", "K")[3 - num :]
    shown = [
        _hand(seat, [None if card is None else names[card // NUM_SUITS]])
        for seat, card in enumerate(hands)
    ]
    public = Cards("public card", [Card(names[c // NUM_SUITS]) for c in cards[num:]])
    rounds = betting_shapes(state.betting, ("round 1", "round 2"), state.history)
    return Scene(turn_title(game, state, viewer), [*shown, public, *rounds])


def blackjack(game: Blackjack, state: Any, viewer: int | None) -> Scene:
    """The hand of the player, and the dealer's, whose first card is hidden at first."""
    player, shown, _, _ = game.information_state(state, 0)
    dealer = state.dealer
    hidden = len(dealer) - len(shown) if viewer is not None else 0
    ranks = rules_of_blackjack.RANKS
    mine = [ranks[card % 13] for card in player]
    theirs: list[str | None] = [None] * hidden
    theirs += [ranks[card % 13] for card in dealer[hidden:]]
    total = rules_of_blackjack.total(player)
    count = rules_of_blackjack.total(dealer[hidden:])
    hands = [
        Cards(f"player_0: {total}", [Card(face) for face in mine], 0),
        Cards(f"dealer: {count}", [Card(face) for face in theirs]),
    ]
    return Scene(turn_title(game, state, viewer), hands)


def liars_dice(game: LiarsDice, state: DiceState, viewer: int | None) -> Scene:
    """The dice of each seat, and the bids."""
    num = game.num_dice
    rolled = [
        sorted(state.dice[seat * num : (seat + 1) * num])
        for seat in range(game.num_players)
    ]
    seen: Any = rolled
    if viewer is not None:
        key: Any = game.information_state(state, viewer)
        seen = key[1]
    hands = []
    for seat, dice in enumerate(rolled):
        faces = [str(die + 1) for die in seen[seat]]
        hands.append(_hand(seat, faces or [None] * len(dice)))
    bids = [
        (turn % game.num_players, game.action_text(state, action))
        for turn, action in enumerate(state.actions)
    ]
    return Scene(turn_title(game, state, viewer), [*hands, _actions("bids", bids)])
