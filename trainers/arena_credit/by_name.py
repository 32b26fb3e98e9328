"""Estimators by name: those of this package, and those of other distributions."""

import functools
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from arena_credit import estimators as families
from arena_credit.batch import TurnBatch
from arena_credit.claims import Claims
from arena_credit.needs import Needs, keeps_state, needs_of
from arena_credit.pools import (
    Credit,
    check_choice,
    check_finite_advantages,
    check_range,
    check_selected,
    warn_of_flat_pools,
)
from arena_credit.tokens import (
    NEEDED_WITHIN,
    WITHIN_TURN,
    credit_within,
    warn_of_surprise,
)
from arena_credit.trajectories import require, trajectories

if TYPE_CHECKING:
    from arena_envs.registry import Registry

Estimator = Callable[..., Credit]
ALIASES = {"grpo": "episode"}  # a second name of a built-in: its own name


def _declared() -> dict[str, Estimator]:
    """The estimators of this project: functions of `estimators` that declare their claims."""
    functions = {}
    for info in pkgutil.iter_modules(families.__path__):
        module = importlib.import_module(f"{families.__name__}.{info.name}")
        for name, function in vars(module).items():
            # a module may import the estimator of another
            is_defined_here = getattr(function, "__module__", None) == module.__name__
            if is_defined_here and isinstance(
                getattr(function, "claims", None), Claims
            ):
                functions[name] = function
    return dict(sorted(functions.items()))


BUILT_IN: Mapping[str, Estimator] = _declared()


@functools.cache
def estimators() -> "Registry[Credit]":
    """The registry of estimators; those of other distributions have the group `arena.credit`."""
    # here, as importing arena_envs imports PettingZoo and Gymnasium where they are installed
    from arena_envs.registry import Registry

    return Registry(
        "estimator",
        "arena.credit",
        BUILT_IN,
        reserved=("turns", "state"),
        aliases=ALIASES,
        kit="arena_credit.testing:check_estimator",
    )


def estimate(
    name: str | Estimator,
    turns: TurnBatch,
    *,
    state: Mapping[str, Any] | None = None,
    within_turn: str = "uniform",
    **options: Any,
) -> Credit:
    """Computes the advantage of every turn, or of every token.

    Numbers may come from float32. A spread of at most 1e-6 of the sum of absolute rewards
    counts as rounding, and its pool as flat (`arena_credit.pools`).

    Warns with `FlatPoolWarning` if all advantages of a pool are 0, as in a pool of one or
    of equal returns, or if one of two comparisons that an estimator adds is 0. The report
    tells which pools.

    Warns with `SurpriseWarning` if an estimator read the token columns `logprob` and `entropy`
    and they are not of the same distribution, as far as `surprise_z` can tell.

    Args:
        name: name of the estimator (`estimator_names()` lists all), or the function.
        turns: the turns of the whole batch, of all processes.
        state: the state that the estimator returned for the batch before, if it keeps one.
        within_turn: how tokens share the advantage of their turn. `"uniform"`: all have it.
            `"entropy"`: by the column `tokens.entropy` (`by_token_entropy`, biased).
            `"values"`: by the column `tokens.value`, in the advantage's unit
            (`by_value_differences` with λ = 1, adds no bias).
        **options: options of the estimator; its docstring explains them.

    Returns:
        The advantages in the order of the rows, the next state, and the report. Advantages
        are per token if `per_token` is true of the estimator and `within_turn`. The report
        is always about turns.

    Raises:
        ValueError: unknown estimator or option; an option out of range; a missing column;
            turns with `unselected` = false for an estimator that compares all turns; a
            state for an estimator without state; `within_turn` for an estimator that
            credits tokens; a wrong number of advantages; an advantage that is not finite; an
            advantage other than 0 where `unselected` is false.
        TypeError: the estimator returned something other than `Credit`.
        ImportError: the estimator's plug-in cannot be imported.

    >>> one = dict(game=[0, 0], seat=[0, 0], turn=[0, 0], group=[0, 0])
    >>> turns = TurnBatch(reward=[1, 4], episode=[0, 1], **one)
    >>> advantage, state, report = estimate("mars", turns)
    >>> advantage
    array([-1.5,  1.5])
    >>> for pool in report:
    ...     print(pool.key, pool.size, pool.mean)
    {'game': 0, 'seat': 0} 2 2.5
    """
    function, own_name = find_estimator(name), name_of(name)
    _check(function, own_name, options)
    declared = needs_of(function)
    tokens, own_tokens = per_token(name, within_turn), declared.per_token
    if keeps_state(function):
        options["state"] = state
    elif state is not None:
        raise ValueError(f"estimator {own_name!r} keeps no state, got {state!r}")
    live = trajectories(turns)
    if not live.unselected.all() and not declared.unselected_only:
        row = live.row[~live.unselected].min()
        raise ValueError(
            f"estimator {own_name!r} does not support turns that were selected by their "
            f"return, got unselected[{row}] = False; use "
            f"{estimators_with(lambda needs: needs.unselected_only)}"
        )
    require(live, *declared.columns, *NEEDED_WITHIN[within_turn])
    result = function(live, **options)
    if not isinstance(result, Credit):
        raise TypeError(
            f"want a Credit of estimator {own_name!r}, got {type(result).__name__}; make "
            "one with with_report(advantage, pools, stats)"
        )
    advantage = live.scatter(result.advantage, own_tokens)
    check_finite_advantages(own_name, advantage)
    check_selected(own_name, turns, advantage, own_tokens)
    if tokens and not own_tokens:
        credited = credit_within(live, result.advantage, within_turn)
        advantage = live.scatter(credited, per_token=True)
        check_finite_advantages(own_name, advantage)
    warn_of_flat_pools(own_name, result.report)
    if result.report.surprise_z is not None:
        warn_of_surprise(result.report.surprise_z)
    return result._replace(advantage=advantage)


