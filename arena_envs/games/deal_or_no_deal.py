r"""Deal or no deal: two players talk about items of private value, then both claim a share.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("deal_or_no_deal-v1", max_talk=6)`; see `DealOrNoDeal` |
| Agents      | `player_0`, who speaks first, and `player_1`                           |
| Kind        | mixed, imperfect information                                           |
| Actions     | texts: "report 1 2 3", "demand 1 0 2", "say: ...", "end"; "claim 1 0 2" |
| Rewards     | at the end: points of the own share / `points`; 0 if the claims do not fit |
| Length      | 3 to 8 turns, `max_talk + 2` at most; 7.454986 on average in random play |
| Known value | together: largest Nash product 1.515763, silent .984430; random play .020859 each |
| Source      | M. Lewis et al., *Deal or No Deal?* (2017), https://arxiv.org/abs/1706.05125 |

Chance draws the pool, that is the number of items of each kind: at least one of each kind,
`min_items` to `max_items` together, all pools with the same probability. Then it draws the
values of both players, all pairs of a split with the same probability, by the rules of the paper: to each
player all items together are worth `points`, each kind is worth something to at least one player,
and at least one kind to both. First the values of `player_0` are drawn, then those of `player_1`.
A player knows its own values only.

The players talk in turn, for at most `max_talk` turns or until "end". "report 1 2 3" says that an
item of the first kind is worth 1 to the speaker, of the second 2, of the third 3. "demand 1 0 2"
says how many items of each kind the speaker wants. "say: ..." is a message alone; the other moves
may have one too. Nothing that is said is binding or checked. Then both claim a share, and neither sees the
other's claim before its own. If both claims together are exactly the pool, each player gets
what it claimed. Otherwise both get nothing, as in the paper. There is no other way to decline: a
player who wants no deal claims everything. OpenSpiel's `bargaining` has the same items and values,
but its offers are accepted or declined, and it has no talk.

The legal actions are a finite core without messages: the true report, all demands, "end", and
all claims. Texts may also hold other reports and messages; the grammar is that of `bargaining`. The
prompt shows the latest three utterances in full, and numbers of earlier ones. Features hold all
numbers, but no messages.

Known values are means over the draws. If both players know all values, the division with the
largest product of points (Nash 1950) gives them 1.515763 together (1.513338 over both splits). Where
several divisions have this product, the one with the largest sum counts: another tie rule gives
another number, and the paper names none. A convention without talk, such as
"the first half of the items to player_0", always fits and gives 1 together over both splits, since on
average an item is worth as much to both players; in the train split .984430. In random play claims fit with probability 1 / n, if n
shares can be claimed, and give 1/2 on average.

Cheapest trick known: none. `dealer:honest` keeps half of its points, and gives the other player the best
of the rest by its report, so no report pays more than the truth: 0.636 as `player_0` and 0.791 as
`player_1`. Demanding and claiming all that is worth something pays 0.34; to demand nothing as `player_0` and
claim what the other leaves, 0.32.

Further differences from the paper: its dialogues are free words alone, without the moves "report" and
"demand"; it counts a mean over agreements, here disagreements count as 0.

History: version 1 draws from a half of the 5,793 pairs of values; in version 0 `dealer:honest` believed
every report, and claims paid 1.

Measures of an episode; all but `lies` are 0 if the claims do not fit:

- `agreement`: 1 if the claims fit.
- `efficiency`: points of both / the largest sum of any division.
- `nash_product`: product of the points / the largest product of any division (Nash 1950).
- `pareto`: 1 if no division gives one player more and the other at least as much; the paper
  reports its mean.
- `envy_free`: 1 if neither player prefers the other's share (Foley 1967), that is if both have at
  least half of all points.
- `lies`: false reports / turns of talk; 0 without talk.
"""

import operator
import random
import re
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from typing import NamedTuple

from arena_envs import talk
from arena_envs.game import (
    CHANCE,
    TERMINAL,
    Vector,
    check_split,
    counted,
    filled,
    hidden_again,
    next_entries,
    np,
    of_split,
    param,
)
from arena_envs.games.kits.number_words import in_words
from arena_envs.scenes.shapes import Shapes, Table, cells, seat_cell, talk_of
from arena_envs.talk import Utterance

