"""Finds the media in a result dict and takes them out."""