def estimator_names() -> list[str]:
    """Names of all estimators, without `ALIASES`; a built-in hides a plug-in of its name."""
    return estimators().names()


def estimators_with(fits: Callable[[Needs], bool]) -> str:
    """The built-in estimators with needs that fit, as a text for errors.

    >>> estimators_with(lambda needs: "team" in needs.columns)
    "'advevo_public_baseline'"
    """
    return " or ".join(repr(n) for n, f in BUILT_IN.items() if fits(needs_of(f)))


def name_of(name: str | Estimator) -> str:
    """The own name of an estimator that is given by name or as a function.

    >>> name_of("mars"), name_of(BUILT_IN['mars']), name_of("grpo")
    ('mars', 'mars', 'episode')
    """
    if isinstance(name, str):
        return ALIASES.get(name, name)
    return getattr(name, "__name__", repr(name))


def find_estimator(name: str | Estimator) -> Estimator:
    """The estimator of this name or `"module:function"`; a function is returned unchanged.

    Raises:
        ValueError: unknown estimator, or neither a name nor a function.
        ImportError: the estimator's plug-in cannot be imported.
    """
    if callable(name):
        return name
    if not isinstance(name, str):
        raise ValueError(
            f"want the name of an estimator or a function, got {name!r:.80}"
        )
    parsed = estimators().read(name)
    if parsed.argument is not None or parsed.inner or parsed.options:
        raise ValueError(
            f"want the name of an estimator alone, got {name!r:.80}; give its options beside "
            f"it, as in estimate({parsed.name!r}, turns, discount=0.9)"
        )
    return estimators().find(parsed.name)