Numbers = tuple[int, ...]  # one for each kind of item


@lru_cache(64)
def pools(num_kinds: int, low: int, high: int, points: int) -> tuple[Numbers, ...]:
    """Numbers of items that may be drawn, ascending.

    Each kind has an item, there are `low` to `high` items, and there are two pairs of values
    of both players or more, of which the splits get one each.

    >>> pools(2, 2, 3, 3)
    ((1, 1), (1, 2), (2, 1))
    """
    most = range(1, high - num_kinds + 2)
    candidates = product(most, repeat=num_kinds)
    return tuple(
        pool
        for pool in candidates
        if low <= sum(pool) <= high and sum(weights(pool, points).values()) > 1
    )


@lru_cache(4096)
def all_values(pool: Numbers, points: int) -> tuple[Numbers, ...]:
    """Values of an item of each kind with which all items are worth `points`, ascending.

    >>> all_values((1, 2), 2)
    ((0, 1), (2, 0))
    """
    if len(pool) == 1:
        return () if points % pool[0] else ((points // pool[0],),)
    return tuple(
        (value, *further)
        for value in range(points // pool[0] + 1)
        for further in all_values(pool[1:], points - value * pool[0])
    )


@lru_cache(65_536)
def partners(pool: Numbers, points: int, values: Numbers) -> tuple[Numbers, ...]:
    """Values that the other player may have: every kind counts for one, and one kind for both."""
    kinds = _kinds(values)
    return tuple(v for v in all_values(pool, points) if _fit(kinds, _kinds(v)))


@lru_cache(4096)
def weights(pool: Numbers, points: int) -> dict[Numbers, int]:
    """The number of `partners` of all values that have some."""
    kinds = Counter(map(_kinds, all_values(pool, points)))
    by_kinds = {
        kinds_of_seat: sum(
            number
            for partner_kinds, number in kinds.items()
            if _fit(kinds_of_seat, partner_kinds)
        )
        for kinds_of_seat in kinds
    }
    num_partners = {v: by_kinds[_kinds(v)] for v in all_values(pool, points)}
    return {values: number for values, number in num_partners.items() if number}


@lru_cache(256)
def deals_of(
    pool: Numbers, points: int, split: str
) -> tuple[tuple[Numbers, Numbers], ...]:
    """The pairs of values of both players that a split draws from, all equally likely."""
    pairs = (
        (values_0, values_1)
        for values_0 in weights(pool, points)
        for values_1 in partners(pool, points, values_0)
    )
    return of_split(pairs, split)


def _kinds(values: Numbers) -> tuple[bool, ...]:
    return tuple(map(bool, values))


def _fit(kinds_0: tuple[bool, ...], kinds_1: tuple[bool, ...]) -> bool:
    pairs = list(zip(kinds_0, kinds_1, strict=True))
    return all(map(any, pairs)) and any(map(all, pairs))


def worth(values: Numbers, share: Numbers) -> int:
    """Points of a share."""
    return sum(map(operator.mul, values, share))


def rest(pool: Numbers, share: Numbers) -> Numbers:
    """The rest of the pool after a share."""
    return tuple(map(operator.sub, pool, share))


@lru_cache(1024)
def shares_of(pool: Numbers) -> tuple[Numbers, ...]:
    """All shares that a player may claim, ascending."""
    return tuple(product(*(range(number + 1) for number in pool)))


def convention(pool: Numbers, seat: int) -> Numbers:
    """A division without talk: items in order, the first half to player_0, an odd one too.

    >>> convention((1, 3, 1), 0), convention((1, 3, 1), 1)
    ((1, 2, 0), (0, 1, 1))
    """
    left, share = (sum(pool) + 1) // 2, []
    for number in pool:
        share.append(min(number, left))
        left -= share[-1]
    return rest(pool, tuple(share)) if seat else tuple(share)


class Best(NamedTuple):
    """The best results among all divisions of a pool.

    Attributes:
        total: largest sum of points.
        product: largest product of points.
        fair: the share of player_0 with this product; among several the one with the
            largest sum, then the smallest difference, then the first.
        efficient: pairs of points which no other division improves for one player without
            loss for the other.
    """

    total: int
    product: int
    fair: Numbers
    efficient: frozenset[tuple[int, int]]


@lru_cache(4096)
def best_of(pool: Numbers, values: tuple[Numbers, Numbers]) -> Best:
    """The best divisions, by going through all of them."""
    points = {
        share: (worth(values[0], share), worth(values[1], rest(pool, share)))
        for share in shares_of(pool)
    }

    def rank(share: Numbers) -> tuple[int, int, int]:
        points_0, points_1 = points[share]
        return (points_0 * points_1, points_0 + points_1, -abs(points_0 - points_1))

    fair = max(points, key=rank)
    pairs = set(points.values())
    efficient = frozenset(
        pair
        for pair in pairs
        if not any(o != pair and o[0] >= pair[0] and o[1] >= pair[1] for o in pairs)
    )
    fair_0, fair_1 = points[fair]
    return Best(max(map(sum, pairs)), fair_0 * fair_1, fair, efficient)


MEASURES = ("agreement", "efficiency", "nash_product", "pareto", "envy_free", "lies")
SPOKEN = ("report", "demand", "say")


class State(NamedTuple):
    """The pool, the values drawn so far, the talk, and the claims.

    Attributes:
        pool: number of items of each kind; empty before it is drawn.
        values: points of an item of each kind, by seat.
        said: all utterances of the talk.
        claims: items of each kind that are claimed, by seat.
    """

    pool: Numbers = ()
    values: tuple[Numbers, ...] = ()
    said: tuple[Utterance, ...] = ()
    claims: tuple[Numbers, ...] = ()


@lru_cache(1024)
def moves_of(
    items: Sequence[str], pool: Numbers, points: int, messages: bool
) -> tuple[talk.Move, ...]:
    """The moves of the talk, and the claim, with a pool of items."""
    labels = [f"{item.upper()}S" for item in items]
    pairs = list(zip(pool, labels, strict=True))
    values = tuple(talk.Integer(0, points, label) for label in labels)
    share = tuple(talk.Integer(0, number, label) for number, label in pairs)
    say = (talk.Move("say", message="must"),) if messages else ()
    return (
        talk.Move("report", values),
        talk.Move("demand", share),
        *say,
        talk.Move("end"),
        talk.Move("claim", share, message="no"),
    )


@lru_cache(1024)
def core(pool: Numbers) -> tuple[tuple[Utterance, ...], tuple[Utterance, ...]]:
    """All demands, and all claims."""
    shares = shares_of(pool)
    return (
        tuple(Utterance("demand", share) for share in shares),
        tuple(Utterance("claim", share) for share in shares),
    )


def checked_items(items: object) -> tuple[str, ...]:
    """The kinds as a tuple.

    Raises:
        ValueError: they are not 2 to 4 different words.
    """
    if (
        not isinstance(items, list | tuple)
        or not 2 <= len(items) <= 4
        or not all(type(i) is str and re.fullmatch("[a-z]{1,12}", i) for i in items)
        or len(set(items)) != len(items)
    ):
        raise ValueError(
            "want items as 2 to 4 different words of at most 12 letters a to z, "
            f"got {items!r:.200}"
        )
    return tuple(items)


Action = Utterance | str  # chance draws numbers, such as "2 1 3"
END = Utterance("end")


@dataclass(frozen=True)
class DealOrNoDeal(talk.TalkGame[State, Action]):
    """Division of items of private value.

    Args:
        items: names of 2 to 4 kinds, each a word of at most 12 letters a to z.
        min_items: fewest items, from the number of kinds to `max_items`.
        max_items: most items, at most 12.
        points: what all items are worth to each player, 1 to 20.
        max_talk: turns of talk of both players together, 0 to 30.
        messages: whether free words are allowed in the talk.
        max_message: longest message in characters, 1 to 400.
        split: of the pairs of values, "train" or "test"; they share none.

    Raises:
        ValueError: a parameter is out of range, or no values fit.
    """

    items: Sequence[str] = ("book", "hat", "ball")
    min_items: int = param(5, lambda game: len(game.items), lambda game: game.max_items)
    max_items: int = param(7, lambda game: len(game.items), 12)
    points: int = param(10, 1, 20)
    max_talk: int = param(6, 0, 30)
    messages: bool = True
    max_message: int = param(300, 1, 400)
    split: str = "train"

    shares_measured = MEASURES
    first_state = State()
    num_players = 2
    kind = "mixed"
    max_chance_nodes = 3  # the pool, and the values of both seats
    min_return = 0.0
    max_return = 1.0
    default_value = "together: largest Nash product 1.515763, silent .984430; random play .020859 each"

    def __post_init__(self) -> None:
        # YAML and JSON give lists in place of tuples
        object.__setattr__(self, "items", checked_items(self.items))
        super().__post_init__()
        check_split(self.split, True)
        if not self._pools:
            raise ValueError(
                "want points that items of integer values can be worth to both players, "
                f"got points={self.points} for {self.min_items} to {self.max_items} items"
            )

    @property
    def max_turns(self) -> int:
        return self.max_talk + 2

    def current_player(self, state: State) -> int:
        if len(state.values) < 2:
            return CHANCE
        if self.is_talking(state):
            return len(state.said) % 2
        return len(state.claims) if len(state.claims) < 2 else TERMINAL

    def is_talking(self, state: State) -> bool:
        """Whether the talk goes on."""
        utterances = state.said
        return len(utterances) < self.max_talk and not (
            utterances and utterances[-1].move == "end"
        )

    def chance_outcomes(self, state: State) -> list[tuple[Action, float]]:
        draws = [(pool, 1 / len(self._pools)) for pool in self._pools]
        if state.pool:
            pairs = deals_of(state.pool, self.points, self.split)
            draws = next_entries(pairs, state.values)
        return [(" ".join(map(str, numbers)), chance) for numbers, chance in draws]

    @property
    def instances(self) -> Sequence[Hashable]:
        return [
            (pool, *pair)
            for pool in self._pools
            for pair in deals_of(pool, self.points, self.split)
        ]

    def legal_actions(self, state: State) -> Sequence[Utterance]:
        player = self.current_player(state)
        if player < 0:
            return ()
        demands, claims = core(state.pool)
        if self.is_talking(state):
            return (Utterance("report", state.values[player]), *demands, END)
        return claims

    def apply(self, state: State, action: Action) -> State:
        pool, values, utterances, claims = state
        if isinstance(action, str):
            numbers = tuple(map(int, action.split()))
            return State(pool, (*values, numbers)) if pool else State(numbers)
        if action.move == "claim":
            return State(pool, values, utterances, (*claims, action.values))
        return State(pool, values, (*utterances, action), claims)

    def agreed(self, state: State) -> bool:
        """Whether the claims are exactly the pool."""
        claims = state.claims
        if len(claims) < 2:
            return False
        return tuple(map(operator.add, *claims)) == state.pool

    def points_of(self, state: State) -> tuple[int, int]:
        """Points of both seats; 0 without an agreement."""
        if not self.agreed(state):
            return (0, 0)
        points_0, points_1 = map(worth, state.values, state.claims)
        return (points_0, points_1)

    def returns(self, state: State) -> tuple[float, float]:
        points_0, points_1 = self.points_of(state)
        return (points_0 / self.points, points_1 / self.points)

    def measures(self, state: State) -> dict[str, float]:
        values, points = dict.fromkeys(MEASURES, 0.0), self.points_of(state)
        if state.said:
            false = [
                utterance.move == "report"
                and utterance.values != state.values[turn % 2]
                for turn, utterance in enumerate(state.said)
            ]
            values["lies"] = sum(false) / len(false)
        if self.agreed(state):
            best = best_of(state.pool, (state.values[0], state.values[1]))
            values["agreement"] = 1.0
            values["efficiency"] = sum(points) / best.total
            values["nash_product"] = points[0] * points[1] / best.product
            values["pareto"] = float(points in best.efficient)
            values["envy_free"] = float(2 * min(points) >= self.points)
        return values

    def moves(self, pool: Numbers) -> tuple[talk.Move, ...]:
        """The moves of the talk, then the claim."""
        return moves_of(self.items, pool, self.points, self.messages)

    def observe(self, state: State, seat: int) -> str:
        player, now = self.current_player(state), "The game is over."
        if player == CHANCE:
            now = "The items and their values are being drawn."
        elif player >= 0:
            mover = "you are" if player == seat else f"player_{player} is"
            now = f"{'The talk is over:' if self.max_talk else 'Now'} {mover} to claim."
            if self.is_talking(state):
                turn = f"Turn {len(state.said) + 1} of {self.max_talk} of the talk"
                now = f"{turn}: {mover} to speak."
        lines = [f"You are player_{seat}. {now}"]
        if len(state.values) == 2:
            own_worth, there = (
                self.each_worth(state.values[seat]),
                self.counted(state.pool),
            )
            lines.append(f"The items: {there}. Worth to you: {own_worth}.")
            lines += [*self._said_lines(state, seat), *self._claim_lines(state, seat)]
        return "\n".join(lines)

    def counted(self, numbers: Numbers) -> str:
        """The items of each kind that there are, such as "2 books, 1 hat"."""
        pairs = zip(numbers, self.items, strict=True)
        return ", ".join(counted(n, item) for n, item in pairs if n) or "nothing"

    def each_worth(self, values: Sequence[int]) -> str:
        """The worth of an item of each kind, such as "a book 2, a hat 0"."""
        return ", ".join(
            f"{'an' if item[0] in 'aeiou' else 'a'} {item} {value}"
            for item, value in zip(self.items, values, strict=True)
        )

    def _said_lines(self, state: State, seat: int) -> Iterator[str]:
        utterances = state.said

        def full_line(turn: int) -> str:
            speaker, hearer = talk.named(turn % 2, seat), talk.named(1 - turn % 2, seat)
            speaker, (move, values, *_) = (
                speaker.replace("you", "You"),
                utterances[turn],
            )
            if move == "report":
                return f"{speaker} reported the values {self.each_worth(values)}"
            if move == "demand":
                demand, left = map(self.counted, (values, rest(state.pool, values)))
                return f"{speaker} demanded {demand}, leaving {left} to {hearer}"
            return f"{speaker} {'said' if move == 'say' else 'ended the talk'}"

        def brief(turn: int) -> str:
            speaker, values = (
                talk.named(turn % 2, seat),
                map(str, utterances[turn].values),
            )
            move = {"report": "reported", "demand": "demanded"}.get(
                utterances[turn].move
            )
            return f"{speaker} {move} {' '.join(values)}" if move else ""

        return talk.transcript(utterances, seat, full_line, brief=brief)

    def _claim_lines(self, state: State, seat: int) -> Iterator[str]:
        claimed = [self.counted(claim) for claim in state.claims]
        if len(claimed) == 2:
            end = "do not fit: both players get nothing."
            if self.agreed(state):
                end = f"fit: you get {self.points_of(state)[seat]} of {self.points} points."
            yield (
                f"You claimed {claimed[seat]}, player_{1 - seat} claimed {claimed[1 - seat]}. "
                f"The claims {end}"
            )
        elif len(claimed) > seat:
            yield f"You have claimed {claimed[seat]}."

    def information_state(self, state: State, seat: int) -> tuple[object, ...]:
        pool, values, utterances, claims = state
        visible_claims = claims if len(claims) == 2 else claims[seat : seat + 1]
        return (
            seat,
            len(claims),
            pool,
            values[seat : seat + 1],
            utterances,
            visible_claims,
        )

    def features(self, state: State, seat: int) -> Vector:
        """The knowledge of a seat as numbers, without messages.

        One-hot seat (2); one-hot: own talk, the other's talk, own claim, the other's claim
        (4); items of each kind / `max_items`; own values / `points`; own claim / `max_items`;
        and for each turn of talk one-hot report, demand, message alone (3), and the numbers of
        a report / `points` or of a demand / `max_items`.
        """
        kinds, player = len(self.items), self.current_player(state)
        values = np.zeros(6 + 3 * kinds + self.max_talk * (3 + kinds), np.float32)
        values[seat] = 1
        if player >= 0:
            values[2 + 2 * (not self.is_talking(state)) + (player != seat)] = 1
        number_rows = [(0, state.pool, self.max_items)]
        number_rows += [
            (1, own_values, self.points) for own_values in state.values[seat : seat + 1]
        ]
        number_rows += [
            (2, claim, self.max_items) for claim in state.claims[seat : seat + 1]
        ]
        for row, numbers, most in number_rows:
            if numbers:
                values[6 + row * kinds :][:kinds] = np.array(numbers) / most
        past = values[6 + 3 * kinds :].reshape(self.max_talk, 3 + kinds)
        for turn, utterance in enumerate(state.said):
            if utterance.move in SPOKEN:
                past[turn, SPOKEN.index(utterance.move)] = 1
            if utterance.values:
                most = self.points if utterance.move == "report" else self.max_items
                past[turn, 3:] = np.array(utterance.values) / most
        return values

    def action_text(self, state: State, action: Action) -> str:
        if isinstance(action, str):
            return f"{'values' if state.pool else 'items'} {action}"
        return talk.written(action, self.moves(state.pool))

    def moves_at(self, state: State) -> tuple[talk.Move, ...]:
        *talked, claim = self.moves(state.pool)
        return tuple(talked) if self.is_talking(state) else (claim,)

    def rules(self, seat: int) -> str:
        low, high, values = self.min_items, self.max_items, range(len(self.items))
        share = (1, *[0] * (len(self.items) - 2), 2)
        moves = self.moves(self._pools[0])[0 if self.max_talk else -1 :]
        shares = {"numbers": " ".join(map(str, share)), "wanted": self.counted(share)}
        worth = {"values": " ".join(map(str, values)), "worth": self.each_worth(values)}
        talked = "deal_or_no_deal_talk" if self.max_talk else "deal_or_no_deal_silent"
        return filled(
            "deal_or_no_deal",
            self,
            total=f"{low}" if low == high else f"{low} to {high}",
            kinds=[f"{item}s" for item in self.items],
            talk=filled(talked, self, **shares, **worth),
            how=talk.how_to_write(moves, self.longest),
            **shares,
        )

    def resample(self, state: State, seat: int, rng: random.Random) -> State:
        """Draws the hidden values of the other seat again, and its hidden claim uniformly."""
        pool, values, utterances, claims = state
        if values:
            pairs = deals_of(pool, self.points, self.split)
            values = hidden_again(pairs, values, seat, rng)
        if len(claims) == 1 and seat == 1:
            claims = (rng.choice(shares_of(pool)),)
        return State(pool, values, utterances, claims)

    @cached_property
    def hidden_answers(self) -> tuple[str, ...]:
        """Points of an item."""
        return tuple(map(in_words, range(self.points + 1)))

    def hidden(self, state: State, seat: int) -> tuple[str, str] | None:
        """What an item of the first kind is worth to the other seat; None before it is drawn."""
        if len(state.values) < 2:
            return None
        item = self.items[0]
        question = f"How many points is one {item} worth to player_{1 - seat}?"
        return question, in_words(state.values[1 - seat][0])

    @property
    def _pools(self) -> Sequence[Numbers]:
        return pools(len(self.items), self.min_items, self.max_items, self.points)


class Dealer(talk.Scripted):
    """Plays deal or no deal in one of three styles.

    - `honest` reports its values. It wants half of all points for itself, whatever the other player
      says, and of all shares that give it so much the one that is best for the other player: by
      its report, or by the mean of the values that it may have. It demands this share, ends the
      talk when that or another share of half its points is on the table, and claims it. So a
      player that reports its true values gets the most that it can get, and no lie gets more. From a
      player that has spoken twice and demanded nothing, it takes the best share for itself.
    - `greedy` demands and claims every item that is worth something to it.
    - `silent` ends the talk, and claims by convention: `player_0` gets the first half of the items.
    """

    game, styles = DealOrNoDeal, ("honest", "greedy", "silent")

    def reply(self, game: DealOrNoDeal, state: State, rng: random.Random) -> Utterance:
        seat = game.current_player(state)
        share = self._share(game, state, seat)
        if not game.is_talking(state):
            return Utterance("claim", share)
        if self.style == "silent":
            return END
        if self.style == "honest":
            if _latest_numbers(state, "report")[seat] is None:
                return Utterance("report", state.values[seat])
            if _on_the_table(state, seat) == share:
                return END
        return Utterance("demand", share)

    def _share(self, game: DealOrNoDeal, state: State, seat: int) -> Numbers:
        """The share that the seat wants."""
        if self.style == "greedy":
            pairs = zip(state.pool, state.values[seat], strict=True)
            return tuple(number if value else 0 for number, value in pairs)
        if self.style == "honest":
            return _half(game, state, seat)
        return convention(state.pool, seat)


def _half(game: DealOrNoDeal, state: State, seat: int) -> Numbers:
    """A share of at least half of the points: what is on the table, or the best for the other."""
    pool, own_values = state.pool, state.values[seat]
    offered = _on_the_table(state, seat)
    if offered is not None and 2 * worth(own_values, offered) >= game.points:
        return offered
    other_values = _latest_numbers(state, "report")[1 - seat]
    possible = partners(pool, game.points, own_values)
    if other_values not in possible:  # no report, or one that cannot be true
        other_values = tuple(map(sum, zip(*possible, strict=True)))
    enough = [
        share
        for share in shares_of(pool)
        if 2 * worth(own_values, share) >= game.points
    ]
    waits = offered is None and len(state.said[1 - seat :: 2]) > 1

    def worths(share: Numbers) -> tuple[int, int]:
        worth_of_both = (
            worth(other_values, rest(pool, share)),
            worth(own_values, share),
        )
        return worth_of_both[::-1] if waits else worth_of_both

    return max(enough, key=worths)


def _latest_numbers(state: State, move: str) -> list[Numbers | None]:
    """The numbers of each seat's latest utterance of this move."""
    latest: list[Numbers | None] = [None, None]
    for turn, utterance in enumerate(state.said):
        if utterance.move == move:
            latest[turn % 2] = utterance.values
    return latest


def _on_the_table(state: State, seat: int) -> Numbers | None:
    """The share that the latest demand gives to a seat."""
    for turn, utterance in reversed(list(enumerate(state.said))):
        if utterance.move == "demand":
            is_own = turn % 2 == seat
            return utterance.values if is_own else rest(state.pool, utterance.values)
    return None


def scene(game: DealOrNoDeal, state: State, viewer: int | None) -> Shapes:
    """The items, what they are worth to whom, the claims, and the talk."""
    over = len(state.claims) == 2
    rows = [cells("in the pool", *map(str, state.pool))]
    for seat, values in enumerate(state.values):
        texts = [str(v) if viewer in (None, seat) else "?" for v in values]
        rows.append(cells(seat_cell(seat), *texts))
    for seat, claim in enumerate(state.claims):
        is_known = over or viewer in (None, seat)
        texts = [str(number) if is_known else "?" for number in claim]
        rows.append(cells(seat_cell(seat, f"player_{seat} claims"), *texts))
    title = f"items, and what one is worth; all are worth {game.points} points to each"

    def action(turn: int, utterance: talk.Utterance) -> str:
        move, values = utterance.move, utterance.values
        if move == "report":
            return f"reports: {game.each_worth(values)}"
        if move == "demand":
            demand, left = map(game.counted, (values, rest(state.pool, values)))
            return f"demands {demand}, leaving {left}"
        return "ends the talk" if move == "end" else ""

    table = Table(title, ("", *game.items), rows)
    return [table, *talk_of(state.said, viewer, action)]
