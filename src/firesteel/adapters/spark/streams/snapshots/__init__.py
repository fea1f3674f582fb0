"""Committed points of Structured Streaming queries, copied while the queries run. Files only: neither pyspark nor gRPC.

To call, from a thread (everything here blocks):

- `points`: `last_committed(checkpoint)`, `committed_point(checkpoint, batch)` (what a checkpoint records),
  `copy_point(source, target, batch, link=..., query_id=...)`
- `savepoints`: `write_savepoint(target, queries, header)`, `seal`, `read_manifest`, `verify`, `restore`, `dispose`,
  `savepoint_name(job_id)`
- `sinklogs`: the log of Spark's own file sink: `put_back(savepoint, uid, output)`
- `errors`: what they raise

The README says what a point consists of.
"""
