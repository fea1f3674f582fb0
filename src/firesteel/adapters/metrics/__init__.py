"""Figures of processes, and their form for Prometheus."""
