"""From files to batches: rows of files, their tokens, their ids in memory maps, and what stands together in a batch."""
