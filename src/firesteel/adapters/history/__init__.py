"""Jobs that have ended, kept beyond their cluster."""
