"""What a launched run starts, on a CPU: `serve` a stand-in for vLLM's server, or `train` as `arena train`."""

import runpy
import sys
from pathlib import Path

TESTS = Path(__file__).parents[2]


def serve(model, *options):
    """Answers as vLLM does at the port of the options, and notes them in its log."""
    stand_in = runpy.run_path(str(TESTS / "trainers" / "train" / "test_server.py"))
    port = int(options[options.index("--port") + 1])
    print("served with", *options, flush=True)
    stand_in["StandIn"](Path(model), port).serve_forever()


def train(*arguments):
    """Trains; each process prints the kinds of its weights when it saves the model."""
    runpy.run_path(str(TESTS / "scale" / "on_cpu.py"))["prepare"]("fsdp2")
    from arena_trainers.cli.main import main
    from arena_trainers.train.trainer import TurnGRPOTrainer

    save = TurnGRPOTrainer.save_model

    def noted(self, *args, **options):
        kinds = sorted({type(weight).__name__ for weight in self.model.parameters()})
        rank, folder = self.args.process_index, Path(self.args.output_dir)
        folder.with_name(f"rank{rank}.txt").write_text(" ".join(kinds))
        save(self, *args, **options)

    setattr(TurnGRPOTrainer, "save_model", noted)  # noqa: B010 - mypy refuses methods
    sys.argv = ["arena", "train", *arguments]
    main()


if __name__ == "__main__":
    {"serve": serve, "train": train}[sys.argv[1]](*sys.argv[2:])
