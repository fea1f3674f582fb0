"""The API server of Kubernetes: where it is, and what is asked of it."""
