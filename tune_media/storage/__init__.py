"""The files of one trial: the media, their index, the episode data."""
