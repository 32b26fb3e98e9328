"""The script of the sharded runs is no test: it reads its arguments when it is imported."""

collect_ignore = ["script.py"]
