"""What is compared: the published estimators, and some of them crossed with pools."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from arena_trainers.bench.exact_values import EXACT
from arena_trainers.bench.settings import SETTINGS
from arena_trainers.bench.tabular import COLUMNS
from arena_trainers.credit import default_options, estimator_names, needed_columns

POOLS: Mapping[str, tuple[str, ...]] = {
    "game, seat": ("game", "seat"),
    "game, seat, turn": ("game", "seat", "turn"),
    "group, seat": ("group", "seat"),
    "group, seat, turn": ("group", "seat", "turn"),
}  # by the title of a column of the crossing


@dataclass(frozen=True)
class Variant:
    """An estimator with options.

    Args:
        estimator: its name.
        options: besides the defaults.
    """

    estimator: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The estimator, and the options that differ from the published form.

        >>> Variant("mars", {"pool": ("game", "seat", "turn")}).name
        'mars (game, seat, turn)'
        """
        defaults = default_options(self.estimator)
        other = {k: v for k, v in self.options.items() if v != defaults[k]}
        pool = f" ({', '.join(other.pop('pool'))})" if "pool" in other else ""
        return self.estimator + pool + "".join(f" {k}={v}" for k, v in other.items())

    @property
    def all_options(self) -> dict[str, Any]:
        """The options of a run: undiscounted."""
        options = {**default_options(self.estimator), **self.options}
        return options | ({"discount": 1.0} if "discount" in options else {})


@dataclass(frozen=True)
class Line:
    """A line of the crossing: one estimator and scale, with each pool that it can have.

    Args:
        level: "turn", "episode" or "critic".
        title: in the table.
        cells: variant by the title of the pool; a pool that is missing cannot be combined.
    """

    level: str
    title: str
    cells: Mapping[str, Variant]


def _line(
    level: str, estimator: str, num_pools: int, title: str = "", **options: str
) -> Line:
    pools = list(POOLS.items()) if num_pools == 4 else _OF_TRAJECTORIES
    cells = {name: Variant(estimator, {**options, "pool": p}) for name, p in pools}
    return Line(level, f"`{estimator}`{title}", cells)


_OF_TRAJECTORIES = [(name, p) for name, p in POOLS.items() if "turn" not in p]
CROSSING = (
    _line("turn", "mars", 4),
    _line("turn", "mars", 4, " scale=std", scale="std"),
    _line("turn", "mars_loo", 4),
    _line("episode", "dr_grpo", 2),
    _line("episode", "episode", 2),
)
CRITIC = Line("critic", "`gae`", {"no pool": Variant("gae")})


def variants() -> dict[str, Variant]:
    """Everything that is compared, by name: the published forms, then the crossing."""
    published = [Variant(name) for name in estimator_names()]
    crossed = [variant for line in CROSSING for variant in line.cells.values()]
    return {variant.name: variant for variant in (*published, *crossed)}


def runnable(setting: str) -> list[str]:
    """The names of the variants whose columns a setting has."""
    columns = COLUMNS | EXACT if SETTINGS[setting].exact else COLUMNS
    return [
        name
        for name, variant in variants().items()
        if columns.issuperset(needed_columns(variant.estimator))
    ]
