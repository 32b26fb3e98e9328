"""What the trainer knows of an estimator is what it declares; its name plays no role."""

import ast
import re
import textwrap
from pathlib import Path

import pytest

import arena_envs
import arena_trainers
from arena_credit import TurnBatch, estimate, estimator_names, needs
from arena_credit.batch import INT_COLUMNS
from arena_trainers import TurnGRPOConfig
from arena_trainers.train import check_credit

pytestmark = pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
PACKAGE = Path(arena_trainers.__file__).parent
TREES = {"branch": {"num_candidates": 2}}
ACCEPTED = [  # by estimators with a rule of their own
    ("gigpo", {}),
    ("salt", {}),
    ("at_grpo", TREES),
    ("agentprm", TREES),
    ("mt_grpo", {}),
    ("mt_grpo", {"part_weights": {"format": 0.0}}),
    ("bnpo", {"credit_args": {"min_return": -2.5, "max_return": 2}}),
    ("rae", {}),
    ("aepo", {}),
    ("gae", {"critic": "features"}),
]
REFUSED = [
    ("gigpo", TREES),
    ("salt", {"branch": {"num_candidates": 2, "follow": "random"}}),
    ("mt_grpo", {"part_weights": {"game": 0.0}}),
    ("mt_grpo", {"part_weights": {"format": 0}, "credit_args": {"outcome": "format"}}),
    ("bnpo", {"credit_args": {"min_return": -2, "max_return": 2}}),
    ("bnpo", {"credit_args": {"max_return": {"game": 1.0}, "parts": ["game"]}}),
    ("rae", {"credit_args": {"pool": ["group"]}}),
    ("aepo", {"within_turn": "entropy"}),
    ("gae", {}),
    ("mars", TREES),
]
NAMES = sorted({name for name, _ in ACCEPTED + REFUSED})
FORMS = ("same", "partial", "wrapped")


@pytest.fixture
def plugins(tmp_path, monkeypatch):
    """A distribution that gives these estimators again, under other names."""
    info = tmp_path / "other_names-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: other-names\nVersion: 1.0\n"
    )
    points = [f"{form}_{n} = other_names:{form}_{n}" for n in NAMES for form in FORMS]
    (info / "entry_points.txt").write_text("\n".join(["[arena.credit]", *points]))
    (tmp_path / "other_names.py").write_text(
        textwrap.dedent(
            f"""
            import functools
            from arena_credit.by_name import find_estimator

            def wrapper(estimator):
                @functools.wraps(estimator)
                def wrapped(*args, **options):
                    return estimator(*args, **options)
                return wrapped

            for name in {NAMES}:
                globals()["same_" + name] = find_estimator(name)
                globals()["partial_" + name] = functools.partial(find_estimator(name))
                globals()["wrapped_" + name] = wrapper(find_estimator(name))
            """
        )
    )
    monkeypatch.syspath_prepend(tmp_path)


def outcome(settings, name, overrides):
    """The columns that an estimator reads, or the error that refuses it."""
    args = TurnGRPOConfig(**settings | {"credit": name} | overrides)
    try:
        return check_credit(args, [arena_envs.make_game("kuhn_poker")])
    except ValueError as error:
        return str(error).replace(repr(name), "NAME")


def outcome_of_selected(name):
    """The advantages of a batch with a turn that was selected, or the error."""
    same = {key: [0, 0, 0] for key in ("game", "seat", "turn", "group", "state_key")}
    turns = TurnBatch(
        [1, 4, 9],
        episode=[0, 1, 2],
        action=[0, 1, 1],
        rewards={"game": [1, 4, 9]},
        num_tokens=[1, 1, 1],
        value=[0, 0, 0],
        truncated=[False] * 3,
        tokens={"entropy": [1, 2, 3]},
        unselected=[True, True, False],
        **same,
    )
    try:
        return estimate(name, turns).advantage.tolist()
    except ValueError as error:
        return str(error).replace(repr(name), "NAME")


@pytest.mark.usefixtures("plugins")
def test_an_estimator_is_treated_alike_under_every_name(settings):
    for name, overrides in ACCEPTED + REFUSED:
        expected = outcome(settings, name, overrides)
        assert isinstance(expected, str) == ((name, overrides) in REFUSED), expected
        for form in FORMS:
            got = outcome(settings, f"{form}_{name}", overrides)
            assert got == expected, (form, name, overrides)


@pytest.mark.usefixtures("plugins")
def test_selected_turns_are_refused_or_get_0_under_every_name():
    for name in NAMES:
        expected = outcome_of_selected(name)
        assert isinstance(expected, str) == (name not in ("agentprm", "at_grpo"))
        for form in FORMS:
            assert outcome_of_selected(f"{form}_{name}") == expected, (form, name)


def test_an_option_that_an_estimator_lacks_cannot_be_declared():
    for declared in ({"paid_part": "outcom"}, {"return_bounds": ("outcom", "high")}):
        with pytest.raises(ValueError, match="got 'outcom'; it has outcome"):

            @needs(**declared)
            def estimator(turns, *, outcome="game"): ...


def strings(path):
    """All strings of a module that are no docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    texts: set[ast.AST] = {n.value for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or node in texts:
            continue
        if isinstance(node.value, str):
            yield node.value


def test_no_module_that_checks_or_trains_holds_an_estimators_name():
    """Except for a suite, two losses of TRL with the same name, and the config's default."""
    names = {*estimator_names()} - {*INT_COLUMNS}  # `episode` is both
    word = re.compile(rf"\b({'|'.join(names)})\b")
    found = [
        (path.relative_to(PACKAGE).as_posix(), text)
        for folder in ("runs", "train")
        for path in sorted((PACKAGE / folder).rglob("*.py"))
        for text in strings(path)
        if word.search(text)
    ]
    files = "train/checks.py", "train/losses/averages.py"
    losses = [(file, name) for file in files for name in ("bnpo", "dr_grpo")]
    suite = "runs/checks/dry_run.py", "mars"
    default = "train/settings.py", TurnGRPOConfig.credit
    assert {*found} == {suite, *losses, default}
