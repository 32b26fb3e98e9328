"""The plug-ins of docs/plugins.md pass their tests."""

import importlib
import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "plugins.md").read_text()
BLOCKS = dict(re.findall(r"```python\n# (\w+)\.py\n(.*?)```", PAGE, re.DOTALL))


@pytest.mark.parametrize(
    "name",
    [
        "my_game",
        "my_transform",
        "my_policy",
        "my_agent",
        "my_matchmaker",
        "my_curriculum",
        "my_measure",
        "my_selector",
        "my_trainer",
        "my_loss",
        "my_reward",
        "my_critic",
    ],
)
def test_the_plug_ins_of_the_page_pass_their_own_tests(name, tmp_path, monkeypatch):
    (tmp_path / f"{name}.py").write_text(BLOCKS[name])
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module(name)
    tests = [value for key, value in vars(module).items() if key.startswith("test_")]
    assert tests
    for test in tests:
        test()
