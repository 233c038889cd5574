"""The files of one trial: the media, their index, the episode data; and the log of an experiment.

In come media and their places, or a folder. Out go files and index lines. It imports ``values``, and ``encoding`` only
to read the header of a clip.
"""
