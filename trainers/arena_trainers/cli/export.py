"""The command `arena data export`."""

from pathlib import Path
from typing import Annotated

import typer

from arena_studio.outputs import reading_advice
from arena_trainers.cli.errors import usage_errors
from arena_trainers.lm.models import adapter_base, saved_model


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN")],
    merged: Annotated[
        bool,
        typer.Option(
            "--merged", help="Write one whole model, adapters merged into it."
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder to make. [RUN/merged]", show_default=False
        ),
    ] = None,
) -> None:
    """Write a trained model so that other programs load it: transformers, vLLM, llama.cpp.

    RUN is the folder of a training run, or one with a saved model or adapter.

    For example:

    arena data export runs/first --merged
    """
    with usage_errors():
        source = run / "model" if (run / "model").is_dir() else run
        if not source.is_dir():
            advice = reading_advice(run, "give one such as runs/first")
            raise ValueError(
                f"want the folder of a run, found none at {str(run)!r}; {advice}"
            )
        if not merged:
            has = "holds the adapter alone"
            if adapter_base(str(source)) is None:
                has = "is the whole model already"
                saved_model(source)
            raise ValueError(
                f"want --merged, the form that can be written; {source} {has}"
            )
        from arena_trainers.lm.merge import write_merged

        target = run / "merged" if out is None else out
        size = write_merged(source, target)
    typer.echo(f"wrote {size:,} parameters, tokenizer and prompt options to {target}")
    typer.echo(f"  play it:  arena play kuhn_poker --against lm:{target}")
