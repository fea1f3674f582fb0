"""Clients of a cluster on the network."""
