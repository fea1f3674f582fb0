"""Bodies of requests and answers: msgspec structs with Flink's field names."""
