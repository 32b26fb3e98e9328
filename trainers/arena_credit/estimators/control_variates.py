"""`control_variates`: a baseline from other episodes, less the surprise of other turns."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from arena_credit.batch import Bools, Floats, Ints
from arena_credit.claims import UNBIASED, claims
from arena_credit.estimators.levels import levels
from arena_credit.estimators.slopes import (
    Columns,
    GroupSlopes,
    Layout,
    Shrinkage,
    Slopes,
    TurnBlock,
    common_slope,
    fit,
    predict,
    shrunk,
    slopes_of,
)
from arena_credit.needs import needs
from arena_credit.pools import (
    ROUNDED,
    Credit,
    check_flag,
    pools_by,
    return_moments,
    with_report,
)
from arena_credit.tokens import (
    expected_squares,
    has_surprise,
    surprise_z,
    surprises,
)
from arena_credit.trajectories import (
    Trajectories,
    differs_from_before,
    discounted_sums,
    returns_to_go,
)

MAX_FOLDS = 16
MAX_SEATS_APART = 3  # other seats with columns of their own; more are added up
SHRINKAGE = Shrinkage()
LEAST_SURPRISE = 1e-10  # mean square, in nats²; a smaller one is rounding


@claims(
    UNBIASED,
    bootstraps=False,
    shift=True,
    groups_apart=False,
    seats_apart=False,
    singleton_pool="return",
    noise=1.2,
    max_ms=1500,
)
@needs(
    with_option={
        "surprise": (
            "num_tokens",
            "tokens.logprob",
            "tokens.entropy",
            "tokens.span",
        ),
        "action_values": ("value", "action_value"),
    }
)
def control_variates(
    turns: Trajectories,
    *,
    discount: float = 1.0,
    surprise: bool = True,
    action_values: bool = False,
) -> Credit:
    """Credits a turn with its return-to-go less what other episodes and later surprise predict.

        Aₖ = Rₖ - Bₖ - Σ_{j > k} γ^{j - k} βⱼ mⱼ - Σ of other seats' surprise, weighed likewise

    mⱼ is the surprise of a turn, Σ over its tokens of (log π + H). Its mean is 0 given all
    that came before, so its slope βⱼ, which other episodes tell, adds no bias: luck of later
    choices leaves the credit of this one (trajectory-wise control variates). Bₖ is the best
    linear unbiased prediction of the rest from other episodes. It has a level, nested from
    seat over turn to group and turn, and slopes by what the seat was paid before and by its
    earlier surprise.
    In groups of at least four, the slope of a turn may differ by group, as a group's states may be
    alike.
    Slopes are ridge regressions without the fold of the episode (up to 16 folds). A slope is
    used as far as its F statistic shows that it is not 0, and less for a row far from those
    that it was fitted to. Squares of surprise are at least what `expected_squares` tells, since
    a small batch may hold none of the rare choices. Means leave out the own episode or turn tree (`parent`).
    `docs/credit/surprise.md` has all equations.

    Without the token columns `logprob` and `entropy`, m is 0 and the baseline remains. A third
    token column `span`, 0 for reasoning and 1 for the answer, gives each its own slope. The report
    has `surprise_z`, by which `estimate` warns of columns that are not of the same distribution.

    With `action_values`, a critic's Q(s, a) - V(s) is a further column beside the surprise. Its
    mean is 0 where V(s) = Σ π(a | s) Q(s, a), however wrong Q is: with `critic: exact`, `features`
    or `tokens`.

    Reduces to: `mars_loo` with one-turn episodes of one group and without surprise.

    Bias:

    - *Unbiased when*: γ = 1 and no limit cuts an episode, in batches of any size, and
      `logprob` and `entropy` are of the distribution that sampled. Groups may share the draws
      of chance. Slopes and variances may be wrong.
    - *Biased by*: truncation (the missing return counts as 0); γ < 1 (late rewards count
      less); an entropy or log-probability of another distribution than that which sampled;
      with `action_values`, a value that is not the policy's mean of the action values
      (`critic: utterances`).
    - *Number*: cosine 1.000, factor 1.000 in `toll`, batches of two; cosine 1.000, factor
      1.000 in `hidden_card`, shared chance (`arena credit check`).

    See "Trajectory-wise Control Variates for Variance Reduction in Policy Gradient Methods" by
    Cheng, Yan and Boots (https://arxiv.org/abs/1908.03263). Departs from it: the control
    variate is the surprise, which needs no critic. For evaluation: "AIVAT" by Burch et al.
    (https://arxiv.org/abs/1612.06915). Random effects of turns: DerSimonian and Laird,
    "Meta-analysis in clinical trials", 1986.

    Args:
        turns: the turns that count.
        discount: γ, per turn of the same seat.
        surprise: whether surprise is used where the batch has it.
        action_values: whether the columns `value` and `action_value` are used.

    Returns:
        float64[N], in the reward's unit; 0 where masked, Rₖ where the seat has no other
        episode.

    Raises:
        ValueError: an option out of range, a span other than 0 and 1, or no action values where
            they are wanted.

    >>> from arena_credit import TurnBatch, estimate
    >>> one = dict(game=[0] * 3, seat=[0] * 3, turn=[0] * 3, group=[0] * 3)
    >>> turns = TurnBatch(reward=[0, 3, 9], episode=[0, 1, 2], **one)
    >>> estimate("control_variates", turns).advantage  # means of others: 6, 4.5 and 1.5
    array([-6. , -1.5,  7.5])
    """
    check_flag("surprise", surprise)
    check_flag("action_values", action_values)
    pools = pools_by(turns, ("game", "seat", "turn"))
    to_go = returns_to_go(turns, turns.column("reward"), discount)
    stats = return_moments(turns, pools, to_go, discount=discount)
    choices = choices_of(turns, surprise=surprise, action_values=action_values)
    credit = with_report(advantages(turns, choices, discount), pools, stats)
    if not (surprise and has_surprise(turns)):
        return credit
    report = replace(credit.report, surprise_z=surprise_z(turns))
    return credit._replace(report=report)


class Choices(NamedTuple):
    """Columns with mean 0 given what came before a turn: float64[M, S].

    squares: what their squares are expected to be, at least. in_rewards: bool[S], which are in
    the unit of the reward.
    """

    values: Floats
    squares: Floats
    in_rewards: Bools


def choices_of(
    turns: Trajectories, *, surprise: bool = True, action_values: bool = False
) -> Choices:
    """The surprise of each turn, and what its action is worth to a critic."""
    values = surprises(turns) if surprise else np.zeros((len(turns.row), 0))
    squares = expected_squares(turns) if surprise else values
    if action_values:
        above = turns.column("action_value") - turns.column("value")
        values = np.column_stack([values, above])
        squares = np.column_stack([squares, np.zeros(len(above))])
    in_rewards = np.arange(values.shape[1]) >= values.shape[1] - action_values
    return Choices(values, squares, in_rewards)


def advantages(
    turns: Trajectories,
    choices: Choices,
    discount: float = 1.0,
    shrinkage: Shrinkage = SHRINKAGE,
) -> Floats:
    """float64[M]: the advantages of `control_variates`, with any shrinkage of slopes."""
    advantage = np.zeros(len(turns.row))
    game = turns.column("game")
    for number in np.unique(game):
        rows = np.flatnonzero(game == number)
        of_game = choices._replace(
            values=choices.values[rows], squares=choices.squares[rows]
        )
        advantage[rows] = _of_game(turns, rows, of_game, discount, shrinkage)
    return advantage


class _Rows(NamedTuple):
    """Columns of the N rows of a seat, in the order of its layout.

    place: int64[N], among the rows of the game. trajectory: int64[N], its number.
    tree, fold: int64[N].
    to_go, paid: float64[N], divided by `unit`, about the largest return. tolerance:
    float64[N], squares that rounding may have made of `paid`. surprise: float64[N, S].
    square: float64[N, S], what the square of the surprise is expected to be, at least.
    """

    place: Ints
    trajectory: Ints
    tree: Ints
    fold: Ints
    to_go: Floats
    paid: Floats
    tolerance: Floats
    surprise: Floats
    square: Floats


class _Seat(NamedTuple):
    """The N rows of one seat of a game, trajectory by trajectory, in playing order.

    play: int64[N], the episode or rollout. turn: int64[N]. first: int64[N], place of the
    first row of the trajectory. surprise, square: float64[N, S], as in `_Rows`.
    unit: what rewards are divided by. layout: its rows turn by turn. by_turn: their columns.
    own_columns: of each block of the layout, the columns of its regression without sums of surprise.
    """

    play: Ints
    turn: Ints
    first: Ints
    surprise: Floats
    square: Floats
    unit: float
    layout: Layout
    by_turn: _Rows
    own_columns: list[Columns]

    @property
    def num_folds(self) -> int:
        return len(self.layout.training)

    @property
    def num_turns(self) -> int:
        return int(self.layout.numbers[-1]) + 1

    @property
    def num_trajectories(self) -> int:
        return int(self.by_turn.trajectory.max()) + 1


class _TurnSlopes(NamedTuple):
    """Slopes of a seat by turn: float64[K, T, S], and the share of each that is its own.

    mean, spread: float64[K, S], their mean over the turns and the variance between them.
    """

    slope: Floats
    share: Floats
    mean: Floats
    spread: Floats


class _Sums(NamedTuple):
    """Sums of the surprise of a seat, and of what its squares are expected to be.

    of_rows: float64[2, N + 1, K or 1], both sums over all rows before a place. of_turns:
    float64[2, T + 1, K], of a trajectory's turns before a turn: the fitted slopes in the sum,
    and the sum of the squares of all slopes.
    """

    of_rows: Floats
    of_turns: Floats


def _of_game(
    turns: Trajectories,
    rows: Ints,
    choices: Choices,
    discount: float,
    shrinkage: Shrinkage,
) -> Floats:
    """float64[len(rows)]: the advantages of one game.

    The first pass finds slopes with sums of plain surprise. The second weighs these sums with
    the slopes found.
    """
    seats = _seats(turns, rows, choices, discount)
    spans: list[list[_Spans]] = []
    fitted: list[_TurnSlopes] = []
    sums: list[_Sums] = []
    if choices.values.shape[1] > 0:
        spans = [_spans(seats, i) for i in range(len(seats))]
        plain = [_plain_sums(seat) for seat in seats]
        fitted = [
            _turn_slopes(seat, _columns(plain, spans[i], i), discount, shrinkage)
            for i, seat in enumerate(seats)
        ]
        sums = [_sums(*of_seat) for of_seat in zip(seats, fitted, strict=True)]
    advantage = np.zeros(len(rows))
    for i, seat in enumerate(seats):
        columns = _columns(sums, spans[i], i) if sums else None
        slopes = fitted[i] if fitted else None
        residuals, values = _residuals(seat, columns, slopes, discount, shrinkage)
        fold = seat.by_turn.fold
        level = levels(values, seat.layout, seat.by_turn.tree, fold)
        above = residuals[fold, np.arange(len(fold))] - level
        advantage[seat.by_turn.place] = above * seat.unit
    return advantage


def _seats(
    turns: Trajectories, rows: Ints, choices: Choices, discount: float
) -> list[_Seat]:
    """The seats of a game. Its trees are dealt to folds in their order, group by group."""
    reward, turn = turns.column("reward")[rows], turns.turn[rows]
    group, episode = turns.column("group")[rows], turns.batch.unit[turns.row[rows]]
    numbers, begins, tree = np.unique(
        turns.batch.tree[turns.row[rows]], return_index=True, return_inverse=True
    )
    tree = tree.ravel()
    order = np.lexsort((numbers, group[begins]))
    rank = np.empty(len(numbers), np.int64)
    rank[order] = np.arange(len(numbers))
    num_folds = min(MAX_FOLDS, len(numbers))
    play = differs_from_before(episode).cumsum() - 1
    seat, left = turns.column("seat")[rows], turns.left[rows]
    absolute_returns = discounted_sums(np.abs(reward), left, 1.0)
    seats = []
    for number in np.unique(seat):
        places = (seat == number).nonzero()[0]
        starts = differs_from_before(play[places])
        trajectory = starts.cumsum() - 1
        first = starts.nonzero()[0][trajectory]
        absolute_return = absolute_returns[places]
        # a power of 2, so that the division is exact; without rewards 1, as a critic may have values
        largest = float(absolute_return.max()) or 1.0
        unit = float(2.0 ** np.floor(np.log2(max(largest, 1e-290))))
        scaled = reward[places] / unit
        surprise, square = choices.values[places], choices.squares[places]
        surprise = surprise / np.where(choices.in_rewards, unit, 1.0)
        total = discounted_sums(scaled, left[places], 1.0)
        to_go = total
        if discount != 1:
            to_go = discounted_sums(scaled, left[places], discount)
        earlier = (absolute_return[first] - absolute_return) / unit
        tolerance = (ROUNDED * (earlier + absolute_return / unit)) ** 2
        tree_rank = rank[tree[places]]
        fold = tree_rank % num_folds
        training = fold != np.arange(num_folds)[:, None]
        layout = Layout(turn[places], group[places], tree_rank, training)
        by_turn = _Rows(
            place=places[layout.rows],
            trajectory=trajectory[layout.rows],
            tree=tree_rank[layout.rows],
            fold=fold[layout.rows],
            to_go=to_go[layout.rows],
            paid=(total[first] - total)[layout.rows],
            tolerance=tolerance[layout.rows],
            surprise=surprise[layout.rows],
            square=square[layout.rows],
        )
        mean_square = _mean_square(surprise, square, training)
        seats.append(
            _Seat(
                play=play[places],
                turn=turn[places],
                first=first,
                surprise=surprise,
                square=square,
                unit=unit,
                layout=layout,
                by_turn=by_turn,
                own_columns=[
                    _own_columns(block, by_turn, mean_square) for block in layout.blocks
                ],
            )
        )
    return seats


def _mean_square(surprise: Floats, expected: Floats, training: Bools) -> Floats:
    """float64[K, S]: mean square of the surprise over all turns, of other folds."""
    weight, square = training.astype(np.float64), surprise**2
    total = np.maximum(weight @ square, weight @ expected)
    return np.asarray(total / np.maximum(weight @ (square > 0), 1), np.float64)


def _plain_sums(seat: _Seat) -> _Sums:
    """Sums of the surprise of answers, for the first pass."""
    of_turns = np.zeros((2, seat.num_turns + 1, seat.num_folds))
    of_turns[1] = np.arange(seat.num_turns + 1)[:, None]
    return _Sums(_sums_before(seat.surprise[:, -1:], seat.square[:, -1:]), of_turns)


def _sums(seat: _Seat, fitted: _TurnSlopes) -> _Sums:
    """Sums of the surprise times its slopes, for the second pass."""
    slope = fitted.slope.swapaxes(0, 1)
    square = slope**2
    values = np.einsum("nks,ns->nk", slope[seat.turn], seat.surprise)
    expected = np.einsum("nks,ns->nk", square[seat.turn], seat.square)
    of_turns = _sums_before(fitted.share.sum(-1).T, square.sum(-1))
    return _Sums(_sums_before(values, expected), of_turns)


def _sums_before(*columns: Floats) -> Floats:
    """float64[C, N + 1, K]: of C columns, the sum of all rows before each place."""
    size, num_folds = columns[0].shape
    before = np.zeros((len(columns), size + 1, num_folds))
    for values, sums in zip(columns, before, strict=True):
        values.cumsum(axis=0, out=sums[1:])
    return before


class _Spans(NamedTuple):
    """Places in the sums of a seat: where a span begins, and where the next one begins.

    rows: int64[3, N], of each row of another seat, in the order of its layout: the begin of the
    play, the turn of the row, and the end of the play. turns: int64[3, T], likewise of each
    turn. A seat's spans among its own rows have no end.
    """

    rows: Ints
    turns: Ints


def _spans(seats: Sequence[_Seat], index: int) -> list[_Spans]:
    """The spans of one seat among the rows of each seat."""
    seat, order = seats[index], seats[index].layout.rows
    numbers = np.arange(seat.num_turns)
    spans = []
    for other in seats:
        turns = np.zeros((3, len(numbers)), np.int64)
        turns[1], turns[2] = np.minimum(numbers, other.num_turns), other.num_turns
        if other is seat:
            spans.append(_Spans(np.array([seat.first[order], order]), turns[:2]))
            continue
        stride = max(seat.num_turns, other.num_turns) + 1
        keys = np.zeros((3, len(order)), np.int64)
        keys[1], keys[2] = seat.turn[order], stride
        keys += seat.play[order] * stride
        places = other.play * stride + other.turn
        spans.append(_Spans(np.searchsorted(places, keys), turns))
    return spans


class _SurpriseColumns(NamedTuple):
    """The C columns of a seat's regressions that are sums of surprise.

    The first is of earlier turns of the trajectory. Then two for each other seat (or for all,
    if there are many): its turns before and after this one.

    of_rows: float64[2, C, N, K or 1], in the order of the layout: the columns, and what their
    squares are expected to be. of_turns: float64[2, C, T, K] of each, as in `_Sums`.
    """

    of_rows: Floats
    of_turns: Floats


def _columns(
    sums: Sequence[_Sums], spans: Sequence[_Spans], index: int
) -> _SurpriseColumns:
    """The columns of the seat with this index, with its spans among the rows of each seat."""
    of_rows, of_turns = [], []
    for of_seat, span in zip(sums, spans, strict=True):
        of_rows.append(_between(of_seat.of_rows, span.rows))
        of_turns.append(_between(of_seat.of_turns, span.turns))
    return _SurpriseColumns(_joined(of_rows, index), _joined(of_turns, index))


def _between(sums: Floats, places: Ints) -> Floats:
    """float64[2, P - 1, N, K]: sums from each place of int64[P, N] to the next."""
    before = sums.take(places, axis=1)
    return before[:, 1:] - before[:, :-1]


def _joined(columns: list[Floats], index: int) -> Floats:
    """The columns of all seats along axis 1, those of one seat first; those of many others add up."""
    others = [*columns[:index], *columns[index + 1 :]]
    if len(others) > MAX_SEATS_APART:
        others = [np.sum(others, axis=0)]
    return np.concatenate([columns[index], *others], axis=1)


def _turn_slopes(
    seat: _Seat, sums: _SurpriseColumns, discount: float, shrinkage: Shrinkage
) -> _TurnSlopes:
    """The first pass: fits the slopes of a seat's turns, the last turn first.

    Args:
        seat: its rows.
        sums: columns of its regressions.
        discount: γ.
        shrinkage: how much evidence a slope needs.
    """
    layout, threshold = seat.layout, shrinkage.threshold
    shape = (seat.num_folds, seat.num_turns, seat.surprise.shape[1])
    raw = Slopes(np.zeros(shape), np.full(shape, np.inf), np.zeros(shape, bool))
    rows, later = seat.by_turn, np.zeros((seat.num_folds, seat.num_trajectories))
    slopes_before = np.zeros(seat.num_folds)
    for block, own_columns in zip(
        layout.blocks[::-1], seat.own_columns[::-1], strict=True
    ):
        trajectory = rows.trajectory[block.places]
        after = later.take(trajectory, axis=1)
        value = rows.to_go[block.places] - after
        columns = _with_sums(own_columns, block, sums)
        here = slopes_of(fit(value, columns, block, shrinkage, slopes_before))
        for column, entry in zip(raw, here, strict=True):
            column[:, block.turn] = entry
        if block is layout.blocks[0]:
            break  # no turn comes before it
        mean, spread = common_slope(raw.after(block.turn), threshold)
        slope, share = shrunk(here, mean, spread, threshold)
        slopes_before = slopes_before + share.sum(-1)
        later[:, trajectory] = discount * (
            after + slope @ rows.surprise[block.places].T
        )
    mean, spread = common_slope(raw, threshold)
    slope, share = shrunk(raw, mean[:, None], spread[:, None], threshold)
    return _TurnSlopes(slope, share, mean, spread)


def _residuals(
    seat: _Seat,
    sums: _SurpriseColumns | None,
    fitted: _TurnSlopes | None,
    discount: float,
    shrinkage: Shrinkage,
) -> tuple[Floats, Floats]:
    """The second pass, with the slopes of the first; the only one without surprise.

    Args:
        seat: its rows.
        sums: columns of its regressions; None without surprise.
        fitted: the slopes of the first pass; None without surprise.
        discount: γ.
        shrinkage: how much evidence a slope needs.

    Returns:
        float64[K, N] in the order of the layout: the return-to-go less what later surprise,
        payments and other seats explain; and that less what the turn's own surprise explains,
        as others see it.
    """
    layout, rows, num_folds = seat.layout, seat.by_turn, seat.num_folds
    later = np.zeros((num_folds, seat.num_trajectories))
    slopes_before = np.zeros(num_folds)
    residuals, values = np.zeros((2, num_folds, len(seat.turn)))
    if fitted is not None:
        of_groups = GroupSlopes(rows.surprise, rows.square, layout, shrinkage)
    for block, own_columns in zip(
        layout.blocks[::-1], seat.own_columns[::-1], strict=True
    ):
        trajectory = rows.trajectory[block.places]
        after = later.take(trajectory, axis=1)
        value = rows.to_go[block.places] - after
        columns = _with_sums(own_columns, block, sums)
        model = fit(value, columns, block, shrinkage, slopes_before)
        residual = value - predict(model)
        residuals[:, block.places] = values[:, block.places] = residual
        if fitted is None:
            continue
        slope, share = shrunk(
            slopes_of(model), fitted.mean, fitted.spread, shrinkage.threshold
        )
        slopes_before = slopes_before + share.sum(-1)
        explained = slope @ rows.surprise[block.places].T
        explained += of_groups.explain(residual - explained, block)
        later[:, trajectory] = discount * (after + explained)
        values[:, block.places] -= explained
    return residuals, values


def _own_columns(block: TurnBlock, rows: _Rows, mean_square: Floats) -> Columns:
    """The columns of the regression of one turn that both passes have: choices, what was paid.

    What was paid is left out if it is 0, as before the first turn.
    """
    places, num_choices = block.places, rows.surprise.shape[1]
    paid = rows.paid[places]
    is_paid = int(paid.any())
    shape = (len(block.num), num_choices + is_paid)
    values = np.empty((*shape, len(paid)))
    values[:, :num_choices] = rows.surprise[places].T
    squares, tolerance = np.zeros(shape), np.empty(shape)
    squares[:, :num_choices] = block.training_by_row.T @ rows.square[places]
    tolerance[:] = LEAST_SURPRISE * block.num[:, None]
    if is_paid:
        values[:, num_choices] = paid
        tolerance[:, num_choices] = block.training_by_row.T @ rows.tolerance[places]
    return Columns(
        values=values,
        num_choices=num_choices,
        num_past=is_paid,
        tolerance=tolerance,
        slopes_inside=np.zeros(shape),
        least_square=mean_square,
        squares=squares,
    )


def _with_sums(
    own_columns: Columns, block: TurnBlock, sums: _SurpriseColumns | None
) -> Columns:
    """The columns of the regression of one turn, with sums of surprise after its own columns.

    A column of zeros is left out.
    """
    if sums is None:
        return own_columns
    of_surprise, expected = sums.of_rows[:, :, block.places]
    used = of_surprise.any(axis=(1, 2)).nonzero()[0]
    if len(used) == 0:
        return own_columns
    num_slopes, square = sums.of_turns[:, used, block.turn].swapaxes(1, 2)
    tolerance = LEAST_SURPRISE * block.num[:, None] * square
    squares = np.einsum("nk,cnk->kc", block.training_by_row, expected[used])
    num_folds, first, num_rows = own_columns.values.shape
    values = np.empty((num_folds, first + len(used), num_rows))
    values[:, :first] = own_columns.values
    values[:, first:] = of_surprise[used].transpose(2, 0, 1)
    return own_columns._replace(
        values=values,
        num_past=own_columns.num_past + int(used[0] == 0),
        tolerance=np.concatenate([own_columns.tolerance, tolerance], axis=1),
        slopes_inside=np.concatenate([own_columns.slopes_inside, num_slopes], axis=1),
        squares=np.concatenate([own_columns.squares, squares], axis=1),
    )
