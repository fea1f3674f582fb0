"""Authoring: a user's functions become a JobGraph. Needs neither Spark nor a JVM."""
