"""Where sinks write: staging, commit and removal of files, by URI."""
