"""An experiment on disk: the files of its trials, read once for the viewer, the catalog and the trackers."""
