"""What a contributor finds around the code: decisions, changelog, versions."""

import datetime
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_decisions_are_numbered_in_order_and_dated() -> None:
    text = (ROOT / "docs" / "decisions.md").read_text()
    entries = re.findall(r"^## (\d+)\. .+\n\n\*(\S+)\.\*\n", text, re.MULTILINE)
    assert [int(number) for number, _ in entries] == [
        *range(1, text.count("\n## ") + 1)
    ]
    dates = [datetime.date.fromisoformat(date) for _, date in entries]
    assert dates == sorted(dates)
    assert not re.findall(r"^\*\*.+", text, re.MULTILINE)  # the form of an entry
