"""The built-in selectors, one module for each way to decide; `data.selection` has the list."""
