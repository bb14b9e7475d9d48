"""What the commands share at the terminal: options, progress, results, statistics of a turn."""
