"""Strings to ids and back, and ids into batches."""
