"""Content-addressed blobs of this machine, and the worker's unpacked artifacts."""
