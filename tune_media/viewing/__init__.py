"""Shows experiments: as a catalog, tables, the page of the viewer, a gallery, a grid of clips.

In come the folders of experiments, out go rows, text, pages and rendered clips. It may import every wing but
evaluation, and needs no running Ray.
"""
