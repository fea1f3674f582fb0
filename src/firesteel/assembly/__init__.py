"""Endpoints and adapters put together: what a master is made of, and what a worker is."""
