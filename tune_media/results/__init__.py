"""Finds the media in a result dict and takes them out.

Comes in: a result as Tune's callbacks get it. Goes out: the media with their places and ids, the new episodes of the
old API stack, and a result that every logger can write. It may import ``values``.
"""

__all__ = ["clean", "content_ids", "old_api_stack", "raw_clips", "reader"]
