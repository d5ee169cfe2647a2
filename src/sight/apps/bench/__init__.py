"""Benchmark: experiments of the SIGHT paper, their tables and figures, and timing of every method."""
