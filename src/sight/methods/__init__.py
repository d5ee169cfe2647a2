"""Adaptation methods, one a file; `sight.registry` knows their names."""
