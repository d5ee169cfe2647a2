"""Fleets: predictions for many live wearers in one Spark stream.

`fleet_model` has the options and the model, `shard_state` the wearers of a shard, `shard` updates them with arrived
rows, `spark_job` is the Spark stream, `output_files` reads its predictions. Only `spark_job` imports Spark, inside
functions.
"""
