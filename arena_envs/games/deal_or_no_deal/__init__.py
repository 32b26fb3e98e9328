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
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from arena_envs import talk
from arena_envs.game import (
    CHANCE,
    TERMINAL,
    Vector,
    check_split,
    counted,
    hidden_again,
    next_entries,
    np,
    param,
)
from arena_envs.games.deal_or_no_deal import state as deals
from arena_envs.games.deal_or_no_deal.state import (
    MEASURES,
    SPOKEN,
    Numbers,
    State,
    checked_items,
    core,
    moves_of,
)
from arena_envs.talk import Utterance

__all__ = ["DealOrNoDeal", "State"]

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
    scene = "arena_envs.games.deal_or_no_deal.scene:scene"

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
        said = state.said
        return len(said) < self.max_talk and not (said and said[-1].move == "end")

    def chance_outcomes(self, state: State) -> list[tuple[Action, float]]:
        drawn = [(pool, 1 / len(self._pools)) for pool in self._pools]
        if state.pool:
            pairs = deals.deals_of(state.pool, self.points, self.split)
            drawn = next_entries(pairs, state.values)
        return [(" ".join(map(str, numbers)), chance) for numbers, chance in drawn]

    @property
    def instances(self) -> Sequence[Hashable]:
        return [
            (pool, *pair)
            for pool in self._pools
            for pair in deals.deals_of(pool, self.points, self.split)
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
        pool, values, said, claims = state
        if isinstance(action, str):
            drawn = tuple(map(int, action.split()))
            return State(pool, (*values, drawn)) if pool else State(drawn)
        if action.move == "claim":
            return State(pool, values, said, (*claims, action.values))
        return State(pool, values, (*said, action), claims)

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
        one, other = map(deals.worth, state.values, state.claims)
        return (one, other)

    def returns(self, state: State) -> tuple[float, float]:
        one, other = self.points_of(state)
        return (one / self.points, other / self.points)

    def measures(self, state: State) -> dict[str, float]:
        found, points = dict.fromkeys(MEASURES, 0.0), self.points_of(state)
        if state.said:
            false = [
                said.move == "report" and said.values != state.values[turn % 2]
                for turn, said in enumerate(state.said)
            ]
            found["lies"] = sum(false) / len(false)
        if self.agreed(state):
            best = deals.best_of(state.pool, (state.values[0], state.values[1]))
            found["agreement"] = 1.0
            found["efficiency"] = sum(points) / best.total
            found["nash_product"] = points[0] * points[1] / best.product
            found["pareto"] = float(points in best.efficient)
            found["envy_free"] = float(2 * min(points) >= self.points)
        return found

    def moves(self, pool: Numbers) -> tuple[talk.Move, ...]:
        """The moves of the talk, then the claim."""
        return moves_of(self.items, pool, self.points, self.messages)

    def observe(self, state: State, seat: int) -> str:
        player, now = self.current_player(state), "The game is over."
        if player == CHANCE:
            now = "The items and their values are being drawn."
        elif player >= 0:
            who = "you are" if player == seat else f"player_{player} is"
            now = (
                f"The talk is over: {who} to claim."
                if self.max_talk
                else f"Now {who} to claim."
            )
            if self.is_talking(state):
                turn = f"Turn {len(state.said) + 1} of {self.max_talk} of the talk"
                now = f"{turn}: {who} to speak."
        lines = [f"You are player_{seat}. {now}"]
        if len(state.values) == 2:
            own, there = self.each_worth(state.values[seat]), self.counted(state.pool)
            lines.append(f"The items: {there}. Worth to you: {own}.")
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
        said = state.said

        def told(turn: int) -> str:
            who, whom = (
                talk.named(player, seat) for player in (turn % 2, 1 - turn % 2)
            )
            who, (move, values, *_) = who.replace("you", "You"), said[turn]
            if move == "report":
                return f"{who} reported the values {self.each_worth(values)}"
            if move == "demand":
                left = self.counted(deals.rest(state.pool, values))
                return (
                    f"{who} demanded {self.counted(values)}, leaving {left} to {whom}"
                )
            return f"{who} {'said' if move == 'say' else 'ended the talk'}"

        def brief(turn: int) -> str:
            who, values = talk.named(turn % 2, seat), map(str, said[turn].values)
            move = {"report": "reported", "demand": "demanded"}.get(said[turn].move)
            return f"{who} {move} {' '.join(values)}" if move else ""

        return talk.transcript(said, seat, told, brief=brief)

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
        pool, values, said, claims = state
        known = claims if len(claims) == 2 else claims[seat : seat + 1]
        return (seat, len(claims), pool, values[seat : seat + 1], said, known)

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
        known = [(0, state.pool, self.max_items)]
        known += [(1, own, self.points) for own in state.values[seat : seat + 1]]
        known += [(2, claim, self.max_items) for claim in state.claims[seat : seat + 1]]
        for row, numbers, most in known:
            if numbers:
                values[6 + row * kinds :][:kinds] = np.array(numbers) / most
        past = values[6 + 3 * kinds :].reshape(self.max_talk, 3 + kinds)
        for turn, said in enumerate(state.said):
            if said.move in SPOKEN:
                past[turn, SPOKEN.index(said.move)] = 1
            if said.values:
                most = self.points if said.move == "report" else self.max_items
                past[turn, 3:] = np.array(said.values) / most
        return values

    def action_text(self, state: State, action: Action) -> str:
        if isinstance(action, str):
            return f"{'values' if state.pool else 'items'} {action}"
        return talk.written(action, self.moves(state.pool))

    def moves_at(self, state: State) -> tuple[talk.Move, ...]:
        *talked, claim = self.moves(state.pool)
        return tuple(talked) if self.is_talking(state) else (claim,)

    def rules(self, seat: int) -> str:
        low, high, points = self.min_items, self.max_items, self.points
        kinds = ", ".join(f"{item}s" for item in self.items)
        total = f"{low}" if low == high else f"{low} to {high}"
        share = (1, *[0] * (len(self.items) - 2), 2)
        numbers, wanted = " ".join(map(str, share)), self.counted(share)
        moves = self.moves(self._pools[0])[0 if self.max_talk else -1 :]
        return (
            f"This is deal or no deal: player_0 and player_1 divide {total} items ({kinds}). "
            "You read how many items of each kind there are, and what an item of each kind "
            f"is worth to you. All items together are worth {points} points to you, and also "
            f"{points} to the other player, whose values you do not know. Each kind is worth "
            "something to at least one player, and at least one kind to both. "
            f"{self._talk_text(numbers, wanted)}"
            f'"claim {numbers}" claims {wanted}; '
            "the numbers stand in the order of the items. The other player reads your claim "
            "when both have claimed. If the claims together are exactly all items, each "
            "player gets what it claimed; otherwise both get nothing. Your score is the "
            f"points that you get, divided by {points}. "
            f"{talk.how_to_write(moves, self.longest)}"
        )

    def _talk_text(self, numbers: str, wanted: str) -> str:
        if not self.max_talk:
            return "Both players claim items once, player_0 first. "
        values = range(len(self.items))
        return (
            "First you talk in turn, player_0 first, for at most "
            f"{counted(self.max_talk, 'turn')} of both together. "
            f'"report {" ".join(map(str, values))}" says what the items are worth to you: '
            f'{self.each_worth(values)}; it may be untrue. "demand {numbers}" says that you '
            f'want {wanted} and leave the rest to the other player. "end" ends the talk. '
            "Nothing that is said in the talk is binding. After the talk both players claim "
            "items once, player_0 first. "
        )

    def resample(self, state: State, seat: int, rng: random.Random) -> State:
        """Draws the hidden values of the other seat again, and its hidden claim uniformly."""
        pool, values, said, claims = state
        if values:
            pairs = deals.deals_of(pool, self.points, self.split)
            values = hidden_again(pairs, values, seat, rng)
        if len(claims) == 1 and seat == 1:
            claims = (rng.choice(deals.shares_of(pool)),)
        return State(pool, values, said, claims)

    @property
    def _pools(self) -> Sequence[Numbers]:
        return deals.pools(len(self.items), self.min_items, self.max_items, self.points)
