"""What others are told of jobs: webhooks, lineage, and the operator's own listeners."""
