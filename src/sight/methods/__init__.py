"""Adaptation methods, one per module or package; `sight.registry` maps names to their classes."""