def with_options(
    text: str, options: Mapping[str, Any], registry: "Registry[Any] | None" = None
) -> tuple[str, dict[str, Any]]:
    """The name, and all options, of `NAME(key=value)` with options beside it.

    `registry` has the names; by default those of estimators.

    Raises:
        ValueError: unknown name; parentheses with something other than options; an
            option that is given twice.

    >>> with_options("mars(discount=0.9)", {"pool": ("group", "seat")})
    ('mars', {'pool': ('group', 'seat'), 'discount': 0.9})
    """
    if "(" not in text:
        return text, dict(options)
    parsed, kind = (
        (registry or estimators()).read(text),
        registry.kind if registry else "credit",
    )
    twice = sorted({*parsed.options} & {*options})
    if parsed.argument is not None or parsed.inner or twice:
        got = f"{twice[0]!r} in {kind}_args, too" if twice else repr(text)
        raise ValueError(
            f"want {kind} as NAME or NAME(key=value), each option once, got {got}; write "
            f"{kind}: {parsed.name}, and its options in {kind}_args"
        )
    return parsed.name, {**options, **parsed.options}


def needed_columns(
    name: str | Estimator, within_turn: str = "uniform"
) -> tuple[str, ...]:
    """The columns of `TurnBatch` that an estimator always reads, as it declares them.

    Args:
        name: name of the estimator, or the function itself.
        within_turn: as in `estimate`.

    Raises:
        ValueError: unknown estimator, or no such `within_turn`.
    """
    check_choice("within_turn", within_turn, WITHIN_TURN)
    needed = (*needs_of(find_estimator(name)).columns, *NEEDED_WITHIN[within_turn])
    return tuple(dict.fromkeys(needed))


def per_token(name: str | Estimator, within_turn: str = "uniform") -> bool:
    """True if advantages are per token: by `within_turn`, or by the estimator's `needs`.

    Args:
        name: name of the estimator, or the function itself.
        within_turn: as in `estimate`.

    Raises:
        ValueError: unknown estimator or `within_turn`, or a `within_turn` other than
            `"uniform"` for an estimator that credits tokens.
    """
    check_choice("within_turn", within_turn, WITHIN_TURN)
    of_tokens = needs_of(find_estimator(name)).per_token
    if of_tokens and within_turn != "uniform":
        raise ValueError(
            f"estimator {name_of(name)!r} credits tokens itself; want within_turn "
            f"'uniform', got {within_turn!r}"
        )
    return of_tokens or within_turn != "uniform"


def claims_of(name: str | Estimator) -> Claims:
    """The claims of an estimator; `Claims()` if it declares none.

    Args:
        name: name of the estimator, or the function itself.

    Raises:
        ValueError: unknown estimator.
        ImportError: the estimator's plug-in cannot be imported.
    """
    declared = getattr(find_estimator(name), "claims", None)
    return declared if isinstance(declared, Claims) else Claims()


def paper_of(name: str | Estimator) -> str:
    """The link to the paper of an estimator, the first in its docstring; "" without one.

    >>> paper_of("rloo")
    'https://arxiv.org/abs/2402.14740'
    """
    link = re.search(r"https://[^\s)>\]]+", docstring(name))
    return link[0].rstrip(".,;") if link else ""


def check_credit_options(name: str, options: Mapping[str, Any]) -> None:
    """Raises ValueError for an unknown estimator or option, as `estimate` does.

    >>> check_credit_options("mars", {"discont": 0.9})
    Traceback (most recent call last):
        ...
    ValueError: estimator 'mars' has no option 'discont'; did you mean 'discount'? \
Options are discount, pool, scale, ddof, eps, baseline
    """
    _check(find_estimator(name), name_of(name), options)


def docstring(name: str | Estimator) -> str:
    """The docstring of an estimator; "" if it has none.

    Raises:
        ValueError: unknown estimator.
    """
    return inspect.getdoc(find_estimator(name)) or ""


def default_options(name: str | Estimator) -> dict[str, Any]:
    """The options of an estimator with their defaults, without `state`.

    Raises:
        ValueError: unknown estimator.
    """
    parameters = list(inspect.signature(find_estimator(name)).parameters.values())[1:]
    return {
        p.name: p.default
        for p in parameters
        if p.name != "state" and p.kind is not p.VAR_KEYWORD
    }


def _check(function: Estimator, name: str, options: Mapping[str, Any]) -> None:
    from arena_envs.registry import check_options

    check_options(f"estimator {name!r}", function, options, ("state",), (None,))
    if "discount" in options:
        check_range("discount", options["discount"], 0, 1)
