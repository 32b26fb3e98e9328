"""Tables for papers: labels, intervals, bold cells and captions."""

from rich.table import Table

from arena_trainers.cli.latex import latex_table, latex_tables


def table(*rows, heads=("policy", "seat", "n", "return (95 %)"), title="Kuhn poker"):
    made = Table(*heads, title=title)
    for row in rows:
        made.add_row(*row)
    return made


def body(text):
    return text.partition("\\midrule\n")[2].partition("\n\\bottomrule")[0].splitlines()


def test_an_interval_is_plus_minus_or_both_distances() -> None:
    lines = body(
        latex_table(
            table(
                ("a", "0", "9", "0.300 (0.200 to 0.401)"),
                ("b", "1", "9", "-0.100 (-0.400 to 0.100)"),
                ("c", "2", "9", "0.500 (exact)"),
            )
        )
    )
    assert lines[0] == r"a & 0 & 9 & $0.300 \pm 0.101$ \\"
    assert lines[1] == r"b & 1 & 9 & $-0.100^{+0.200}_{-0.300}$ \\"
    assert lines[2] == r"c & 2 & 9 & 0.500 \\"


def test_a_mean_and_its_ends_in_two_columns_become_one() -> None:
    heads = ("policy", "return", "95 %", "turns")
    text = latex_table(table(("a", "0.20", "0.10 to 0.30", "3"), heads=heads))
    assert r"policy & return & turns \\" in text
    assert body(text) == [r"a & $0.20 \pm 0.10$ & 3 \\"]


def test_bold_is_the_best_of_its_seat_if_no_other_interval_overlaps() -> None:
    lines = body(
        latex_table(
            table(
                ("a", "0", "9", "0.300 (0.200 to 0.400)"),
                ("b", "0", "9", "0.100 (0.050 to 0.150)"),
                ("a", "1", "9", "0.300 (0.200 to 0.400)"),
                ("b", "1", "9", "0.200 (0.150 to 0.250)"),
            )
        )
    )
    assert ["mathbf" in line for line in lines] == [True, False, False, False]


def test_bold_is_a_difference_whose_interval_excludes_0() -> None:
    heads = ("game", "policy", "n", "return (95 %)")
    lines = body(
        latex_table(
            table(
                ("x", "difference", "9", "-0.300 (-0.400 to -0.200)"),
                ("y", "difference", "9", "0.300 (-0.100 to 0.700)"),
                heads=heads,
            )
        )
    )
    assert ["mathbf" in line for line in lines] == [True, False]


def test_the_caption_says_n_and_what_the_interval_is() -> None:
    rows = [("a", "0", n, "0.3 (0.2 to 0.4)") for n in ("50", "9")]
    caption = latex_table(table(*rows)).splitlines()[1]
    assert "$n$ = 9 to 50 (n)" in caption
    assert r"half the width of the 95 \% interval" in caption


def test_lines_of_the_caption_are_sentences_and_exact_means_are_named() -> None:
    exact = table(("a", "0", "9", "0.5 (exact)"))
    exact.caption = "one line\nA sentence.\nanother"
    caption = latex_table(exact).splitlines()[1]
    assert "One line. A sentence. Another. $n$ = 9 (n). Means are exact" in caption


def test_each_table_has_a_label_of_its_own() -> None:
    text = latex_tables([table(), table(), table(title="50 % \\evil{}")])
    labels = [line for line in text.splitlines() if line.startswith("\\label")]
    assert labels == [
        r"\label{tab:kuhn-poker}",
        r"\label{tab:kuhn-poker-2}",
        r"\label{tab:50-evil}",
    ]
