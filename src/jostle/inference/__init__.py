"""What runs a user's model: a private copy, traced, in micro-batches, the original left as it was."""
