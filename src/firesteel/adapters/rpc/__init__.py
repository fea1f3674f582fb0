"""Transports: how envelopes travel."""
