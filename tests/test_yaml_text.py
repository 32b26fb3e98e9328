"""Texts in YAML that a stranger may have written."""

import pytest

from arena_envs import yaml_text


def nested_aliases(levels: int) -> str:
    """A value of 2 to the power of `levels` texts."""
    names = (f"k{n}: &k{n} [*k{n - 1}, *k{n - 1}]\n" for n in range(1, levels + 1))
    return "k0: &k0 x\n" + "".join(names)


def test_aliases_and_merged_mappings_are_read() -> None:
    text = "a: &a {x: 1}\nb: {<<: *a, y: 2}\nc: *a"
    assert yaml_text.read(text) == {"a": {"x": 1}, "b": {"x": 1, "y": 2}, "c": {"x": 1}}
    assert yaml_text.read("") is None
    assert len(yaml_text.read(nested_aliases(8))["k8"]) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &a [*a]", "an alias stands for a value that contains it"),
        ("a: &a {b: {c: *a}}", "an alias stands for a value that contains it"),
        (nested_aliases(40), "stand for more than 1,000,000 characters"),
        # merging copies the pairs of a mapping while it is read
        (
            "k0: &k0 {x: 1}\n"
            + "".join(f"k{n}: &k{n} {{<<: [*k{n - 1}, *k{n - 1}]}}\n" for n in range(1, 40)),
            "stand for more than 1,000,000 characters",
        ),
        (f"a: &a {'x' * 10_000}\nb: [{', '.join(200 * ['*a'])}]", "stand for more than"),
        ("2026-99-99", "month must be in 1..12"),
        ("!!bool maybe", "a value is not of its type"),
        ("!!int ''", "a value is not of its type"),
        ("!!timestamp x", "a value is not of its type"),
        (r'"\UFFFFFFFF"', "a value is not of its type"),
        ("1" + 300 * ":1" + ".0", "a value is not of its type"),
        ("seed: 0x" + 4_000 * "f", "an integer has more than 1,000 digits"),
        ("seed: " + 1_001 * "9", "an integer has more than 1,000 digits"),
        (f"seed: !!int {{=: '0x{6_000 * 'f'}'}}", "an integer has more than 1,000 digits"),
        ("[1", "expected ',' or ']'"),
        ("a: *b", "undefined alias"),
        ("a\x00", "special characters are not allowed"),
        (2_000 * "[", "nested more than 100 deep"),
        (101 * "[" + 101 * "]", "nested more than 100 deep"),
        # each level is short, and an alias of the level before
        (
            "k0: &k0 []\n" + "".join(f"k{n}: &k{n} [*k{n - 1}]\n" for n in range(1, 1_300)),
            "nested more than 100 deep",
        ),
        (f"!{3_000 * 'y'} x", "^could not determine a constructor.{250,300}$"),
    ],
)  # fmt: skip
def test_other_texts_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        yaml_text.read(text)


def test_values_up_to_the_limits_are_read() -> None:
    assert len(yaml_text.read("x" * 2_000_000)) == 2_000_000  # no alias
    assert yaml_text.read(1_000 * "9") == 10**1_000 - 1
    nest = yaml_text.read(100 * "[" + 100 * "]")
    for _ in range(99):
        (nest,) = nest
    assert nest == []
