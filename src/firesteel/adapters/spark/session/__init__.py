"""An attempt's context and Connect session, and all that is hung on a session: settings, present, cache, paths, files.

Runs in task processes. Nothing here knows what a region's plan is.
"""
