"""Embeddings: a request (model and pool) in, one row for each example out; they know no selector."""
