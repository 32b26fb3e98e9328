"""Texts of strangers have no escape sequences and no markup on the terminal."""

import ast
import io
import runpy
import sys
from pathlib import Path

import pytest
from rich.progress import Progress, TextColumn
from rich.table import Table

from arena_trainers.cli.latex import latex_table
from arena_trainers.cli.output import drawn, plain
from arena_trainers.terminal import Console, PrintableStream

ROOT = Path(__file__).parents[2]
ENDPOINT = runpy.run_path(str(ROOT / "tests" / "endpoint.py"))
SEQUENCES = "\x1b]0;TITLE\x07\x1b[31mRED\x1b[2J\x1b]52;c;cHduZWQ=\x07\r\x9b2J\u202e"
MARKUP = "[red]x[/red][/nope][link=file:///]y[/link]:smile:"
EVIL = SEQUENCES + MARKUP


def is_printable(text: str) -> bool:
    """Without what a stranger may not write; the colors of tables are ours."""
    return not {*"\x07\x9b\r\u202e"} & {*text} and not any(
        part in text for part in ("\x1b]", "\x1b[2J", "\x1b[31mRED")
    )


def on_terminal(*printed) -> str:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=300)
    for one in printed:
        console.print(one)
    return out.getvalue()


@pytest.fixture
def table() -> Table:
    table = Table("name", EVIL, title=EVIL, caption=EVIL)
    table.add_row(EVIL, "1")
    return table


def test_a_console_draws_every_text_as_it_is(table) -> None:
    shown = on_terminal(EVIL, table, drawn(table))
    assert is_printable(shown)
    assert shown.count("x[/red][/nope]") >= 6
    assert ":smile:" in shown


def test_tables_for_pipes_and_papers_keep_markup_as_text(table) -> None:
    assert MARKUP in plain(table)
    assert "[red]x[/red]" in latex_table(table)


def test_lines_and_bars_of_progress_are_printable() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=300)
    column = TextColumn("{task.description}", markup=False)
    with Progress(column, console=console) as bar:
        bar.add_task(EVIL, total=2)
        console.print(EVIL)
    shown = out.getvalue()
    assert "\ufffd]0;TITLE" in shown
    assert "\x1b]" not in shown
    assert "\u202e" not in shown


def test_a_stream_keeps_the_carriage_returns_of_bars_only() -> None:
    out = io.StringIO()
    stream = PrintableStream(out)
    for text in ("\r 3 of 4\r", "\r", "foo\rbar\n", "ok\tyes\n"):
        assert stream.write(text) == len(text)
    assert out.getvalue() == "\r 3 of 4\r\rfoo\ufffdbar\nok\tyes\n"


def test_the_streams_are_back_after_a_command(arena_here) -> None:
    arena_here("games", "--help")
    assert not isinstance(sys.stdout, PrintableStream)


def test_names_in_errors_are_printable(arena_here) -> None:
    done = arena_here("eval", EVIL, "kuhn_poker", "--against", "random")
    assert done.returncode == 2
    assert "TITLE" in done.stderr
    assert is_printable(done.stderr)


def test_what_an_endpoint_says_is_printable(arena_here) -> None:
    with ENDPOINT["serving"]() as endpoint:
        endpoint.behaviour = lambda number: f"400 {EVIL}"
        policy = f"api:m@{endpoint.url}"
        options = ("--against", "random", "-n", "1", "--no-baselines")
        done = arena_here("eval", policy, "kuhn_poker", *options)
    assert done.returncode != 0
    assert "TITLE" in done.stdout + done.stderr
    assert is_printable(done.stdout + done.stderr)


def test_no_module_draws_by_another_console_or_reads_markup() -> None:
    found = []
    for path in sorted((ROOT / "trainers" / "arena_trainers").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "rich" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if reads_markup(node):
                found.append((path.name, ast.unparse(node)))
    assert found == [("terminal.py", "import rich.console")]


def reads_markup(node: ast.AST) -> bool:
    """Whether a node imports Rich's console or markup, or a column of a bar reads markup."""
    if isinstance(node, ast.Import):
        return any(one.name.startswith("rich.") for one in node.names)
    if isinstance(node, ast.ImportFrom):
        names = {one.name for one in node.names}
        is_console = node.module == "rich.console" and "Console" in names
        return is_console or (
            node.module in ("rich", "rich.markup") and names != {"box"}
        )
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "TextColumn":
        return "markup=False" not in ast.unparse(node)
    return isinstance(node, ast.Attribute) and node.attr == "from_markup"
