"""Results of a run: measurements, tables and curves, the model card."""
