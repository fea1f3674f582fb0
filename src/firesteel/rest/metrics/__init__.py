"""Figures for Flink's metric routes and for Prometheus."""
