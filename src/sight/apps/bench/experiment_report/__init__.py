"""Report of benchmark results: summaries, tables, figures and pages."""
