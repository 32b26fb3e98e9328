"""The comparison of estimators and pools: tabular softmax self-play at equal samples.

`settings` and `variants` say what is run. `graph` and `tabular` play and learn, and
`exact_values` has the exact values of a policy. `learning` does one run, `models` one of a language
model, and `runs` keeps them. `statistics` and `comparison` compare; `tables`, `picture` and `page`
write. `facts` finds the kind of a game, and `guide` gives the advice for it.
"""
