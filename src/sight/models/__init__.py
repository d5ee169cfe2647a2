"""Trained classifiers: card, loading, wrapping, training and export."""
