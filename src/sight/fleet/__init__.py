"""Live fleets: a Spark stream of many wearers, each answered as an adapter of its own would.

`model` says what runs, `block` holds the wearers of a shard, `shard` advances them by what has arrived, `job` is the
Spark stream around it, `answers` reads what it wrote. Only `job` meets Spark, and only inside its functions.
"""
