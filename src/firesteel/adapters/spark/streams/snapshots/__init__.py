"""Committed points of Structured Streaming queries, copied while the queries run. Neither pyspark nor gRPC.

To call, from a thread (everything here blocks):

- `points`: `last_committed(checkpoint)`, `committed_point(checkpoint, batch)` (what a checkpoint records),
  `copy_point(source, target, batch, link=..., query_id=...)`
- `savepoints`: `write_savepoint(target, queries, header)`, `seal`, `read_manifest`, `verify`, `restore`, `dispose`
- `places`: `place_at(location, settings)`, for savepoints that may be in a bucket or in HDFS
- `sinklogs`: the log of Spark's own file sink: `put_back(log, query, output)`
- `errors`: what they raise

The README says what a point consists of.
"""
