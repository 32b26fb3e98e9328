"""Model cards that somebody else wrote."""

from pathlib import Path

import pytest

from arena_trainers.lm.card_file import read_card


def test_the_front_matter_is_read_apart_from_the_text(tmp_path: Path) -> None:
    card = tmp_path / "README.md"
    assert read_card(card) == ({}, "")
    card.write_bytes(b"\xef\xbb\xbf---\r\nlicense: mit\r\n---\r\n# Model\r\n")
    stated, text = read_card(card)
    assert stated == {"license": "mit"}
    assert text.splitlines() == ["# Model"]
    card.write_bytes(b"---\nlicense: mit\n---\n# Mod\xe8le\n")  # not UTF-8
    assert read_card(card) == ({"license": "mit"}, "# Mod\ufffdle\n")
    card.write_text("# Model\n\n---\nlicense: mit\n---\n")
    assert read_card(card) == ({}, card.read_text())


@pytest.mark.parametrize(
    "front",
    ["a: !!timestamp x", "a: &a [*a]", 2_000 * "[", "a: !!bool maybe", r'a: "\UFFFFFFFF"'],
)  # fmt: skip
def test_a_broken_front_matter_states_nothing(tmp_path: Path, front: str) -> None:
    card = tmp_path / "README.md"
    card.write_text(f"---\n{front}\n---\n# Model\n")
    assert read_card(card) == ({}, card.read_text())
