"""High-availability services: who leads, and where jobs are kept."""
