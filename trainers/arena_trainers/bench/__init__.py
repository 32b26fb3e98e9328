"""The comparison of all estimators: tabular softmax self-play at equal samples.

`tabular` plays and learns, `experiment` says what is run, `statistics` compares, and `page`
draws and writes it.
"""
