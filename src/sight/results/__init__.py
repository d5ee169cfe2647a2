"""What comes out of a run: predictions, scores, tables, files and reports."""
