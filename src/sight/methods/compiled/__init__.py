"""Base of methods with a compiled step, states of many wearers and an exportable graph, and its parts."""
