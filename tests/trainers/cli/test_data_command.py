"""`arena data select` chooses rows, says why, and writes them."""

from dataclasses import replace

import pytest
from datasets import Dataset, load_dataset

from arena_trainers.data import selectors
from arena_wrappers import Branching, play, write_episodes


@pytest.fixture
def files(tmp_path):
    """Random play of 20 seeds, and turn trees, whose parents are numbers of lines."""
    write_episodes(tmp_path / "flat.jsonl", play("kuhn_poker", "random", range(20)))
    trees = play("kuhn_poker", "random", range(20), branch=Branching(3))
    write_episodes(tmp_path / "trees.jsonl", trees)
    return [tmp_path / "flat.jsonl", tmp_path / "trees.jsonl"]


@pytest.fixture
def folder(policy, tmp_path):
    policy.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_the_list_names_every_selector_with_its_options(arena_here):
    told = arena_here("data", "select", "--list").stdout
    assert {line.split("\t")[0] for line in told.splitlines()[1:]} == {
        *selectors.names()
    }
    assert (
        "branch_pairs\tmargin=0.0, pairs=extremes, level=None, policies=None\t" in told
    )
    assert "solver_replies\tsolver, policies=None\t" in told


def test_rows_are_written_with_a_table_of_why(arena_here, files, folder, tmp_path):
    out = tmp_path / "pairs"
    words = ["data", "select", *files, "--by", "branch_pairs", "-o", "margin=0.5"]
    words += ["--model", folder, "--held-out", "0.3", "--out", out]
    done = arena_here(*words)
    assert done.returncode == 0, done.stderr
    assert (
        "# branch_pairs: kept\ngame\tseat\twhy\trows\ttokens\ttrained\n" in done.stdout
    )
    assert "# branch_pairs, held out: left out\nwhy\tnumber\n" in done.stdout
    assert "a branch where all candidates say the same\t" in done.stdout
    paths = [out / f"{name}-00000-of-00001.parquet" for name in ("train", "test")]
    paths.append(out / "README.md")
    splits = load_dataset(str(out), cache_dir=str(tmp_path / "cache"))
    assert list(splits) == ["train", "test"]
    seeds = []
    for path, rows in zip(paths, splits.values(), strict=False):
        assert f"wrote {len(rows)} rows to {path}" in done.stdout
        assert all(row["margin"] > 0.5 and row["chosen_ids"] for row in rows)
        seeds.append(set(rows["seed"]))
    assert not seeds[0] & seeds[1]
    before = [path.read_bytes() for path in paths]
    assert arena_here(*words).returncode == 0  # replaces its own files
    assert before == [path.read_bytes() for path in paths]


def test_a_dry_run_counts_and_writes_nothing(arena_here, files, folder, tmp_path):
    words = ["data", "select", files[0], "--by", "rule_labels", "--dry-run"]
    before = sorted(tmp_path.iterdir())
    assert (
        "messages without tokens; --model PATH adds them" in arena_here(*words).stdout
    )
    rows = arena_here(*words, "--model", folder).stdout.splitlines()[2:4]
    assert [row.split("\t")[2] for row in rows] == ["legal", "legal"]
    numbers = [row.replace(",", "").split("\t")[4:] for row in rows]
    assert all(int(a) > int(b) > 0 for a, b in numbers)
    assert sorted(tmp_path.iterdir()) == before


def test_bot_records_give_conversations_which_training_encodes(
    arena_here, files, tmp_path
):
    out = tmp_path / "wins.parquet"
    done = arena_here("data", "select", files[0], "--by", "wins", "--out", out)
    assert done.returncode == 0, done.stderr
    assert "messages without tokens; --model PATH adds them" in done.stdout
    rows = Dataset.from_parquet(str(out), cache_dir=str(tmp_path / "cache"))
    assert {"prompt", "completion", "weight"} < {*rows.column_names}
    words = ["--trainer", "sft", "--data", out, "--max_steps", 1, "--batch_size", 2]
    words += [
        "--tiny.hidden_size",
        16,
        "--tiny.num_layers",
        1,
        "--callbacks.eval_episodes",
        2,
    ]
    done = arena_here("train", *words, "--output-dir", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"{len(rows)} rows of at most" in done.stdout


def test_a_selector_that_keeps_nothing_says_why(arena_here, files, tmp_path):
    out = tmp_path / "none.parquet"
    words = ["--by", "wins", "-o", "above=5", "--out", out]
    done = arena_here("data", "select", files[0], *words)
    assert done.returncode == 1
    assert "return not above 5\t40" in done.stdout
    assert "no row was chosen; the table says why" in done.stderr
    assert not out.exists()


def test_bad_input_is_refused(arena_here, files, tmp_path):
    def refused(*words):
        done = arena_here("data", "select", *words)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.count("\n") == 1
        return done.stderr

    out = ["--out", tmp_path / "a.parquet"]
    assert "arena data select --list names" in refused(files[0])
    assert "did you mean 'wins'" in refused(files[0], "--by", "win", *out)
    assert "give it this suffix" in refused(files[0], "--by", "wins", "--out", "a")
    parquet = tmp_path / "rows.parquet"
    parquet.write_bytes(b"PAR1 and rows")
    assert "got " + str(parquet) + ", a Parquet file; give the episodes.jsonl" in (
        refused(parquet, "--by", "wins", *out)
    )
    unknown = refused(files[0], "--by", "wins", "-o", "x=1", *out)
    assert "selector 'wins' has no option 'x'; known are " in unknown
    assert "episodes" not in unknown.partition("known are")[2]
    few = [files[0], "--by", "wins", "--held-out", "0.000001", "--out"]
    assert "play more seeds" in refused(*few, tmp_path / "folder")
    assert "want --out FOLDER with --held-out" in refused(*few, tmp_path / "a.parquet")
    (tmp_path / "a.parquet").write_text("mine")
    assert "was not written by arena data select" in refused(
        files[0], "--by", "wins", *out
    )
    other = play("kuhn_poker", "random", [0])
    write_episodes(files[0], [replace(one, game="kuhn_pocker-v0") for one in other])
    assert "kuhn_pocker" in refused(files[0], "--by", "wins", "--dry-run")
