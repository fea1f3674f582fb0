"""Clusters in the background: started, found again and ended, on this host or on many.

Processes are started and ended here, never imported: what a master or a worker does is beyond their command lines.
"""
