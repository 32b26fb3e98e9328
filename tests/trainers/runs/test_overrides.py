"""Options of a command line for the stages of a recipe with rounds."""

import pytest
import yaml

from arena_trainers.runs import overridden

PLAY, SFT = {"episodes": 6}, {"trainer": "sft", "max_steps": 2}
ROUNDS = {
    "num": 2,
    "play": PLAY,
    "select": "wins",
    "train": [SFT, SFT],
}


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("rounds", 1, {"num": 1}),
        ("rounds.num", 1, {"num": 1}),
        ("rounds.play.samples", 2, {"play": {"episodes": 6, "samples": 2}}),
        (
            "rounds.play.branch.follow",
            "all",
            {"play": PLAY | {"branch": {"follow": "all"}}},
        ),
        ("rounds.train.beta", 0.1, {"train": [SFT | {"beta": 0.1}] * 2}),
        ("rounds.train.1.beta", 0.1, {"train": [SFT, SFT | {"beta": 0.1}]}),
        ("rounds.train.1", {}, {"train": [SFT, {}]}),
        ("rounds.play", {}, {"play": {}}),
        ("rounds.select", "wins(top=0.1)", {"select": "wins(top=0.1)"}),
    ],
)
def test_the_command_line_changes_an_option_of_a_stage(name, value, found):
    assert overridden({"rounds": ROUNDS}, {name: value}) == {"rounds": ROUNDS | found}


def test_a_recipe_without_rounds_has_no_option_of_a_stage(arena_here):
    done = arena_here("train", "spiral", "--rounds.num", "2")
    assert "unknown option 'rounds.num'" in done.stderr


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("rounds.train.2.beta", "1", "rounds.train is a list of 2, counted from 0"),
        ("rounds.num.a", "1", "rounds.num is 2 and has no options"),
        ("rounds.paly.samples", "1", "rounds has no option 'paly'; did you mean"),
        (
            "rounds.play.episodes",
            "0",
            "rounds.play: want episodes of at least 1, got 0",
        ),
        (
            "rounds.play.samples",
            "a",
            "rounds.play: want an integer as samples, got 'a'",
        ),
    ],
)
def test_a_bad_option_of_a_stage_is_refused(arena_here, tmp_path, name, value, message):
    (tmp_path / "loop.yaml").write_text(yaml.safe_dump({"rounds": ROUNDS}))
    done = arena_here("train", "loop.yaml", f"--{name}", value, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
