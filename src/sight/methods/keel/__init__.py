"""Keel: removes the bias of a classifier for one wearer, and filters its predictions between changes of activity."""

from sight.methods.keel.method import Keel

__all__ = ["Keel"]
