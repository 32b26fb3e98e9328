"""Examples and scripts are no modules to collect: they import their framework."""

collect_ignore_glob = ["*/example.py", "*/offline.py", "*/survey.py"]
