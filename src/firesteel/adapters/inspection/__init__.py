"""What a process tells of itself: files, threads, and jobs made of files."""
