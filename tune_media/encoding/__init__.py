"""Turns frames into clips, GIFs and PNGs, and back again.

In come frames or the bytes of a clip, out go the bytes of a clip or picture. It imports no other wing. It is the only
one that imports PyAV, which takes long: code that only reads results imports it inside the function that needs it.
"""

__all__ = ["decode", "encoder", "frames", "gif", "labels", "picture_files", "stills", "tiling"]
