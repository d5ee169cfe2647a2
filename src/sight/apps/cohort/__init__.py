"""Cohorts: many recordings through one model, on one machine or a cluster, with tables and pages over all of them."""
