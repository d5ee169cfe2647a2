"""Encoder networks: windows to features, each with a linear head; all have about the size of the paper's CNN."""
