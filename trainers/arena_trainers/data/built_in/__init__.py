"""The built-in selectors, one module for each way to decide.

| decides | module | selectors |
|---|---|---|
| the returns of episodes | `returns` | `wins`, `best_of_group`, `outcome_pairs` |
| what the rules said of a reply | `verdicts` | `feedback_pairs`, `rule_labels` |
| a solver in the states of the episodes | `solver` | `solver_replies`, `solver_labels` |
| a model that grades replies | `judge` | `judged_pairs` |
| another selector, and a share of general conversations | `mixture` | `mixed` |
| the replies at the branches of turn trees | `branches`, `revisions` | `branch_pairs`, `revisions` |
"""
