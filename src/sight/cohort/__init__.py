"""Many people at once: cohorts of recordings on one machine or a cluster, fleets of live wearers on Spark."""
