"""Reads the files of experiments and shows them; needs no running Ray."""
