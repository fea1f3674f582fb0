"""Streams: the queries of a streaming attempt, and the directories of their checkpoints."""
