"""`python -m arena_trainers` is the `arena` command, for torchrun."""

from arena_trainers.cli.main import main

if __name__ == "__main__":
    main()
