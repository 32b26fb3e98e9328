"""Two processes of which one works for longer than a collective call may take.

Arguments: a folder; then nothing for the calls alone, or `job` for a run of `arena train`. Each process
writes `rank0.txt` or `rank1.txt` if it came to its end.
"""

import datetime
import os
import sys
import time
from pathlib import Path
from unittest.mock import patch

import torch.distributed as dist

FOLDER, KIND = Path(sys.argv[1]), sys.argv[2:]
SECONDS = 10 if KIND else 1  # that a collective call may take
TIMEOUT, SLOW = datetime.timedelta(seconds=SECONDS), 1.5 * SECONDS


def calls(rank):
    """Long work of the main process, shares of which one is late, and an error of one."""
    from arena_trainers.processes import gather_shares, process_share, raised_everywhere

    dist.init_process_group(
        "gloo", f"file://{FOLDER}/store", TIMEOUT, world_size=2, rank=rank
    )
    with raised_everywhere():
        if rank == 0:
            time.sleep(SLOW)
    if rank == 1:
        time.sleep(SLOW)
    squares = gather_shares([n**2 for n in process_share(range(5))])
    try:
        with raised_everywhere():
            if rank == 1:
                raise ValueError("a fault of one")
    except ValueError as error:
        return f"{squares} {error}"
    return "no error"


def job(rank):
    """A run whose measurements and evaluation are slow in the main process; the episodes played here."""
    from arena_trainers.cli.main import main
    from arena_trainers.runs.callbacks.nash_conv import NashConvCallback
    from arena_trainers.runs.results import measure
    from arena_trainers.runs.results.measure import GameMeter
    from arena_wrappers import stream_plans

    num_played = []

    def counted(plans, **options):
        num_played.append(len(plans))
        return stream_plans(plans, **options)

    patch.object(measure, "stream_plans", counted).start()
    begin = dist.init_process_group

    def begin_impatiently(*args, **options):
        return begin(*args, **{**options, "timeout": TIMEOUT})

    def slowed(method):
        def slow(*args, **options):
            if rank == 0:
                time.sleep(SLOW)
            return method(*args, **options)

        return slow

    dist.init_process_group = begin_impatiently
    for owner, name in (
        (GameMeter, "measure"),
        (GameMeter, "evaluate"),
        (NashConvCallback, "measure"),
    ):
        setattr(owner, name, slowed(getattr(owner, name)))
    options = "--max_steps 1 --warm_start steps=1 --evaluate_every 1 --callbacks eval_episodes=9"
    sys.argv = ["arena", "train", *options.split(), "--output-dir", str(FOLDER / "run")]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
    return str(sum(num_played))


if __name__ == "__main__":
    if KIND:  # torchrun has started both
        rank = int(os.environ["RANK"])
        text = job(rank)
    else:
        rank = 1 if os.fork() == 0 else 0
        text = calls(rank)
    (FOLDER / f"rank{rank}.txt").write_text(text)
    if rank == 0 and not KIND:
        os.wait()
