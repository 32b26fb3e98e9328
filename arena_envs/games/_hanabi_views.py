"""Parts of Hanabi: what its players read, and the same as numbers."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from arena_envs.games._hanabi_state import COLORS, Setup, State, Turn


def text(setup: Setup, state: State, seat: int) -> str:
    """What a seat sees: the table, all hands but its own, hints, and the latest turns."""
    deck = sum(state.deck)
    end = "" if deck else f" Turns left: {state.turns_left}."
    tops = zip(COLORS, state.fireworks, strict=False)
    copies = enumerate(state.discards)
    discards = [_card(setup, card) for card, num in copies for _ in range(num)]
    lines = [
        f"You are player_{seat}. Life tokens: {state.life_tokens}. "
        f"Information tokens: {state.information_tokens}. Deck: {deck}.{end}",
        f"Fireworks: {', '.join(f'{color} {top}' for color, top in tops)}.",
        f"Discards: {', '.join(discards) or 'none'}.",
        "Your cards, as far as you know:",
    ]
    for slot, hint in enumerate(state.hints[seat]):
        lines.append(f"{slot}: {_hint(setup, hint)}")
    for other in _others(setup, seat):
        lines.append(f"Cards of player_{other} (as far as player_{other} knows):")
        for slot, card in enumerate(state.hands[other]):
            known = _hint(setup, state.hints[other][slot])
            lines.append(f"{slot}: {_card(setup, card)} ({known})")
    news = [_news(setup, who, turn) for who, turn in _latest(setup, state, seat)]
    return "\n".join([*lines, *(["Since your last turn:"] if news else []), *news])


def action_text(setup: Setup, seat: int, action: int) -> str:
    """Canonical text of an action of this seat."""
    verb, where, bit = setup.moves[action]
    if verb != "reveal":
        return f"{verb} {where}"
    value, first_rank = bit.bit_length() - 1, setup.num_colors
    is_color = value < first_rank
    name = COLORS[value] if is_color else f"rank {value - first_rank + 1}"
    return f"reveal {name} to player_{(seat + where) % setup.num_players}"


def features(setup: Setup, state: State, seat: int) -> NDArray[np.float32]:
    """The knowledge of `text` as numbers, seats counted from the own one."""
    n, num_cards = setup.num_players, len(setup.copies)
    others = _others(setup, seat)
    to_move = (state.player - seat) % n if state.player >= 0 else -1
    values = [
        *_one_hot(seat, n),
        *_one_hot(to_move, n),
        sum(state.deck) / sum(setup.copies),
        state.information_tokens / max(1, setup.max_information_tokens),
        state.life_tokens / setup.max_life_tokens,
        state.turns_left / n,
    ]
    for top in state.fireworks:
        values += _one_hot(top, setup.num_ranks + 1)
    values += [num / of for num, of in zip(state.discards, setup.copies, strict=True)]
    for who in (seat, *others):
        missing = setup.cards_per_hand - len(state.hands[who])
        for hint in (*state.hints[who], *[0] * missing):
            values += _bits(hint, setup.num_colors + setup.num_ranks)
        if who != seat:
            for card in (*state.hands[who], *[-1] * missing):
                values += _one_hot(card, num_cards)
    latest = dict(_latest(setup, state, seat))
    for who in others:
        turn = latest.get(who, Turn(action=-1))
        values += _one_hot(turn.action, len(setup.moves))
        values += _one_hot(turn.card, num_cards)
        values += [float(turn.scored), *_bits(turn.touched, setup.cards_per_hand)]
    return np.array(values, np.float32)


def rules(setup: Setup, seat: int) -> str:
    """The rules of the game, with examples of actions of this seat."""
    told = f"player_{(seat + 1) % setup.num_players}"
    per_color = enumerate(setup.copies[: setup.num_ranks], start=1)
    copies = ", ".join(f"{num} of rank {rank}" for rank, num in per_color)
    return (
        f"This is Hanabi, a cooperative card game with {setup.num_players} players. The "
        f"colors are {', '.join(COLORS[: setup.num_colors])}; in each color, the deck has "
        f"{copies}. Each player holds {setup.cards_per_hand} cards, numbered from 0, and "
        "sees the cards of the others but not their own. Together you build a firework in "
        "each color, one card of each rank, from rank 1 upwards. In turn, from player_0 "
        'on, each player does one of three things. "play 0" plays your card 0: if it has '
        "the next rank of its color's firework, it is added there, otherwise it is "
        'discarded and you all lose a life token. "discard 0" discards your card 0 and '
        "regains an information token; this is not allowed while none is missing. "
        f'"reveal {COLORS[0]} to {told}" or "reveal rank 1 to {told}" costs an '
        f"information token and points out all cards of {told} that have this color or "
        "rank, of which there must be at least one. A completed firework also regains a "
        "token. When a card leaves a hand, the cards behind it move down by one number "
        "and a new card is drawn as the last. You start with "
        f"{setup.max_life_tokens} life tokens and {setup.max_information_tokens} "
        "information tokens, the most that you can have. The game ends when all fireworks "
        "are complete, when no life token is left, or when each player has had one more "
        "turn after the last card was drawn. The score of everybody is the number of "
        "cards in the fireworks, or 0 if no life token is left."
    )


def _others(setup: Setup, seat: int) -> list[int]:
    n = setup.num_players
    return [(seat + offset) % n for offset in range(1, n)]


def _latest(setup: Setup, state: State, seat: int) -> Iterator[tuple[int, Turn]]:
    """Seat and turn of everything that the others did since this seat's last turn."""
    n, num_turns = setup.num_players, len(state.history)
    num_latest = (num_turns - 1 - seat) % n
    for index in range(max(0, num_turns - num_latest), num_turns):
        yield index % n, state.history[index]


def _news(setup: Setup, seat: int, turn: Turn) -> str:
    """A turn as the others read it."""
    played = f"player_{seat}: {action_text(setup, seat, turn.action)}"
    verb = setup.moves[turn.action].verb
    if verb == "reveal":
        every = range(setup.cards_per_hand)
        slots = [str(slot) for slot in every if turn.touched >> slot & 1]
        return f"{played} ({'card' if len(slots) == 1 else 'cards'} {', '.join(slots)})"
    result = {"discard": "", "play": ", added" if turn.scored else ", life lost"}[verb]
    return f"{played} ({_card(setup, turn.card)}{result})"


def _card(setup: Setup, card: int) -> str:
    color, rank = divmod(card, setup.num_ranks)
    return f"{COLORS[color]} {rank + 1}"


def _hint(setup: Setup, hint: int) -> str:
    """Possible colors and ranks, such as "red/blue, rank 1"."""
    num_colors, num_ranks = setup.num_colors, setup.num_ranks
    colors = [COLORS[c] for c in range(num_colors) if hint >> c & 1]
    ranks = [str(r + 1) for r in range(num_ranks) if hint >> num_colors + r & 1]
    color = "any color" if len(colors) == num_colors else "/".join(colors)
    rank = "any rank" if len(ranks) == num_ranks else f"rank {'/'.join(ranks)}"
    return f"{color}, {rank}"


def _one_hot(index: int, size: int) -> list[float]:
    return [float(i == index) for i in range(size)]


def _bits(number: int, size: int) -> list[float]:
    return [float(number >> i & 1) for i in range(size)]
